//! The nine situations of a re-entrant read-write lock.
//!
//! Eight combine the owner (the same or another one), the held side and the requested side. The
//! ninth is repeated re-entry.

use std::time::Duration;

use zk_recipes::session::{Client, RetryOn};
use zk_recipes::{LockError, Owner, RwLock};

use crate::recorded_connection::{
    CREATE2, DELETE, EXISTS, GET_CHILDREN2, MULTI, WATCH_NODE, recorded_client, started_recorded,
};
use crate::rwlock::{PATH, entries, expect_nobody, queue_reader, queue_writer, rw};
use crate::{settle, settle_node_watches, started};

const NOTHING: [[i32; 0]; 0] = [];

fn own(client: &Client) -> RwLock {
    rw(client).with_owner(&Owner::new())
}

#[tokio::test(start_paused = true)]
async fn same_owner_read_then_read() {
    let (server, client, record) = started_recorded().await;
    let lock = own(&client);
    let first = lock.read().acquire().await.unwrap();
    settle().await;
    record.take();
    let second = lock.read().acquire().await.unwrap();
    let third = lock.read().try_acquire().await.unwrap().expect("it has it already");
    assert_eq!(record.take(), NOTHING);
    assert_eq!((first.node(), first.token()), (second.node(), third.token()));
    first.release().await.unwrap();
    drop(second);
    settle().await;
    assert_eq!(record.take(), NOTHING, "one is left");
    third.check().await.unwrap();
    record.take();
    third.release().await.unwrap();
    assert_eq!(record.take(), [[DELETE]]);
    expect_nobody(&server, "released").await;
}

