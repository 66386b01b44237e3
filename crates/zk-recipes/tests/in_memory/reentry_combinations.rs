//! The nine situations of a re-entrant read-write lock.
//!
//! Eight combine the owner (the same or another one), the held side and the requested side. The
//! ninth is repeated re-entry.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::session::{Client, RetryOn};
use zk_recipes::{Lock, LockError, LossReason, Owner, RwLock};

use crate::recorded_connection::{
    DELETE, EXISTS, MULTI, WATCH_NODE, recorded_client, started_recorded,
};
use crate::rwlock::{PATH, entries, expect_nobody, queue_writer, rw};
use crate::{queue, running, settle, settle_node_watches, started};

const NOTHING: [[i32; 0]; 0] = [];

fn own(client: &Client) -> RwLock {
    rw(client).with_owner(&Owner::new())
}

fn side(lock: &RwLock, writes: bool) -> Arc<dyn Lock> {
    if writes { Arc::new(lock.write().clone()) } else { Arc::new(lock.read().clone()) }
}

#[tokio::test(start_paused = true)]
async fn same_owner_reenters_the_side_that_it_holds() {
    for writes in [false, true] {
        let (server, client, record) = started_recorded().await;
        let lock = side(&own(&client), writes);
        let first = lock.acquire_boxed().await.unwrap();
        settle().await;
        record.take();
        let second = lock.acquire_boxed().await.unwrap();
        let third = lock.try_acquire_boxed().await.unwrap().expect("it has it already");
        assert_eq!(record.take(), NOTHING);
        assert_eq!((first.nodes(), first.tokens()), (second.nodes(), third.tokens()));
        settle_node_watches().await;
        assert_eq!(record.take(), [[WATCH_NODE]], "one node, one watch");
        let lost = running(first.lost_boxed()).await;
        first.release_boxed().await.unwrap();
        drop(second);
        settle().await;
        assert_eq!(record.take(), NOTHING, "one is left");
        assert!(!lost.is_finished());
        let other = side(&rw(&client), !writes).try_acquire_boxed().await;
        assert!(third.is_held() && other.unwrap().is_none());
        settle().await;
        record.take();
        third.release_boxed().await.unwrap();
        assert_eq!(record.take(), [[DELETE]]);
        assert_eq!(lost.await.unwrap(), LossReason::Released);
        expect_nobody(&server, "released").await;
    }
}

#[tokio::test(start_paused = true)]
async fn other_owner_waits_unless_both_read() {
    for (holder_writes, writes) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = format!("holder writes: {holder_writes}, writes: {writes}");
        let (server, [one, other]) = started().await;
        let held = side(&own(&one), holder_writes).acquire_boxed().await.unwrap();
        let shares = !holder_writes && !writes;
        for client in [&one, &other] {
            let tried = side(&own(client), writes).try_acquire_boxed().await.unwrap();
            assert_eq!(tried.is_some(), shares, "{case}");
        }
        settle().await;
        let waiting = [&other, &one].map(|client| side(&own(client), writes));
        let waiting = [queue(&waiting[0]).await, queue(&waiting[1]).await];
        assert!(waiting.iter().all(|waiting| waiting.is_finished() == shares), "{case}");
        assert_eq!(entries(&server).len(), 3, "{case}: each has a node of its own");
        assert!(held.is_held());
        let token = held.tokens().unwrap();
        held.release_boxed().await.unwrap();
        for waiting in waiting {
            let guard = waiting.await.unwrap();
            assert!(guard.tokens().unwrap() > token, "{case}");
            guard.release_boxed().await.unwrap();
        }
        expect_nobody(&server, &case).await;
    }
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
