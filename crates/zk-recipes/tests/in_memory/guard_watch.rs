//! The watch of a guard on its own node, and the remaining time that the guard reports.
//!
//! A guard sets one watch for each node, however often its `lost()` is called.

use std::future::Future;
use std::time::Duration;

use zk_recipes::limits::{NODE_WATCH_DELAY, UNWATCHED_PAUSE};
use zk_recipes::session::{Acl, Client, CreateMode, ErrorKind, Limit, Perms};
use zk_recipes::{LockError, LockGuard, LossReason, MultiLock, Mutex, RwLock, Semaphore, revoke};
use zk_testing::{Cut, Op, Settings, TestServer, Version};

use crate::recorded_connection::{
    DELETE, EXISTS, Record, WATCH_NODE, recorded, recorded_client, without_lease,
};
use crate::{
    Kind, LEASE, PROMISED, T, client, config, cut_off, now, queue, reconnect, running, settle,
    settle_node_watches, started,
};

const DELETED: LockError = LockError::Lost(LossReason::NodeDeleted);

/// Guards of each kind of lock. `None` is the guard of a downgraded writer.
fn guards() -> impl Iterator<Item = Option<Kind>> {
    Kind::ALL.map(Some).into_iter().chain([None])
}

async fn acquire(kind: Option<Kind>, client: &Client) -> Box<dyn LockGuard> {
    if let Some(kind) = kind {
        return kind.lock(client).acquire_boxed().await.unwrap();
    }
    let writing = RwLock::new(client, "/rw").unwrap().write().acquire().await.unwrap();
    Box::new(writing.downgrade().await.unwrap())
}

/// Acquires the lock, after a wait for another client if `waits`.
async fn held(kind: Option<Kind>, one: &Client, other: &Client, waits: bool) -> Box<dyn LockGuard> {
    let in_the_way = match waits {
        true => Some(kind.unwrap_or(Kind::Writer).exclude(other).await),
        false => None,
    };
    let one = one.clone();
    let acquiring = running(async move { acquire(kind, &one).await }).await;
    assert_eq!(acquiring.is_finished(), !waits, "{kind:?}");
    drop(in_the_way);
    let held = acquiring.await.unwrap();
    settle_node_watches().await;
    held
}

/// Another client creates the node again under the same name before the guard watches it, or during
/// a disconnect.
#[tokio::test(start_paused = true)]
async fn guard_is_lost_when_its_node_is_recreated() {
    for is_cut in [false, true] {
        let (server, [one, other]) = started().await;
        let guard = Mutex::new(&one, "/lock").unwrap().acquire().await.unwrap();
        if is_cut {
            settle_node_watches().await;
            cut_off(&server, &one).await;
        }
        other.delete(guard.node(), None).await.unwrap();
        other.create(guard.node(), b"", CreateMode::Ephemeral).await.unwrap();
        server.accept_connects(0);
        let lost = tokio::time::timeout(T / 4, guard.lost()).await;
        assert_eq!(lost, Ok(LossReason::NodeDeleted), "cut: {is_cut}");
        assert_eq!(guard.token(), Err(DELETED), "cut: {is_cut}");
        let node = guard.node().to_owned();
        if is_cut {
            assert_eq!(guard.release().await, Err(DELETED));
        } else {
            drop(guard);
            settle().await;
        }
        assert!(one.exists(&node).await.unwrap().is_some(), "it is another client's node");
    }
}

/// No task waits in `lost()`. A declined revocation request must not use up the watch. The event of a
/// deletion during a disconnect arrives when the watches are set again.
#[tokio::test(start_paused = true)]
async fn guard_fails_once_the_deletion_event_has_arrived() {
    for (kind, waits) in guards().flat_map(|kind| [(kind, false), (kind, true)]) {
        for (declines_a_request, is_cut) in [(false, false), (true, false), (false, true)] {
            let case = format!("{kind:?}, {waits}, {declines_a_request}, {is_cut}");
            let (server, [one, other]) = started().await;
            let held = held(kind, &one, &other, waits).await;
            if declines_a_request {
                assert!(revoke(&other, held.nodes()[0]).await.unwrap(), "{case}");
                held.revocation_requested_boxed().await.unwrap();
                settle().await;
            }
            if is_cut {
                cut_off(&server, &one).await;
            }
            assert!(held.is_held() && held.tokens().is_ok(), "{case}");
            other.delete(held.nodes()[0], None).await.unwrap();
            settle().await;
            if is_cut {
                assert!(held.is_held(), "{case}: nothing arrives over a cut connection");
                reconnect(&server).await;
            }
            assert_eq!((held.tokens(), held.is_held()), (Err(DELETED), false), "{case}");
            assert_eq!(held.remaining(), Duration::ZERO, "{case}");
            assert_eq!(held.release_boxed().await, Err(DELETED), "{case}");
        }
    }
}

