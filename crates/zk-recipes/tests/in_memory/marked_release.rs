//! Marked releases, on servers whose events have zxids (3.9.0 and newer).
//!
//! A holder that has waited deletes its node in one transaction with a change of the node's data.
//! The next contender in line acquires the lock by the two events, without a list.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::{Acl, Client, CreateMode, ErrorCode, Perms, path};
use zk_recipes::{Guard, Lock, LockError, LossReason, RwLock, SemaphoreMutex, revoke};
use zk_testing::{Cut, Op, Settings, TestServer, Version};

use crate::lifetime_cost::mutex;
use crate::recorded_connection::{
    CLOSE, CREATE2, DELETE, GET_CHILDREN2, GET_DATA, LEASE_MULTI, LEASE_SYNC, MULTI, PING, Record,
    SET_WATCHES, recorded_client, without_lease,
};
use crate::{
    Acquire, T, attempt, child, children, queue, queue_many, running, settle, settle_node_watches,
    started_with,
};

const PATH: &str = "/lock";
const NOTHING: [i32; 0] = [];

async fn started<const N: usize>() -> (TestServer, [Client; N]) {
    started_with(Settings::new().version(Version::V3_9)).await
}

/// A server with clients, and a client whose requests are recorded.
async fn started_beside<const N: usize>() -> (TestServer, [Client; N], Client, Record) {
    let (server, others) = started().await;
    let (own, record) = recorded_client(&server, 9).await;
    (server, others, own, record)
}

/// A holder, a waiter of the same session, and behind them a waiter of another one.
async fn three(one: &Client, two: &Client) -> (Guard, JoinHandle<Guard>, JoinHandle<Guard>) {
    let held = mutex(one).acquire().await.unwrap();
    let second = queue(&mutex(one)).await;
    (held, second, queue(&mutex(two)).await)
}

fn sent(record: &Record) -> Vec<i32> {
    without_lease(record.take().concat())
}

