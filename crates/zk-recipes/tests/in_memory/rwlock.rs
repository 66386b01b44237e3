//! The read-write lock: sharing, order and number of requests.

use std::sync::Arc;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode};
use zk_recipes::{Guard, Lock, MultiLock, RwLock, WriteGuard};
use zk_testing::{Settings, TestServer, Version};

use crate::recorded_connection::{
    CREATE2, DELETE, GET_CHILDREN2, SET_WATCHES, WATCH_NODE, recorded_client, without_lease,
};
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

#[tokio::test(start_paused = true)]
async fn acquisitions_without_an_owner_are_separate_readers() {
    let (_server, [client]) = started().await;
    let lock = rw(&client);
    let first = lock.read().acquire().await.unwrap();
    let second = lock.read().try_acquire().await.unwrap().expect("readers share");
    assert_ne!(first.node(), second.node());
    assert!(first.is_held() && second.is_held());
    first.release().await.unwrap();
    assert!(second.is_held(), "each has a hold of its own");
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    lock.write().try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reader_of_a_writer_takes_the_position_of_the_writer() {
    let (server, [one, other]) = started().await;
    let writing = rw(&one).write().acquire().await.unwrap();
    let writer = queue_writer(&other).await;
    let reading = writing.read().await.unwrap();
    assert_eq!(reading.token(), writing.token());
    assert_eq!(entries(&server).len(), 3);
    writing.release().await.unwrap();
    settle().await;
    assert_eq!(entries(&server), ["__READ__0000000000", "__WRIT__0000000001"]);
    assert!(!writer.is_finished(), "a reader is at the place where the writer was");
    reading.check().await.unwrap();
    reading.release().await.unwrap();
    drop(writer.await.unwrap());
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

#[tokio::test(start_paused = true)]
async fn free_lock_costs_one_write_and_a_waiter_one_watch() {
    let (server, [holder]) = started().await;
    let (other, record) = recorded_client(&server, 2).await;
    rw(&holder).write().acquire().await.unwrap().release().await.unwrap(); // creates the path
    let reading = rw(&other).read().acquire().await.unwrap();
    assert_eq!(record.take(), [[CREATE2, GET_CHILDREN2]]);
    settle().await;
    assert_eq!(record.take(), [[0; 0]; 0], "a short hold needs no watch");
    settle_node_watches().await;
    assert_eq!(record.take(), [[WATCH_NODE]], "of the guard");
    reading.release().await.unwrap();
    assert_eq!(record.take(), [[DELETE]]);

    let writing = rw(&holder).write().acquire().await.unwrap();
    let waiting = queue_reader(&other).await;
    assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2], vec![SET_WATCHES]]);
    writing.release().await.unwrap();
    drop(waiting.await.unwrap());
    settle().await;
    // Another contender may have queued ahead of the reader, so it lists. Then the guard is
    // dropped.
    assert_eq!(record.take(), [[GET_CHILDREN2], [DELETE]]);
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

#[tokio::test(start_paused = true)]
async fn writer_wakes_only_when_its_predecessor_leaves() {
    let (server, [others]) = started().await;
    let (writer, record) = recorded_client(&server, 2).await;
    let mut readers = Vec::new();
    for _ in 0..10 {
        readers.push(rw(&others).read().acquire().await.unwrap());
    }
    let waiting = queue_writer(&writer).await;
    assert_eq!(record.count(), 3);
    let last = readers.pop().unwrap();
    for reader in readers {
        reader.release().await.unwrap();
    }
    settle().await;
    assert_eq!(record.count(), 0);
    last.release().await.unwrap();
    drop(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn multi_lock_holds_sides_of_several_rwlocks() {
    let (_server, [one, other]) = started().await;
    let locks: [Arc<dyn Lock>; 2] = [
        Arc::new(RwLock::new(&one, "/b").unwrap().write().clone()),
        Arc::new(RwLock::new(&one, "/a").unwrap().read().clone()),
    ];
    let held = MultiLock::in_canonical_order(locks).acquire().await.unwrap();
    let free = |path: &str| RwLock::new(&other, path).unwrap();
    assert!(free("/a").read().try_acquire().await.unwrap().is_some());
    assert!(free("/a").write().try_acquire().await.unwrap().is_none());
    assert!(free("/b").read().try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    assert!(free("/b").write().try_acquire().await.unwrap().is_some());
}