/// The request for the watch finds no node.
///
/// A guard that had to wait has its watch already, and receives an event instead.
#[tokio::test(start_paused = true)]
async fn guard_fails_when_its_node_is_deleted_before_its_watch() {
    let server = TestServer::in_memory();
    let other = client(&server, 2).await;
    for kind in guards() {
        let (one, record) = recorded_client(&server, 1).await;
        // On a new path, the permit lists again after the creation of the path, with a watch.
        acquire(kind, &one).await.release_boxed().await.unwrap();
        let held = acquire(kind, &one).await;
        record.take();
        other.delete(held.nodes()[0], None).await.unwrap();
        // The queue node of a permit has been deleted by now.
        settle().await;
        let of_turn = match kind {
            Some(Kind::Permit | Kind::SemaphoreMutex) => vec![DELETE],
            _ => vec![],
        };
        assert_eq!(without_lease(record.take().concat()), of_turn, "{kind:?}");
        assert!(held.is_held(), "{kind:?}: nothing tells of the deletion yet");
        settle_node_watches().await;
        assert_eq!(held.tokens(), Err(DELETED), "{kind:?}");
        assert_eq!(without_lease(record.take().concat()), [WATCH_NODE], "{kind:?}");
        assert_eq!(held.release_boxed().await, Err(DELETED), "{kind:?}");
    }
}

/// The ACL of the node does not permit the holder to read it, or its session has no watches left, so no event
/// tells of the deletion.
#[tokio::test(start_paused = true)]
async fn guard_polls_a_node_that_it_cannot_watch() {
    for is_full in [false, true] {
        let (server, [other]) = started().await;
        let config = if is_full { config(2).max_watches(0) } else { config(2) };
        let (one, record) = recorded(config, &server).await;
        one.create("/lock", b"", CreateMode::Persistent).await.unwrap();
        let unreadable = vec![Acl::world(Perms::WRITE | Perms::DELETE)];
        let lock = Mutex::new(&one, "/lock").unwrap();
        let lock = if is_full { lock } else { lock.with_acl(unreadable) };
        let guard = lock.acquire().await.unwrap();
        settle_node_watches().await;
        record.take();
        assert!(revoke(&other, guard.node()).await.unwrap());
        // reason: virtual time, in which the guard reads its node a few times
        tokio::time::sleep(UNWATCHED_PAUSE * 3).await;
        let read = if is_full { vec![EXISTS] } else { vec![WATCH_NODE, EXISTS] };
        assert_eq!(without_lease(record.take().concat()), read.repeat(3), "{is_full}");
        assert!(guard.is_held(), "{is_full}: a request does not end the hold");
        other.delete(guard.node(), None).await.unwrap();
        let lost = tokio::time::timeout(UNWATCHED_PAUSE, guard.lost()).await;
        assert_eq!(lost, Ok(LossReason::NodeDeleted), "{is_full}");
    }
}

