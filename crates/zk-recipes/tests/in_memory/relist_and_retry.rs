//! Cases that need a second request.
//!
//! The waiter became first long ago, a server lags behind, a request is rejected for now, or the
//! connection is lost.

use std::time::Duration;

use zk_recipes::limits::PARENT_ATTEMPTS_MAX;
use zk_recipes::session::{Client, Config, ErrorCode};
use zk_recipes::{Mutex, SharedValue};
use zk_testing::{Cut, Op, TestServer};

use crate::recorded_connection::{recorded_client, started_recorded, without_lease};
use crate::{
    Kind, T, child, children, client, cut_off, queue, reconnect, running, settle, started,
};

const PATH: &str = "/lock";

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

/// The waiter is first when it queues, or when its predecessor leaves. Its node is deleted before
/// it acquires the lock.
#[tokio::test(start_paused = true)]
async fn first_waiter_requeues_when_its_node_is_deleted() {
    for behind_another in [false, true] {
        let (_server, [one, other]) = started().await;
        let before = match behind_another {
            true => Some(mutex(&other).acquire().await.unwrap()),
            false => None,
        };
        let mut waiting = mutex(&one).enqueue().await.unwrap();
        if let Some(guard) = before {
            guard.release().await.unwrap();
        }
        assert_eq!(waiting.position_changed().await.unwrap().ahead, 0);
        other.delete(waiting.node().unwrap(), None).await.unwrap();
        let held = mutex(&other).acquire().await.unwrap();
        settle().await;
        assert_eq!(waiting.refresh().await.unwrap().ahead, 1, "behind another: {behind_another}");
        let waiting = running(waiting.acquire()).await;
        assert!(!waiting.is_finished());
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap().check().await.unwrap();
    }
}

/// The waiter acquires before it reconnects, so its watch on its own node has not fired.
#[tokio::test(start_paused = true)]
async fn first_waiter_requeues_when_deleted_during_a_disconnect() {
    let (server, [one, other]) = started().await;
    let held = mutex(&other).acquire().await.unwrap();
    let mut waiting = mutex(&one).enqueue().await.unwrap();
    let (moved, released) = tokio::join!(waiting.position_changed(), held.release());
    released.unwrap();
    assert_eq!(moved.unwrap().ahead, 0);
    cut_off(&server, &one).await;
    assert!(!one.is_connected());
    other.delete(waiting.node().unwrap(), None).await.unwrap();
    let held = mutex(&other).acquire().await.unwrap();
    let waiting = running(waiting.acquire()).await;
    assert!(!waiting.is_finished(), "it cannot know whether its node exists");
    reconnect(&server).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().check().await.unwrap();
}

/// The waiter becomes first after its lease has expired, and renews the lease before it acquires
/// the lock. It does not check its node during the renewal.
#[tokio::test(start_paused = true)]
async fn waiter_requeues_when_its_node_is_deleted_during_renewal() {
    for kind in [Kind::Mutex, Kind::Permit] {
        let (server, [one, other]) = started().await;
        let held = kind.exclude(&other).await;
        let waiting = queue(&kind.lock(&one)).await;
        let stalled = server.on(Op::Multi).session(one.session_id()).always().never_answer();
        // reason: virtual time, in which the lease runs out
        tokio::time::sleep(T * 19 / 20).await;
        held.release_boxed().await.unwrap();
        settle().await;
        assert!(!waiting.is_finished(), "{kind:?}: the lease is being renewed");
        let folder = kind.folders().last().unwrap();
        assert_eq!(children(&server, folder).len(), 1);
        other.delete(&child(&server, folder, 0), None).await.unwrap();
        let held = kind.lock(&other).try_acquire_boxed().await.unwrap().unwrap();
        stalled.cancel();
        server.connection_of(one.session_id()).cut(Cut::Rst);
        // reason: virtual time, in which the client reconnects
        tokio::time::sleep(T / 4).await;
        assert!(!waiting.is_finished(), "{kind:?}");
        held.release_boxed().await.unwrap();
        assert!(waiting.await.unwrap().is_held(), "{kind:?}");
    }
}

/// The server has applied the create, and its caller has been dropped.
///
/// The next server lags behind and has no such node. In the second case it also rejects the `sync`
/// that would let it catch up.
#[tokio::test(start_paused = true)]
async fn cleanup_deletes_a_node_that_a_lagging_server_hides() {
    for declines in [false, true] {
        let server = TestServer::ensemble(3);
        let (one, record) = recorded_client(&server, 1).await;
        let lock = mutex(&one);
        lock.acquire().await.unwrap().release().await.unwrap();
        settle().await;
        server.lag(1, Duration::from_secs(3));
        record.move_to(1);
        server.on(Op::Create2).apply_then_drop_reply();
        if declines {
            server.on(Op::Sync).answer(ErrorCode::THROTTLED_OP);
        }
        drop(tokio::time::timeout(Duration::from_millis(1), lock.acquire()).await);
        // reason: virtual time, in which the clean-up runs
        tokio::time::sleep(T / 2).await;
        server.heal(1);
        // reason: virtual time, in which the clean-up runs
        tokio::time::sleep(T * 10).await;
        assert!(one.is_connected());
        assert_eq!(children(&server, PATH), [""; 0], "declines: {declines}");
    }
}

