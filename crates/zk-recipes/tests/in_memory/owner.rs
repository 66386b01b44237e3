//! Owners: which acquisitions re-enter a held lock, which fail, and which wait.
//!
//! A re-entrant read-write lock has nine situations. Eight combine the owner (the same or another one), the
//! held side and the requested side. The ninth is repeated re-entry.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use zk_recipes::session::{Client, ErrorCode, RetryOn, SessionEnd};
use zk_recipes::{Lock, LockError, LossReason, MultiLock, Mutex, Owner, RwLock};
use zk_testing::Op;

use crate::recorded_connection::{
    DELETE, EXISTS, MULTI, WATCH_NODE, recorded_client, started_recorded,
};
use crate::rwlock::{PATH, entries, expect_nobody, queue_writer, rw};
use crate::{T, attempt, children, cut_off, queue, running, settle, settle_node_watches, started};

const LOCK: &str = "/lock";

fn mutex(client: &Client, owner: &Owner) -> Mutex {
    Mutex::new(client, LOCK).unwrap().with_owner(owner)
}

fn lost(reason: LossReason) -> LockError {
    LockError::Lost(reason)
}

#[tokio::test(start_paused = true)]
async fn writer_is_released_while_its_owner_acquires_the_read_side() {
    let (server, [client]) = started().await;
    let lock = RwLock::new(&client, LOCK).unwrap().with_owner(&Owner::new());
    for trouble in ["late", "lost", "throttled"] {
        let writing = lock.write().acquire().await.unwrap();
        let read_node = server.on(Op::Multi);
        match trouble {
            "late" => read_node.delay(T / 8),
            "lost" => read_node.drop_before_applying(),
            _ => read_node.answer(ErrorCode::THROTTLED_OP), // the next attempt is after the release
        };
        let place = writing.node().rsplit("__").next().map(str::to_owned);
        let reading = attempt(lock.read()).await;
        writing.release().await.unwrap();
        let is_writer = |name: &String| name.contains("__WRIT__");
        assert!(!children(&server, LOCK).iter().any(is_writer), "{trouble}");
        let reading = reading.await.unwrap().unwrap();
        reading.check().await.unwrap();
        let keeps_place = reading.node().rsplit("__").next() == place.as_deref();
        assert_eq!(keeps_place, trouble != "throttled", "{trouble}");
        reading.release().await.unwrap();
        settle().await;
        assert_eq!(children(&server, LOCK), [""; 0]);
    }
}

/// Only after a release does the owner queue again: it still has a guard of the lost lock.
#[tokio::test(start_paused = true)]
async fn owner_does_not_read_beside_a_writer_deleted_meanwhile() {
    let (server, [client, other]) = started().await;
    let lock = RwLock::new(&client, LOCK).unwrap().with_owner(&Owner::new());
    let writing = lock.write().acquire().await.unwrap();
    let throttled = server.on(Op::Multi).answer(ErrorCode::THROTTLED_OP);
    let read = lock.read().clone();
    let reading = running(async move { read.acquire().await.map(drop) }).await;
    other.delete(writing.node(), None).await.unwrap();
    assert_eq!(reading.await.unwrap(), Err(lost(LossReason::NodeDeleted)));
    assert_eq!((throttled.count(), children(&server, LOCK).len()), (1, 0));
}

/// In Curator, a thread can re-enter a lock only through the same lock object.
#[tokio::test(start_paused = true)]
async fn owner_reenters_through_any_handle_of_the_same_lock() {
    let (_server, [client]) = started().await;
    client.create("/apps", b"", zk_recipes::session::CreateMode::Persistent).await.unwrap();
    let owner = Owner::new();
    let lock = |client: &Client, path: &str| Mutex::new(client, path).unwrap();
    let guard = lock(&client, "/apps/lock").with_owner(&owner).acquire().await.unwrap();
    let within = client.chroot("/apps").unwrap();
    let again = lock(&within, "/lock").with_owner(&owner.clone()).try_acquire().await.unwrap();
    assert_eq!(again.expect("it is the same lock").token(), guard.token());
    let of_another = lock(&client, "/apps/lock").with_owner(&Owner::new());
    assert!(of_another.try_acquire().await.unwrap().is_none());
    let other_path = lock(&client, "/lock").with_owner(&owner).try_acquire().await.unwrap();
    assert_ne!(other_path.expect("it is free").token(), guard.token());
}

