//! Owners: which acquisitions re-enter a held lock, which fail, and which wait.

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use zk_recipes::session::{Client, ErrorCode, SessionEnd};
use zk_recipes::{Lock, LockError, LossReason, MultiLock, Mutex, Owner, RwLock};
use zk_testing::{Cut, Op};

use crate::recorded_connection::{DELETE, recorded_client, started_recorded};
use crate::{T, attempt, children, polled, running, settle, started};

const PATH: &str = "/lock";

fn mutex(client: &Client, owner: &Owner) -> Mutex {
    Mutex::new(client, PATH).unwrap().with_owner(owner)
}

fn lost(reason: LossReason) -> LockError {
    LockError::Lost(reason)
}

#[tokio::test(start_paused = true)]
async fn writer_is_released_while_its_owner_acquires_the_read_side() {
    let (server, [client]) = started().await;
    let lock = RwLock::new(&client, PATH).unwrap().with_owner(&Owner::new());
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
        assert!(!children(&server, PATH).iter().any(is_writer), "{trouble}");
        let reading = reading.await.unwrap().unwrap();
        reading.check().await.unwrap();
        let keeps_place = reading.node().rsplit("__").next() == place.as_deref();
        assert_eq!(keeps_place, trouble != "throttled", "{trouble}");
        reading.release().await.unwrap();
        settle().await;
        assert_eq!(children(&server, PATH), [""; 0]);
    }
}