/// Create, list, one request for all watches, marked release.
#[tokio::test(start_paused = true)]
async fn waiter_sends_4_requests_with_1_list_in_queues_of_any_length() {
    for waiters in [3, 30, 300] {
        let (server, [holder]) = started().await;
        let held = mutex(&holder).acquire().await.unwrap();
        let (mut turns, mut records) = (Vec::new(), Vec::new());
        for seed in 0..waiters {
            let (client, record) = recorded_client(&server, 2 + seed).await;
            turns.push(tokio::spawn(mutex(&client).acquired()));
            records.push((client, record));
            // reason: virtual time, in which the waiter queues
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        held.release().await.unwrap();
        for turn in turns {
            turn.await.unwrap().unwrap().release().await.unwrap();
        }
        for (number, (_, record)) in records.iter().enumerate() {
            let mut ops = sent(record);
            ops.retain(|op| *op != CLOSE);
            assert_eq!(ops, [CREATE2, GET_CHILDREN2, SET_WATCHES, MULTI], "waiter {number}");
        }
    }
}

/// A session asks once, when it waits for the first time. Only on servers whose events have zxids does it
/// mark the releases of contenders that have waited. Curator's `LeaderLatch` would take the change for the
/// only event of its watch. Turns of a semaphore mutex are marked, and leases are not. One of its waiters
/// loses its place and queues twice.
#[tokio::test(start_paused = true)]
async fn contenders_that_have_waited_mark_their_releases() {
    for (kind, version, expected) in [
        ("mutex", Version::V3_8, (0, 5)),
        ("mutex", Version::V3_9, (4, 1)),
        ("candidate", Version::V3_9, (0, 5)),
        ("semaphore mutex", Version::V3_9, (3, 9)),
    ] {
        let (server, [client]) = started_with(Settings::new().version(version)).await;
        let lock: Arc<dyn Lock> = match kind {
            "mutex" => Arc::new(mutex(&client)),
            "candidate" => Arc::new(mutex(&client).with_lock_name("latch-").unwrap()),
            _ => Arc::new(SemaphoreMutex::new(&client, PATH).unwrap()),
        };
        let [asked, marked, plain] = [Op::CheckWatches, Op::Multi, Op::Delete]
            .map(|op| server.on(op).always().delay(Duration::ZERO));
        let held = lock.acquire_boxed().await.unwrap();
        assert_eq!(asked.count(), 0, "a free lock needs no answer");
        let waiting = queue_many(&lock, 4).await;
        held.release_boxed().await.unwrap();
        for turn in waiting {
            turn.await.unwrap().release_boxed().await.unwrap();
        }
        settle().await;
        assert_eq!((marked.count(), plain.count()), expected, "{kind}, {version:?}");
        assert_eq!(client.events_have_zxids().await, version == Version::V3_9);
        assert_eq!(asked.count(), 1);
    }
}

/// The mark is a change of the data, which a holder also gets when it is asked to release.
#[tokio::test(start_paused = true)]
async fn own_mark_is_neither_a_loss_nor_a_revocation_request() {
    for is_dropped in [false, true] {
        let (server, [client]) = started().await;
        let held = mutex(&client).acquire().await.unwrap();
        let waiting = queue(&mutex(&client)).await;
        held.release().await.unwrap();
        let guard = waiting.await.unwrap();
        let (lost, asked) =
            (tokio::spawn(guard.lost()), tokio::spawn(guard.revocation_requested()));
        settle().await;
        assert!(!lost.is_finished() && !asked.is_finished());
        match is_dropped {
            true => drop(guard),
            false => guard.release().await.unwrap(),
        }
        assert_eq!(lost.await.unwrap(), LossReason::Released);
        assert!(asked.await.unwrap().is_err(), "the node is gone, and nobody has asked");
        assert_eq!(children(&server, PATH), [""; 0]);
    }
}

/// The change belongs to another transaction than the deletion, so it proves nothing.
#[tokio::test(start_paused = true)]
async fn revocation_request_before_a_plain_delete_is_no_mark() {
    let (server, [one, two]) = started().await;
    let (held, second, third) = three(&one, &two).await;
    let (between, own) = (child(&server, PATH, 1), child(&server, PATH, 2));
    revoke(&two, &between).await.unwrap();
    settle().await;
    one.delete(&between, None).await.unwrap();
    settle().await;
    assert!(!third.is_finished(), "the first still holds the lock");
    assert!(held.is_held());
    held.release().await.unwrap();
    assert_eq!(third.await.unwrap().node(), own);
    second.await.unwrap().release().await.unwrap();
}

/// A waiter that gives up was not first.
#[tokio::test(start_paused = true)]
async fn cancelled_waiters_do_not_grant_the_lock() {
    for version in [Version::V3_8, Version::V3_9] {
        let (server, [client]) = started_with(Settings::new().version(version)).await;
        let held = mutex(&client).acquire().await.unwrap();
        let mut waiting = queue_many(&mutex(&client), 7).await;
        let last = waiting.pop().unwrap();
        // The nearest waiter leaves before the second nearest, and after it.
        for given_up in [5, 2, 4, 0, 1, 3] {
            waiting[given_up].abort();
            settle().await;
            assert!(!last.is_finished() && held.is_held());
        }
        assert_eq!(children(&server, PATH).len(), 2);
        held.release().await.unwrap();
        last.await.unwrap().check().await.unwrap();
    }
}

/// The node's ACL lets nobody change the data. The first list of the next waiter finds it is first.
#[tokio::test(start_paused = true)]
async fn node_that_must_not_change_is_deleted_without_a_mark() {
    let (server, [], client, record) = started_beside().await;
    let acl = vec![Acl::world(Perms::READ | Perms::CREATE | Perms::DELETE)];
    let lock = || mutex(&client).with_acl(acl.clone());
    let held = lock().acquire().await.unwrap();
    let waiting = queue(&lock()).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap();
    record.take();
    guard.release().await.unwrap();
    assert_eq!(record.take(), [[MULTI], [DELETE]]);
    assert_eq!(children(&server, PATH), [""; 0]);
}

/// The reader holds the lock on when the writer's node is gone.
#[tokio::test(start_paused = true)]
async fn writer_beside_its_reader_releases_without_a_mark() {
    let (_server, [one, two]) = started().await;
    let [lock, other] = [&one, &two].map(|client| RwLock::new(client, PATH).unwrap());
    let held = lock.write().acquire().await.unwrap();
    let writer = queue(lock.write()).await;
    let next = queue(other.write()).await;
    held.release().await.unwrap();
    let writing = writer.await.unwrap();
    let reading = writing.read().await.unwrap();
    writing.release().await.unwrap();
    settle().await;
    assert!(!next.is_finished(), "a reader holds the lock");
    assert!(reading.is_held());
    reading.release().await.unwrap();
    next.await.unwrap().check().await.unwrap();
}

/// Writers and readers behind a writer acquire the lock by its mark; behind a reader they list.
#[tokio::test(start_paused = true)]
async fn writer_hands_over_to_writers_and_readers_without_a_list() {
    let (_server, [other], own, record) = started_beside().await;
    let [theirs, ours] = [&other, &own].map(|client| RwLock::new(client, PATH).unwrap());
    let held = theirs.write().acquire().await.unwrap();
    let writer = queue(theirs.write()).await;
    let readers = queue_many(ours.read(), 10).await;
    held.release().await.unwrap();
    let writer = writer.await.unwrap();
    record.take();
    writer.release().await.unwrap();
    for reader in readers {
        reader.await.unwrap().check().await.unwrap();
    }
    assert!(!sent(&record).contains(&GET_CHILDREN2));
}

/// After a quarter of the session timeout, a waiter also watches the contender ahead of its
/// predecessor. It renews its lease from the time when that contender leaves.
#[tokio::test(start_paused = true)]
async fn long_wait_ends_with_a_fresh_lease() {
    let (_server, [other], own, record) = started_beside().await;
    let held = mutex(&other).acquire().await.unwrap();
    let mut ahead = queue_many(&mutex(&other), 2).await;
    let waiting = queue(&mutex(&own)).await;
    record.take();
    // reason: virtual time of a long wait
    tokio::time::sleep(T).await;
    assert_eq!(sent(&record), [GET_DATA, SET_WATCHES]);
    held.release().await.unwrap();
    let first = ahead.remove(0).await.unwrap();
    first.release().await.unwrap();
    let second = ahead.remove(0).await.unwrap();
    settle().await;
    record.take();
    // reason: virtual time, in which an old lease would end
    tokio::time::sleep(T * 2).await;
    let renewals = record.take().concat();
    assert!(renewals.contains(&LEASE_SYNC) && renewals.contains(&LEASE_MULTI));
    second.release().await.unwrap();
    let guard = waiting.await.unwrap();
    let ops: Vec<i32> = record.take().concat().into_iter().filter(|op| *op != PING).collect();
    assert_eq!(ops, NOTHING, "no renewal at the hand-off");
    assert!(guard.remaining() > T / 3, "{:?}", guard.remaining());
}

/// A node of another client has the name of a contender, and children come and go below it.
#[tokio::test(start_paused = true)]
async fn waiter_waits_while_the_node_ahead_gets_children() {
    for version in [Version::V3_8, Version::V3_9] {
        let (_server, [one, two]) = started_with(Settings::new().version(version)).await;
        one.create(PATH, b"", CreateMode::Persistent).await.unwrap();
        let ahead = format!("{PATH}/_c_{}-lock-", path::random_uuid(&one));
        let mode = CreateMode::PersistentSequential;
        let ahead = one.create(&ahead, b"", mode).await.unwrap().path;
        let waiting = queue(&mutex(&two)).await;
        let below = format!("{ahead}/child");
        for _ in 0..2 {
            one.create(&below, b"", CreateMode::Persistent).await.unwrap();
            settle().await;
            one.delete(&below, None).await.unwrap();
            settle().await;
            assert!(!waiting.is_finished(), "{version:?}");
        }
        one.delete(&ahead, None).await.unwrap();
        waiting.await.unwrap().check().await.unwrap();
    }
}

/// The waiter comes first, loses its connection, and is first again in the next list.
#[tokio::test(start_paused = true)]
async fn guard_keeps_the_watch_of_a_waiter_that_comes_first_twice() {
    let (server, [other], own, record) = started_beside().await;
    let held = mutex(&other).acquire().await.unwrap();
    let mut ticket = mutex(&own).enqueue().await.unwrap();
    let first = running(async move { ticket.position_changed().await.map(|_| ticket) }).await;
    held.release().await.unwrap();
    let ticket = first.await.unwrap().unwrap();
    server.connection_of(own.session_id()).cut(Cut::Rst);
    // reason: virtual time, the random pause before the next attempt to connect
    tokio::time::sleep(T / 4).await;
    let guard = ticket.acquire().await.unwrap();
    record.take();
    settle_node_watches().await;
    assert_eq!(sent(&record), NOTHING, "the guard sets no watch");
    other.delete(guard.node(), None).await.unwrap();
    settle().await;
    assert!(!guard.is_held());
}

/// No event of the holder's deletion arrives, so the waiter has to find out by a read.
#[tokio::test(start_paused = true)]
async fn waiter_acquires_after_a_long_wait_although_an_event_is_lost() {
    let (server, [one, two]) = started().await;
    let held = mutex(&one).acquire().await.unwrap();
    let waiting = queue(&mutex(&two)).await;
    let lost = server.on_notification().session(two.session_id()).always().never_answer();
    held.release().await.unwrap();
    settle().await;
    assert!(lost.count() > 0 && !waiting.is_finished());
    lost.cancel();
    tokio::time::sleep(T).await; // reason: virtual time of a long wait
    assert!(waiting.is_finished());
    waiting.await.unwrap().check().await.unwrap();
}

/// The server sends no event of the holder's node, so the waiter has to find out by a read. No event would
/// tell a waiter that its own node is gone, so it does not wait at all.
#[tokio::test(start_paused = true)]
async fn waiter_that_may_not_read_a_node_fails() {
    let unreadable = || vec![Acl::world(Perms::WRITE | Perms::CREATE | Perms::DELETE)];
    for case in ["own node", "holder, at once", "holder, after a long wait"] {
        let (_server, [one, two]) = started().await;
        one.create(PATH, b"", CreateMode::Persistent).await.unwrap();
        let _held = mutex(&one).with_acl(unreadable()).acquire().await.unwrap();
        let between = queue(&mutex(&one)).await;
        let lock = mutex(&two);
        let last =
            attempt(&if case == "own node" { lock.with_acl(unreadable()) } else { lock }).await;
        match case {
            "own node" => assert!(last.is_finished(), "it does not wait"),
            "holder, at once" => between.abort(),
            _ => {
                // reason: virtual time of a long wait, after which the node between was read
                tokio::time::sleep(T).await;
                between.abort();
            }
        }
        let failed = tokio::time::timeout(T, last).await.unwrap().unwrap().unwrap_err();
        let LockError::Client(error) = failed else { panic!("{case}: {failed:?}") };
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "{case}");
    }
}