#[tokio::test(start_paused = true)]
async fn owner_does_not_reenter_from_another_session() {
    let (server, [one, other]) = started().await;
    let owner = Owner::new();
    let guard = mutex(&one, &owner).acquire().await.unwrap();
    let elsewhere = mutex(&other, &owner);
    assert!(elsewhere.try_acquire().await.unwrap().is_none(), "what it has is not of this session");
    assert!(server.expire(one.session_id()));
    guard.lost().await;
    let there = elsewhere.acquire().await.unwrap();
    let refused = mutex(&one, &owner).acquire().await.unwrap_err();
    let expired = LossReason::SessionEnded(SessionEnd::Expired);
    assert_eq!(refused, lost(expired), "the guard had no watch yet to tell of its node");
    assert!(there.is_held());
    drop(guard);
    let refused = mutex(&one, &owner).acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::Client(_)), "{refused}");
    assert!(elsewhere.try_acquire().await.unwrap().is_some(), "the other hold is as it was");
}

/// After the lease deadline, the session and the node still exist, so a new acquisition would wait for its
/// own node.
#[tokio::test(start_paused = true)]
async fn owner_does_not_reenter_a_lost_lock() {
    for (is_deleted, writes) in [(true, false), (true, true), (false, false), (false, true)] {
        let (server, [one, other]) = started().await;
        let lock = RwLock::new(&one, LOCK).unwrap().with_owner(&Owner::new());
        let own = side(&lock, writes);
        let (held, again) =
            (own.acquire_boxed().await.unwrap(), own.acquire_boxed().await.unwrap());
        let refused = if is_deleted {
            other.delete(held.nodes()[0], None).await.unwrap();
            assert_eq!(held.check_boxed().await, Err(lost(LossReason::NodeDeleted)));
            assert_eq!(own.try_acquire_boxed().await.unwrap_err(), lost(LossReason::NodeDeleted));
            lost(LossReason::NodeDeleted)
        } else {
            cut_off(&server, &one).await;
            // reason: virtual time, longer than the lease and shorter than the session timeout
            tokio::time::sleep(T * 19 / 20).await;
            lost(LossReason::LeaseDeadlinePassed)
        };
        assert_eq!(again.tokens(), Err(refused.clone()), "both know it");
        for side in [side(&lock, true), side(&lock, false)] {
            assert_eq!(side.acquire_boxed().await.unwrap_err(), refused, "{is_deleted}, {writes}");
        }
        server.accept_connects(0);
        one.exists("/").await.expect("the session lives on");
        assert_eq!(held.release_boxed().await, Err(refused.clone()));
        assert_eq!(own.acquire_boxed().await.unwrap_err(), refused, "one is left");
        drop(again);
        side(&lock, true).acquire_boxed().await.unwrap().release_boxed().await.unwrap();
    }
}