/// Only after a release does the owner queue again: it still has a guard of the lost lock.
#[tokio::test(start_paused = true)]
async fn owner_does_not_read_beside_a_writer_deleted_meanwhile() {
    let (server, [client, other]) = started().await;
    let lock = RwLock::new(&client, PATH).unwrap().with_owner(&Owner::new());
    let writing = lock.write().acquire().await.unwrap();
    let throttled = server.on(Op::Multi).answer(ErrorCode::THROTTLED_OP);
    let read = lock.read().clone();
    let reading = running(async move { read.acquire().await.map(drop) }).await;
    other.delete(writing.node(), None).await.unwrap();
    assert_eq!(reading.await.unwrap(), Err(lost(LossReason::NodeDeleted)));
    assert_eq!((throttled.count(), children(&server, PATH).len()), (1, 0));
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
    let again = again.expect("it is the same lock");
    assert_eq!(again.token(), guard.token());

    let named = lock(&client, "/apps/lock").with_lock_name("other-").unwrap().with_owner(&owner);
    let other_queue = named.try_acquire().await;
    assert!(!matches!(&other_queue, Ok(Some(other)) if other.node() == guard.node()));
    let of_another = lock(&client, "/apps/lock").with_owner(&Owner::new());
    assert!(of_another.try_acquire().await.unwrap().is_none());
    let other_path = lock(&client, "/lock").with_owner(&owner).try_acquire().await.unwrap();
    assert_ne!(other_path.expect("it is free").token(), guard.token());
    let other_kind = RwLock::new(&client, "/apps/lock").unwrap().allow_foreign_nodes();
    let other_kind = other_kind.with_owner(&owner);
    let other_kind = other_kind.write().try_acquire().await.unwrap();
    assert!(other_kind.is_none_or(|writing| writing.node() != guard.node()));
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

#[tokio::test(start_paused = true)]
async fn owner_does_not_reenter_a_lost_lock() {
    let (_server, [one, other]) = started().await;
    let lock = mutex(&one, &Owner::new());
    let guard = lock.acquire().await.unwrap();
    let inner = lock.acquire().await.unwrap();
    let token = guard.token().unwrap();
    other.delete(guard.node(), None).await.unwrap();
    assert_eq!(guard.check().await, Err(lost(LossReason::NodeDeleted)));
    assert_eq!(inner.token(), guard.token(), "both know it");
    assert_eq!(lock.acquire().await.unwrap_err(), lost(LossReason::NodeDeleted));
    assert_eq!(lock.try_acquire().await.unwrap_err(), lost(LossReason::NodeDeleted));
    assert_eq!(guard.release().await, Err(lost(LossReason::NodeDeleted)));
    assert_eq!(lock.acquire().await.unwrap_err(), lost(LossReason::NodeDeleted), "one is left");
    drop(inner);
    let guard = lock.acquire().await.unwrap();
    assert!(guard.token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn owner_of_a_lost_read_guard_does_not_write() {
    let (_server, [one, other]) = started().await;
    let lock = RwLock::new(&one, PATH).unwrap().with_owner(&Owner::new());
    let reading = lock.read().acquire().await.unwrap();
    other.delete(reading.node(), None).await.unwrap();
    assert_eq!(reading.check().await, Err(lost(LossReason::NodeDeleted)));
    assert_eq!(lock.write().acquire().await.unwrap_err(), lost(LossReason::NodeDeleted));
    assert_eq!(lock.write().try_acquire().await.unwrap_err(), lost(LossReason::NodeDeleted));
    drop(reading);
    lock.write().acquire().await.unwrap().release().await.unwrap();
}

/// The session and the node still exist, so a new acquisition would wait for its own node.
#[tokio::test(start_paused = true)]
async fn owner_does_not_reenter_after_the_lease_deadline() {
    let (server, [one]) = started().await;
    let lock = RwLock::new(&one, PATH).unwrap().with_owner(&Owner::new());
    let guard = lock.write().acquire().await.unwrap();
    server.refuse_connects(0);
    server.connection_of(one.session_id()).cut(Cut::Rst);
    // reason: virtual time, longer than the lease and shorter than the session timeout
    tokio::time::sleep(T * 19 / 20).await;
    let refused = lost(LossReason::LeaseDeadlinePassed);
    assert_eq!(lock.write().acquire().await.unwrap_err(), refused);
    assert_eq!(lock.read().acquire().await.unwrap_err(), refused);
    assert_eq!(guard.read().await.unwrap_err(), refused);
    server.accept_connects(0);
    one.exists("/").await.expect("the session lives on");
    assert_eq!(lock.write().acquire().await.unwrap_err(), refused, "for good");
    assert_eq!(guard.release().await, Err(refused));
    lock.write().acquire().await.unwrap().release().await.unwrap();
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
    assert_eq!(children(&server, PATH).len(), 2);
    in_the_way.release().await.unwrap();
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(first.node(), second.node(), "they share what the first one got");
    assert_eq!(record.count(), 0);
    first.release().await.unwrap();
    second.release().await.unwrap();
    assert_eq!(children(&server, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn next_waiter_of_an_owner_queues_when_the_first_is_dropped() {
    let (server, [one, other]) = started().await;
    let in_the_way = mutex(&other, &Owner::new()).acquire().await.unwrap();
    let lock = mutex(&one, &Owner::new());
    let [first, second, third] = [attempt(&lock).await, attempt(&lock).await, attempt(&lock).await];
    let node = children(&server, PATH).pop();
    first.abort();
    settle().await;
    assert_eq!(children(&server, PATH).len(), 2, "the holder, and the next in its turn");
    assert_ne!(children(&server, PATH).pop(), node);
    in_the_way.release().await.unwrap();
    let (second, third) = (second.await.unwrap().unwrap(), third.await.unwrap().unwrap());
    assert_eq!(second.node(), third.node());
}

/// The reader queues first, so the writer of the same owner would wait for it.
#[tokio::test(start_paused = true)]
async fn writer_fails_with_would_deadlock_once_its_owner_reads() {
    let (_server, [one, other]) = started().await;
    let writing = RwLock::new(&other, PATH).unwrap().write().acquire().await.unwrap();
    let lock = RwLock::new(&one, PATH).unwrap().with_owner(&Owner::new());
    let reader = attempt(lock.read()).await;
    let writer = running(async move { lock.write().acquire().await.map(drop) }).await;
    assert!(!reader.is_finished() && !writer.is_finished());
    writing.release().await.unwrap();
    let reading = reader.await.unwrap().unwrap();
    assert_eq!(writer.await.unwrap(), Err(LockError::WouldDeadlock { path: PATH.to_owned() }));
    reading.check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owner_can_acquire_after_an_acquisition_dropped_at_any_poll() {
    let (server, [one]) = started().await;
    let lock = RwLock::new(&one, PATH).unwrap().with_owner(&Owner::new());
    let mut completed = 0;
    for polls in 0..8 {
        completed += usize::from(polled(polls, lock.write().acquire()).await.is_some());
        settle().await;
        let writing = lock.write().try_acquire().await.unwrap().expect("nobody has it");
        completed += usize::from(polled(polls, lock.read().acquire()).await.is_some());
        let reading = lock.read().try_acquire().await.unwrap().expect("nobody asks");
        completed += usize::from(polled(polls, writing.downgrade()).await.is_some());
        drop(reading);
        settle().await;
        assert_eq!(children(&server, PATH), [""; 0], "after {polls} polls");
    }
    assert!(completed > 8, "{completed}");
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
    assert_eq!(children(&server, PATH).len(), 1);
    let [first, second] = guard.nodes()[..] else { panic!("two guards of one hold") };
    assert_eq!(first, second);
    assert!(guard.is_held());
    settle().await;
    record.take();
    guard.release().await.unwrap();
    assert_eq!(record.take().concat().iter().filter(|op| **op == DELETE).count(), 1);
    assert!(both.try_acquire().await.unwrap().is_some());

    let guard = MultiLock::new([write.clone(), read.clone()]).acquire().await.unwrap();
    assert_eq!(children(&server, "/rw").len(), 2);
    guard.release().await.unwrap();
    let refused = MultiLock::new([read, write]).acquire().await.unwrap_err();
    assert_eq!(refused.failures()[0].error, LockError::WouldDeadlock { path: "/rw".to_owned() });
    settle().await;
    assert_eq!((children(&server, PATH).len(), children(&server, "/rw").len()), (0, 0));
}