/// A waiting writer does not block an owner that reads from reading again.
#[tokio::test(start_paused = true)]
async fn same_owner_read_then_read_while_a_writer_waits() {
    let (_server, [one, other]) = started().await;
    let lock = own(&one);
    let first = lock.read().acquire().await.unwrap();
    let writer = queue_writer(&other).await;
    let second = lock.read().try_acquire().await.unwrap().expect("it has it already");
    assert!(own(&one).read().try_acquire().await.unwrap().is_none(), "another owner waits");
    drop(first);
    settle().await;
    assert!(!writer.is_finished());
    second.release().await.unwrap();
    drop(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn same_owner_read_then_write() {
    let (server, client, record) = started_recorded().await;
    let lock = own(&client);
    let reading = lock.read().acquire().await.unwrap();
    record.take();
    let refused = || LockError::WouldDeadlock { path: PATH.to_owned() };
    assert_eq!(lock.write().acquire().await.unwrap_err(), refused());
    assert_eq!(lock.write().try_acquire().await.unwrap_err(), refused());
    let timeout = Duration::from_secs(5);
    assert_eq!(lock.write().acquire_timeout(timeout).await.unwrap_err(), refused());
    assert!(refused().retry_on() != RetryOn::SameSession);
    assert_eq!(record.take(), NOTHING, "it is told at once");
    reading.check().await.expect("it goes on reading");
    reading.release().await.unwrap();
    lock.write().acquire().await.unwrap().release().await.unwrap();
    expect_nobody(&server, "released").await;
}

#[tokio::test(start_paused = true)]
async fn same_owner_write_then_read() {
    let (server, [other]) = started().await;
    let (one, record) = recorded_client(&server, 2).await;
    let lock = own(&one);
    let writing = lock.write().acquire().await.unwrap();
    let writer = queue_writer(&other).await;
    record.take();
    let reading = lock.read().acquire().await.unwrap();
    assert_eq!(record.take(), [[MULTI, EXISTS]]);
    let again = [
        lock.read().acquire().await.unwrap(),
        lock.read().try_acquire().await.unwrap().expect("it has it already"),
        writing.read().await.unwrap(),
    ];
    let writing_again = lock.write().acquire().await.unwrap();
    assert_eq!(record.take(), NOTHING);
    assert!(again.iter().all(|guard| guard.node() == reading.node()));
    assert_eq!(reading.token(), writing.token());

    drop((again, writing_again));
    writing.release().await.unwrap();
    settle().await;
    assert_eq!(entries(&server), ["__READ__0000000000", "__WRIT__0000000001"]);
    assert!(!writer.is_finished(), "a reader is at the place where the writer was");
    let refused = lock.write().try_acquire().await.unwrap_err();
    assert_eq!(refused, LockError::WouldDeadlock { path: PATH.to_owned() }, "it only reads now");
    reading.release().await.unwrap();
    drop(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn same_owner_write_then_write() {
    let (server, client, record) = started_recorded().await;
    let lock = own(&client);
    let first = lock.write().acquire().await.unwrap();
    record.take();
    let second = lock.write().acquire().await.unwrap();
    let third = lock.write().acquire_timeout(Duration::ZERO).await.unwrap().expect("it has it");
    assert_eq!(record.take(), NOTHING);
    assert_eq!((first.node(), first.token()), (second.node(), third.token()));
    first.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(record.take(), NOTHING);
    assert!(rw(&client).read().try_acquire().await.unwrap().is_none(), "it still writes");
    second.release().await.unwrap();
    expect_nobody(&server, "released").await;
}

#[tokio::test(start_paused = true)]
async fn other_owner_read_then_read() {
    let (server, [one, other]) = started().await;
    let first = own(&one).read().acquire().await.unwrap();
    let second = own(&other).read().acquire().await.unwrap();
    let third = own(&one).read().acquire().await.unwrap();
    assert_eq!(entries(&server).len(), 3, "each has a node of its own");
    for reader in [first, second, third] {
        assert!(reader.is_held());
        reader.release().await.unwrap();
    }
    expect_nobody(&server, "released").await;
}

#[tokio::test(start_paused = true)]
async fn other_owner_read_then_write() {
    let (_server, [one, other]) = started().await;
    let readers = [own(&one).read().acquire().await, own(&one).read().acquire().await];
    for client in [&one, &other] {
        assert!(own(client).write().try_acquire().await.unwrap().is_none());
    }
    let writer = queue_writer(&other).await;
    for reader in readers {
        assert!(!writer.is_finished());
        reader.unwrap().release().await.unwrap();
        settle().await;
    }
    assert!(writer.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn other_owner_write_then_read() {
    let (server, [one, other]) = started().await;
    let writing = own(&one).write().acquire().await.unwrap();
    for client in [&one, &other] {
        assert!(own(client).read().try_acquire().await.unwrap().is_none());
    }
    let readers = [queue_reader(&other).await, queue_reader(&one).await];
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    writing.release().await.unwrap();
    for reader in readers {
        assert!(reader.await.unwrap().is_held());
    }
    expect_nobody(&server, "dropped").await;
}

#[tokio::test(start_paused = true)]
async fn other_owner_write_then_write() {
    let (_server, [one, other]) = started().await;
    let first = own(&one).write().acquire().await.unwrap();
    for client in [&one, &other] {
        assert!(own(client).write().try_acquire().await.unwrap().is_none());
    }
    let second = queue_writer(&other).await;
    assert!(!second.is_finished());
    let token = first.token().unwrap();
    first.release().await.unwrap();
    assert!(second.await.unwrap().token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn same_owner_reentry_costs_one_node_and_one_watch_per_side() {
    let (server, client, record) = started_recorded().await;
    let lock = own(&client);
    drop(lock.write().acquire().await.unwrap()); // creates the path
    settle().await;
    record.take();
    let mut writers = vec![lock.write().acquire().await.unwrap()];
    assert_eq!(record.take(), [[CREATE2, GET_CHILDREN2]]);
    settle_node_watches().await;
    assert_eq!(record.take(), [[WATCH_NODE]]);
    let mut readers = Vec::new();
    for _ in 0..50 {
        writers.push(lock.clone().write().acquire().await.unwrap());
        readers.push(lock.clone().read().acquire().await.unwrap());
    }
    assert_eq!(record.take(), [[MULTI, EXISTS]], "the first reader's");
    settle_node_watches().await;
    assert_eq!(record.take(), [[WATCH_NODE]], "one node, one watch");
    for writer in writers {
        writer.release().await.unwrap();
    }
    assert_eq!(record.take(), [[DELETE]]);
    assert_eq!(entries(&server).len(), 1);
    for reader in readers {
        reader.release().await.unwrap();
    }
    assert_eq!(record.take(), [[DELETE]]);
    expect_nobody(&server, "released").await;
}

/// An owner with several write guards becomes a reader when the last of them is downgraded.
#[tokio::test(start_paused = true)]
async fn downgrade_keeps_writing_until_the_last_write_guard() {
    let (server, client, record) = started_recorded().await;
    let lock = own(&client);
    let outer = lock.write().acquire().await.unwrap();
    let inner = lock.write().acquire().await.unwrap();
    let token = outer.token().unwrap();
    let reading = inner.downgrade().await.unwrap();
    assert_eq!(entries(&server).len(), 2, "it goes on writing");
    outer.check().await.unwrap();
    record.take();
    let reading_too = outer.downgrade().await.unwrap();
    assert_eq!(record.take(), [[DELETE]], "it reads already");
    assert_eq!(reading.node(), reading_too.node());
    assert_eq!(entries(&server), ["__READ__0000000000"]);
    drop(reading_too);
    assert_eq!(reading.check().await, Ok(token));
    reading.release().await.unwrap();

    let writing = lock.write().acquire().await.unwrap();
    settle().await;
    record.take();
    let reading = writing.downgrade().await.unwrap();
    assert_eq!(record.take(), [[MULTI, EXISTS]]);
    settle_node_watches().await;
    assert_eq!(record.take(), [[WATCH_NODE]]);
    let again = lock.read().acquire().await.unwrap();
    assert_eq!(record.take(), NOTHING, "it holds what became of the write side");
    drop((reading, again));
    expect_nobody(&server, "dropped").await;
}
