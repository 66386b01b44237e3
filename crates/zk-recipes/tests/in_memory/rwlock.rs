//! The read-write lock: sharing, order and number of requests.

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode};
use zk_recipes::{Guard, RwLock, WriteGuard};
use zk_testing::{Settings, TestServer, Version};

use crate::recorded_connection::{GET_CHILDREN2, recorded_client, without_lease};
use crate::{children, client, queue, settle, settle_node_watches, started};

pub(crate) const PATH: &str = "/rw";

pub(crate) fn rw(client: &Client) -> RwLock {
    RwLock::new(client, PATH).unwrap()
}

/// Queues a reader.
pub(crate) async fn queue_reader(client: &Client) -> JoinHandle<Guard> {
    queue(rw(client).read()).await
}

/// Queues a writer.
pub(crate) async fn queue_writer(client: &Client) -> JoinHandle<WriteGuard> {
    queue(rw(client).write()).await
}

/// Returns the kind and number of each node, in queue order.
pub(crate) fn entries(server: &TestServer) -> Vec<String> {
    let mut entries: Vec<String> =
        children(server, PATH).iter().map(|name| name[name.len() - 18..].to_owned()).collect();
    entries.sort_by_key(|entry| entry[8..].to_owned());
    entries
}

pub(crate) async fn expect_nobody(server: &TestServer, what: &str) {
    settle().await;
    assert_eq!(children(server, PATH), [""; 0], "{what}");
}

/// Both readers have waited. The release of the second one does not tell the writer behind it that
/// the first one has released the lock, too.
#[tokio::test(start_paused = true)]
async fn writer_waits_for_every_reader_that_has_waited() {
    let server = TestServer::in_memory_with(Settings::new().version(Version::V3_9));
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let writing = rw(&one).write().acquire().await.unwrap();
    let (first, second) = (queue_reader(&one).await, queue_reader(&one).await);
    let writer = queue_writer(&other).await;
    writing.release().await.unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    second.release().await.unwrap();
    settle().await;
    assert!(first.is_held() && !writer.is_finished());
    first.release().await.unwrap();
    drop(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn reader_does_not_overtake_a_waiting_writer() {
    let (_server, [one, other]) = started().await;
    let reading = rw(&one).read().acquire().await.unwrap();
    let writer = queue_writer(&other).await;
    let late = queue_reader(&one).await;
    assert!(rw(&one).read().try_acquire().await.unwrap().is_none());
    assert!(!late.is_finished());
    writer.abort();
    let late = late.await.unwrap();
    assert!(reading.is_held() && late.is_held(), "the writer has given up");
}

#[tokio::test(start_paused = true)]
async fn participants_of_each_side_are_listed_separately() {
    let (_server, [one, other]) = started().await;
    let lock = rw(&one).with_data(*b"one");
    assert_eq!([lock.path(), lock.read().path(), lock.write().path()], [PATH; 3]);
    assert_eq!(lock.participants().await.unwrap(), []);
    let reading = lock.read().acquire().await.unwrap();
    let _writer = queue_writer(&other).await;
    let _reader = queue_reader(&other).await;
    one.create("/rw/a-stranger", b"", CreateMode::Persistent).await.unwrap();

    let nodes = |participants: Vec<zk_recipes::Participant>| -> Vec<(String, Option<u32>)> {
        let kind = |path: &str| path[..path.len() - 10].rsplit_once('-').unwrap().1.to_owned();
        let entry = |it: &zk_recipes::Participant| (kind(&it.path), it.sequence);
        participants.iter().map(entry).collect()
    };
    let (read, write) = ("__READ__".to_owned(), "__WRIT__".to_owned());
    let readers = lock.read().participants().await.unwrap();
    assert_eq!(
        (readers[0].path.as_str(), readers[0].data.as_slice()),
        (reading.node(), &b"one"[..])
    );
    assert_eq!(nodes(readers), [(read.clone(), Some(0)), (read.clone(), Some(2))]);
    assert_eq!(nodes(lock.write().participants().await.unwrap()), [(write.clone(), Some(1))]);
    let all = nodes(lock.participants().await.unwrap());
    assert_eq!(all, [(read.clone(), Some(0)), (write, Some(1)), (read, Some(2))]);
}

/// In Curator every reader watches the first writer. All readers wake, list and watch again
/// whenever a writer leaves.
#[tokio::test(start_paused = true)]
async fn readers_wake_only_after_the_last_writer_ahead_leaves() {
    const READERS: usize = 20;
    let (server, [writers]) = started().await;
    let (readers, record) = recorded_client(&server, 2).await;
    let first = rw(&writers).write().acquire().await.unwrap();
    let second = queue_writer(&writers).await;
    let mut waiting = Vec::new();
    for _ in 0..READERS {
        waiting.push(queue_reader(&readers).await);
    }
    assert_eq!(record.count(), 3 * READERS, "each: create, list, watches");

    first.release().await.unwrap();
    let second = second.await.unwrap();
    settle().await;
    assert_eq!(record.count(), 0, "the exit of the first writer is nothing to them");

    second.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in waiting {
        guards.push(reader.await.unwrap());
    }
    settle().await;
    let sent = without_lease(record.take().concat());
    assert_eq!(sent, [GET_CHILDREN2; READERS], "each lists once");
    settle_node_watches().await;
    let sent = without_lease(record.take().concat());
    assert_eq!(sent, [0; 0], "each guard keeps the watch of the waiter on its node");
    assert!(guards.iter().all(Guard::is_held));
}