/// With a short session timeout, the delay of the watch is a sixteenth of the timeout.
#[tokio::test(start_paused = true)]
async fn guard_watches_its_node_earlier_in_a_short_session() {
    for (timeout, delay) in [(T, NODE_WATCH_DELAY), (T / 25, T / 400)] {
        let server = TestServer::in_memory_with(Settings::new().tick_time(timeout / 5));
        let (client, record) = recorded(config(1).session_timeout(timeout), &server).await;
        assert_eq!(client.session_timeout(), timeout);
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        let sent = || without_lease(record.take().concat());
        sent();
        let margin = Duration::from_millis(5);
        // reason: virtual time, up to shortly before the delay is over
        tokio::time::sleep(delay - margin).await;
        assert_eq!(sent(), [0; 0], "{timeout:?}");
        // reason: virtual time, until shortly after the delay is over
        tokio::time::sleep(margin * 2).await;
        assert_eq!(sent(), [WATCH_NODE], "{timeout:?}");
        // reason: virtual time, in which the guard keeps the lock
        tokio::time::sleep(timeout * 3).await;
        assert_eq!(sent(), [0; 0], "one watch is enough");
        assert!(guard.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn lost_guard_has_no_time_left() {
    for how in ["deleted", "cut off", "expired", "closed"] {
        let (server, [one, other]) = started().await;
        let guard = Mutex::new(&one, "/lock").unwrap().acquire().await.unwrap();
        settle_node_watches().await;
        // It has time up to the end of the lease, and at most what no reconnect takes back.
        let (remaining, proven) = (guard.remaining(), guard.last_proven().unwrap());
        let left = PROMISED.min(proven + LEASE - now().into_std());
        assert!(proven <= now().into_std() && remaining <= left, "{remaining:?}");
        assert!(remaining + Duration::from_millis(1) > left, "{remaining:?}, rounded");
        match how {
            "deleted" => other.delete(guard.node(), None).await.unwrap(),
            "expired" => assert!(server.expire(one.session_id())),
            "closed" => one.close().await,
            _ => {
                server.refuse_connects(0);
                server.connection_of(one.session_id()).cut(Cut::Silence);
                let end = guard.last_proven().unwrap() + LEASE;
                // reason: virtual time, up to the end of the lease
                tokio::time::sleep(end - now().into_std() - Duration::from_millis(1)).await;
                assert!(guard.is_held() && !guard.remaining().is_zero());
            }
        }
        settle().await;
        assert!(!guard.is_held(), "{how}");
        assert_eq!((guard.remaining(), guard.last_proven()), (Duration::ZERO, None), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_that_cannot_watch_fails_to_acquire() {
    let (server, [holder]) = started().await;
    let _held = Mutex::new(&holder, "/l").unwrap().acquire().await.unwrap();
    let full = config(2).max_watches(0).connector(server.clone()).connect().await.unwrap();
    let began = now();
    let error = Mutex::new(&full, "/l").unwrap().acquire().await.unwrap_err();
    let LockError::Client(error) = error else { panic!("{error}") };
    assert_eq!(*error.kind(), ErrorKind::LimitReached(Limit::Watches));
    assert!(error.to_string().contains("too many watches"), "{error}");
    assert!(now() - began < T / 100, "at once");
    settle().await;
    assert_eq!(crate::children(&server, "/l").len(), 1, "its node is gone");
}

/// A writer of the same session waits behind a read node that is newer than its own. Its request for
/// watches counts from its own node on, so the server sends an event of the read node.
#[tokio::test(start_paused = true)]
async fn reader_beside_its_writer_survives_the_watch_of_a_writer() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (one, other) = (client(&server, 1).await, client(&server, 2).await);
        let lock = RwLock::new(&one, "/lock").unwrap();
        let writing = lock.write().acquire().await.unwrap();
        let next = queue(lock.write()).await;
        let reading = writing.read().await.unwrap();
        settle_node_watches().await;
        writing.release().await.unwrap();
        settle_node_watches().await;
        assert!(reading.is_held(), "{version:?}");
        assert!(!next.is_finished(), "{version:?}");

        // Its watch is set again, and reports a deletion.
        other.delete(reading.node(), None).await.unwrap();
        settle().await;
        assert_eq!(reading.token().map(drop), Err(DELETED), "{version:?}");
        next.await.unwrap().check().await.unwrap();
    }
}

const TURNS: usize = 400;

/// Duration of a turn.
const TURN: Duration = Duration::from_millis(10);

/// Calls `lost()` in each turn, and drops its future at the end of the turn.
async fn loop_until_lost<F: Future<Output = LossReason>>(
    lost: impl Fn() -> F,
    turns: usize,
) -> Option<LossReason> {
    for _ in 0..turns {
        tokio::select! {
            biased;
            reason = lost() => return Some(reason),
            // reason: virtual time of a turn
            () = tokio::time::sleep(TURN) => {}
        }
    }
    None
}

/// Expects one watch for each node, and the loss when the last of the nodes is deleted.
async fn expect_one_watch_each<F: Future<Output = LossReason>>(
    name: &str,
    nodes: Vec<String>,
    lost: impl Fn() -> F,
    other: &Client,
    record: &Record,
) {
    record.take();
    assert_eq!(loop_until_lost(&lost, TURNS).await, None, "{name}");
    let sent = without_lease(record.take().concat());
    let watches = sent.iter().filter(|op| **op == WATCH_NODE).count();
    let others: Vec<i32> = sent.into_iter().filter(|op| *op != WATCH_NODE).collect();
    assert_eq!((watches, others.len()), (nodes.len(), 0), "{name}: {others:?}");
    other.delete(nodes.last().unwrap(), None).await.unwrap();
    assert_eq!(loop_until_lost(&lost, 2).await, Some(LossReason::NodeDeleted), "{name}");
    assert_eq!(without_lease(record.take().concat()), [0; 0], "{name}");
}

#[tokio::test(start_paused = true)]
async fn lost_in_a_loop_sets_one_watch_for_each_node_of_any_guard() {
    let (server, [other]) = started().await;
    let (client, record) = recorded_client(&server, 2).await;
    for kind in Kind::ALL {
        // On a new path, the permit lists again after the creation of the path, with a watch.
        kind.lock(&client).acquire_boxed().await.unwrap().release_boxed().await.unwrap();
        let guard = kind.lock(&client).acquire_boxed().await.unwrap();
        settle().await; // the queue node of a permit is deleted
        let nodes = guard.nodes().into_iter().map(str::to_owned).collect();
        let name = format!("{kind:?}");
        expect_one_watch_each(&name, nodes, || guard.lost_boxed(), &other, &record).await;
    }
    let semaphore = Semaphore::new(&client, "/s", 3).unwrap();
    let lease = semaphore.acquire_many(3).await.unwrap();
    settle().await;
    let nodes = lease.nodes().map(str::to_owned).collect();
    expect_one_watch_each("SemaphoreGuard", nodes, || lease.lost(), &other, &record).await;
    drop(lease);
    let locks = [Kind::Mutex, Kind::Writer, Kind::Permit].map(|kind| kind.lock(&client));
    let guard = MultiLock::new(locks).acquire().await.unwrap();
    settle().await;
    let nodes = guard.nodes().iter().map(ToString::to_string).collect();
    expect_one_watch_each("MultiGuard", nodes, || guard.lost(), &other, &record).await;
}

/// The request for the watch is lost with the connection.
#[tokio::test(start_paused = true)]
async fn guard_sets_its_watch_again_when_the_request_was_lost() {
    let (server, [other]) = started().await;
    let (one, record) = recorded_client(&server, 2).await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    settle().await;
    let guard = lock.acquire().await.unwrap();
    record.take();
    let lost = server.on(Op::GetChildren2).drop_before_applying();
    // reason: virtual time, in which the client reconnects
    tokio::time::sleep(T / 4).await;
    assert_eq!(lost.count(), 1);
    let sent = without_lease(record.take().concat());
    assert_eq!(sent, [WATCH_NODE; 2], "it sends the request again");
    assert!(guard.is_held());
    settle().await;
    other.delete(guard.node(), None).await.unwrap();
    settle().await;
    assert_eq!(guard.token(), Err(DELETED));
}

/// From the second session timeout on, the lease counts from pings, one in each sixteenth of the timeout.
#[tokio::test(start_paused = true)]
async fn idle_holder_always_has_time_left() {
    for idle in [0, 1, 2, 3, 5, 7, 11] {
        let (_server, [client]) = started().await;
        // reason: virtual time, in which the session sends nothing but pings
        tokio::time::sleep(T * idle / 4).await;
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        for (timeouts, least) in [(1, T / 10), (2, T * 2 / 5)] {
            for _ in 0..100 * timeouts {
                // reason: virtual time, of which the guard tells the rest
                tokio::time::sleep(T / 100).await;
                let left = guard.remaining();
                assert!(least < left && left <= PROMISED, "{left:?}, idle for {idle} quarters");
            }
        }
    }
}
