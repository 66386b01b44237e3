//! Tests of a writer that goes on as a reader, on either side.

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{Guard, RwLock, WriteGuard};
use zk_tests::{Curator, contenders};

use crate::both;
use crate::script::acquire;

/// Adds a reader of ours, and waits until the queue at the lock's path has `count` contenders.
async fn reader(client: &Client, lock: &RwLock, count: usize) -> JoinHandle<Guard> {
    let side = lock.read().clone();
    let waiting = tokio::spawn(async move { side.acquire().await.unwrap() });
    contenders(client, lock.path(), count).await;
    waiting
}

/// Adds a writer of ours; see [`reader`].
async fn writer(client: &Client, lock: &RwLock, count: usize) -> JoinHandle<WriteGuard> {
    let side = lock.write().clone();
    let waiting = tokio::spawn(async move { side.acquire().await.unwrap() });
    contenders(client, lock.path(), count).await;
    waiting
}

/// Returns the nodes of each side. Both clients must list the same nodes in the same order.
async fn listed(lock: &RwLock, curator: &mut Curator) -> [Vec<String>; 2] {
    let readers = lock.read().participants().await.unwrap();
    let writers = lock.write().participants().await.unwrap();
    let ours =
        [readers, writers].map(|side| side.into_iter().map(|it| it.path).collect::<Vec<_>>());
    let theirs = ["read", "write"]
        .map(|side| curator.ok("observer", &format!("participants {side} {}", lock.path())));
    assert_eq!(ours, theirs);
    ours
}

/// Returns the sequence number at the end of a node's name.
fn number(node: &str) -> &str {
    &node[node.len() - 10..]
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_waiters_stay_behind_our_downgrade() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/rw-ours";
    let lock = RwLock::new(&client, PATH).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    let place = number(writing.node()).to_owned();
    curator.tell("reader", &acquire("read", PATH, -1));
    contenders(&client, PATH, 2).await;
    curator.tell("writer", &acquire("write", PATH, -1));
    contenders(&client, PATH, 3).await;

    let reading = writing.downgrade().await.unwrap();
    assert_eq!(number(reading.node()), place);
    assert_eq!(curator.answer("reader"), ["ok"]);
    let [readers, writers] = listed(&lock, &mut curator).await;
    assert_eq!((readers.len(), writers.len(), readers[0].as_str()), (2, 1, reading.node()));
    curator.ok("revoker", &format!("revoke {}", reading.node()));
    reading.revocation_requested().await.unwrap();
    curator.ok("reader", "release");
    assert_eq!(curator.ask("late", &acquire("read", PATH, 200)), ["timeout"]);
    contenders(&client, PATH, 2).await;
    assert!(reading.is_held());
    reading.release().await.unwrap();
    assert_eq!(curator.answer("writer"), ["ok"]);
    curator.ok("writer", "release");
}

/// Since 5.5, Curator's reader has the number of its write node, and excludes writers that waited
/// before the reader's node was created. Up to 5.4 it has a later number, and excludes only writers
/// that queue after it.
#[tokio::test(flavor = "multi_thread")]
async fn our_waiters_stay_behind_curators_downgrade() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/rw-theirs";
    let lock = RwLock::new(&client, PATH).unwrap();
    curator.ok("peer", &acquire("write", PATH, -1));
    let [_, writers] = listed(&lock, &mut curator).await;
    let waiting_reader = reader(&client, &lock, 2).await;
    curator.ok("peer", "read-too");
    let [readers, _] = listed(&lock, &mut curator).await;
    let keeps_its_place = readers.iter().any(|reader| number(reader) == number(&writers[0]));
    assert_eq!(readers.len(), 2);
    assert!(!waiting_reader.is_finished(), "the write node is still there");
    let late_writer = writer(&client, &lock, 4).await;

    curator.ok("peer", "release-write");
    let reading = waiting_reader.await.unwrap();
    reading.release().await.unwrap();
    let [readers, writers] = listed(&lock, &mut curator).await;
    assert_eq!((readers.len(), writers.len()), (1, 1));
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    assert!(!late_writer.is_finished(), "the reader that was a writer reads");
    curator.ok("peer", "release");
    late_writer.await.unwrap().release().await.unwrap();
    contenders(&client, PATH, 0).await;

    // A writer waits before the reader's node is created.
    curator.ok("peer", &acquire("write", PATH, -1));
    let early_writer = writer(&client, &lock, 2).await;
    curator.ok("peer", "read-too");
    curator.ok("peer", "release-write");
    if keeps_its_place {
        contenders(&client, PATH, 2).await;
        let short = Duration::from_millis(200);
        assert!(lock.read().acquire_timeout(short).await.unwrap().is_none());
        assert!(!early_writer.is_finished(), "the reader came in ahead of it");
        curator.ok("peer", "release");
        early_writer.await.unwrap().release().await.unwrap();
    } else {
        // CURATOR-621: no node distinguishes the holder from a waiter.
        early_writer.await.unwrap().release().await.unwrap();
        curator.ok("peer", "release");
    }
    contenders(&client, PATH, 0).await;
}