/// The lock counts as released from the first poll of `release` on. Later acquisitions queue.
#[tokio::test(start_paused = true)]
async fn owner_does_not_reenter_a_lock_during_its_release() {
    let (_server, [one]) = started().await;
    let lock = mutex(&one, &Owner::new());
    let guard = lock.acquire().await.unwrap();
    let (node, token) = (guard.node().to_owned(), guard.token().unwrap());
    let mut releasing = pin!(guard.release());
    assert!(releasing.as_mut().now_or_never().is_none());
    let next = lock.acquire().await.unwrap();
    assert_ne!(next.node(), node);
    assert!(next.token().unwrap() > token);
    releasing.await.unwrap();
    next.check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owner_queues_once_for_concurrent_acquisitions() {
    let (server, [other]) = started().await;
    let (one, record) = recorded_client(&server, 2).await;
    let in_the_way = mutex(&other, &Owner::new()).acquire().await.unwrap();
    let lock = mutex(&one, &Owner::new());
    let first = attempt(&lock).await;
    record.take();
    let second = attempt(&lock).await;
    assert!(lock.try_acquire().await.unwrap().is_none(), "it is taken");
    assert!(lock.acquire_timeout(T / 10).await.unwrap().is_none());
    assert_eq!(record.count(), 0);
    assert_eq!(children(&server, LOCK).len(), 2);
    in_the_way.release().await.unwrap();
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(first.node(), second.node(), "they share what the first one got");
    assert_eq!(record.count(), 0);
    first.release().await.unwrap();
    second.release().await.unwrap();
    assert_eq!(children(&server, LOCK), [""; 0]);
}

/// The reader queues first, so the writer of the same owner would wait for it.
#[tokio::test(start_paused = true)]
async fn writer_fails_with_would_deadlock_once_its_owner_reads() {
    let (_server, [one, other]) = started().await;
    let writing = RwLock::new(&other, LOCK).unwrap().write().acquire().await.unwrap();
    let lock = RwLock::new(&one, LOCK).unwrap().with_owner(&Owner::new());
    let reader = attempt(lock.read()).await;
    let writer = running(async move { lock.write().acquire().await.map(drop) }).await;
    assert!(!reader.is_finished() && !writer.is_finished());
    writing.release().await.unwrap();
    let reading = reader.await.unwrap().unwrap();
    assert_eq!(writer.await.unwrap(), Err(LockError::WouldDeadlock { path: LOCK.to_owned() }));
    reading.check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owner_debug_lists_only_the_paths_it_holds() {
    let (_server, [one]) = started().await;
    let owner = Owner::new();
    let mut guards = Vec::new();
    for n in 0..3 {
        let lock = Mutex::new(&one, &format!("/locks/{n}")).unwrap().with_owner(&owner);
        guards.push(lock.acquire().await.unwrap());
    }
    assert_eq!(format!("{owner:?}").matches("/locks/").count(), 3);
    guards.truncate(1);
    assert_eq!(format!("{owner:?}"), r#"Owner { paths: ["/locks/0"] }"#);
    guards.pop().unwrap().release().await.unwrap();
    assert_eq!(format!("{owner:?}"), "Owner { paths: [] }");
}

#[tokio::test(start_paused = true)]
async fn multi_lock_of_one_owner_may_list_a_lock_twice() {
    let (server, one, record) = started_recorded().await;
    let owner = Owner::new();
    let rw = RwLock::new(&one, "/rw").unwrap().with_owner(&owner);
    let handle = || -> Arc<dyn Lock> { Arc::new(mutex(&one, &owner)) };
    let (read, write): (Arc<dyn Lock>, Arc<dyn Lock>) =
        (Arc::new(rw.read().clone()), Arc::new(rw.write().clone()));

    let both = MultiLock::new([handle(), handle()]);
    let guard = both.acquire().await.unwrap();
    assert_eq!(children(&server, LOCK).len(), 1);
    let [first, second] = guard.nodes()[..] else { panic!("two guards of one hold") };
    assert_eq!(first, second);
    assert!(guard.is_held());
    settle().await;
    record.take();
    guard.release().await.unwrap();
    assert_eq!(record.take().concat().iter().filter(|op| **op == DELETE).count(), 1);
    assert!(both.try_acquire().await.unwrap().is_some());

    // An owner that writes can also read. One that reads cannot write, so the canonical order is the other.
    let refused = MultiLock::new([read.clone(), write.clone()]).acquire().await.unwrap_err();
    assert_eq!(refused.failures()[0].error, LockError::WouldDeadlock { path: "/rw".to_owned() });
    for given in [[read.clone(), write.clone()], [write, read]] {
        let guard = MultiLock::in_canonical_order(given).acquire().await.unwrap();
        assert_eq!(children(&server, "/rw").len(), 2);
        guard.release().await.unwrap();
    }
    settle().await;
    assert_eq!((children(&server, LOCK).len(), children(&server, "/rw").len()), (0, 0));
}

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