/// The value that the caller knows is newer than the state of the reader's server.
#[tokio::test(start_paused = true)]
async fn changed_ignores_an_older_value_of_a_lagging_server() {
    let server = TestServer::ensemble(2);
    let other = client(&server, 1).await;
    let config = Config::new("server-1:1").unwrap().session_timeout(T).seed(2);
    let one = config.connector(server.clone()).connect().await.unwrap();
    let written = SharedValue::new(&other, "/v", &b"0"[..]).unwrap();
    written.set(&b"1"[..]).await.unwrap();
    settle().await;
    server.freeze_view(1);
    let before = written.set(&b"2"[..]).await.unwrap();
    let value = SharedValue::new(&one, "/v", &b"0"[..]).unwrap();
    assert_eq!(value.get().await.unwrap().value(), "1", "the server lags behind");
    let changed = running(async move { value.changed(&before).await }).await;
    assert!(!changed.is_finished(), "{:?}", changed.await);
    server.heal(1);
    settle().await;
    assert!(!changed.is_finished(), "{:?}", changed.await);
    written.set(&b"3"[..]).await.unwrap();
    assert_eq!(changed.await.unwrap().unwrap().value(), "3");
}

#[tokio::test(start_paused = true)]
async fn delete_is_retried_after_a_transient_error() {
    for code in [ErrorCode::THROTTLED_OP, ErrorCode::SESSION_MOVED] {
        let (server, [one]) = started().await;
        let guard = mutex(&one).acquire().await.unwrap();
        server.on(Op::Delete).answer(code);
        drop(guard);
        // reason: virtual time, in which the clean-up runs
        tokio::time::sleep(T).await;
        assert_eq!(children(&server, PATH), [""; 0], "{code:?}");
    }
}

/// The server removes the parents again and again, as empty containers.
#[tokio::test(start_paused = true)]
async fn parents_are_created_again_a_limited_number_of_times() {
    for (times, is_acquired) in [(PARENT_ATTEMPTS_MAX, true), (PARENT_ATTEMPTS_MAX + 1, false)] {
        let (server, [client]) = started().await;
        let times = u64::try_from(times).unwrap();
        let missing = server.on(Op::Create2).times(times).answer(ErrorCode::NO_NODE);
        assert_eq!(mutex(&client).acquire().await.is_ok(), is_acquired);
        assert_eq!(missing.count(), times);
    }
}

/// A request that waits for a connection is cancelled with its acquisition. In an outage a service
/// may cancel acquisitions very often.
#[tokio::test(start_paused = true)]
async fn acquisitions_cancelled_in_an_outage_send_nothing() {
    let (server, client, record) = started_recorded().await;
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
    cut_off(&server, &client).await;
    for _ in 0..100 {
        tokio::time::timeout(T / 1_000, mutex(&client).acquire()).await.unwrap_err();
    }
    record.take();
    reconnect(&server).await;
    assert!(client.is_connected());
    assert_eq!(without_lease(record.take().concat()), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn participants_are_listed_after_a_lost_connection() {
    for op in [Op::GetChildren2, Op::GetData] {
        let (server, [one, other]) = started().await;
        let guard = mutex(&one).acquire().await.unwrap();
        server.on(op).drop_before_applying();
        let seen = mutex(&other).participants().await.unwrap();
        assert_eq!(seen.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), [guard.node()]);
    }
}

/// The future of a waiter that queues again is dropped before the create is answered. The next
/// attempt creates another node. Both its create and the clean-up of the dropped attempt lose their
/// replies, and the clean-up runs again.
#[tokio::test(start_paused = true)]
async fn repeated_cleanup_keeps_the_node_of_the_next_attempt() {
    let (server, [one, other]) = started().await;
    let mut waiting = mutex(&one).enqueue().await.unwrap();
    other.delete(waiting.node().unwrap(), None).await.unwrap();
    settle().await;
    let delay = Duration::from_millis(20);
    let late = server.on(Op::Create2).session(one.session_id()).delay(delay);
    let dropped = tokio::time::timeout(delay / 2, waiting.refresh()).await;
    assert!(dropped.is_err() && late.count() == 1, "in the middle of a create");
    settle().await;
    // The clean-up starts with a sync. Without its reply, the client accepts none of the next ones.
    let lost = server.on(Op::Sync).session(one.session_id()).never_answer();
    let guard = waiting.acquire().await.unwrap();
    assert_eq!(lost.count(), 1);
    // reason: virtual time, in which the clean-up runs
    tokio::time::sleep(T / 4).await;
    guard.check().await.unwrap();
    assert!(guard.node().ends_with("-0000000002"), "{}", guard.node());
    assert_eq!(children(&server, PATH).len(), 1);
}
