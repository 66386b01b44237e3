//! Cases that need a second request: another client deletes a contender's node just before it would acquire
//! the lock, a server lags behind, a request is rejected for now, or the connection is lost.

use std::time::Duration;

use zk_recipes::limits::{PARENT_ATTEMPTS_MAX, RESTARTS_MAX};
use zk_recipes::session::{Client, Config, CreateMode, ErrorCode, OPEN_ACL_UNSAFE};
use zk_recipes::{Guard, LockError, Mutex, Owner, SharedValue};
use zk_testing::{Cut, Op, Settings, TestServer, Version};

use crate::recorded_connection::{recorded_client, started_recorded, without_lease};
use crate::stepped::{Steps, stepped};
use crate::{
    Kind, T, attempt, child, children, client, config, cut_off, queue, queue_many, reconnect,
    running, settle, started, started_with,
};

const PATH: &str = "/lock";

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

/// Creates a holder, a waiter, and a second waiter behind it.
async fn three(
    server: &TestServer,
    one: &Client,
    other: &Client,
) -> (Guard, [tokio::task::JoinHandle<Guard>; 2]) {
    let held = mutex(one).acquire().await.unwrap();
    let waiting = queue_many(&mutex(other), 2).await;
    assert_eq!(children(server, PATH).len(), 3);
    (held, waiting.try_into().unwrap())
}

/// One transaction deletes the nodes of the holder and of the waiter, in either order, and may mark the
/// release of the holder.
///
/// Both events arrive together. The same transaction grants the lock to the next waiter.
#[tokio::test(start_paused = true)]
async fn waiter_requeues_when_deleted_with_its_predecessor() {
    for (own_first, is_marked) in [(true, false), (false, false), (true, true), (false, true)] {
        let case = format!("own first: {own_first}, marked: {is_marked}");
        let (server, [one, other]) = started_with(Settings::new().version(Version::V3_9)).await;
        let (held, [deleted, next]) = three(&server, &one, &other).await;
        let [holder, own] = [0, 1].map(|at| child(&server, PATH, at));
        let mut all = one.multi();
        if own_first {
            all = all.delete(&own, None);
        }
        if is_marked {
            all = all.set_data(&holder, b"", None);
        }
        all = all.delete(&holder, None);
        let all = if own_first { all } else { all.delete(&own, None) };
        all.send().await.unwrap();
        settle().await;
        assert!(!deleted.is_finished(), "{case}");
        let next = next.await.unwrap();
        next.check().await.unwrap();
        next.release().await.unwrap();
        let last = deleted.await.unwrap();
        last.check().await.unwrap();
        assert!(last.node() != own && !held.is_held(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_fails_after_its_limit_of_deletions() {
    let (server, [one, other]) = started().await;
    let _held = mutex(&one).acquire().await.unwrap();
    let waiting = attempt(&mutex(&other)).await;
    let mut deleted = 0;
    while !waiting.is_finished() {
        let node = child(&server, PATH, 1);
        one.delete(&node, None).await.unwrap();
        settle().await;
        deleted += 1;
    }
    assert_eq!(deleted, RESTARTS_MAX);
    let failed = waiting.await.unwrap().unwrap_err();
    assert_eq!(failed, LockError::NodeDeleted { path: PATH.to_owned() });
}

/// The deletion of the old node must not end the hold of the new one.
#[tokio::test(start_paused = true)]
async fn requeued_ticket_has_no_watch_of_its_old_node() {
    let (server, [one, other]) = started().await;
    let held = mutex(&other).acquire().await.unwrap();
    let mut waiting = mutex(&one).enqueue().await.unwrap();
    settle().await;
    let turn = running(async move { waiting.position_changed().await.map(|_| waiting) }).await;
    held.release().await.unwrap();
    let waiting = turn.await.unwrap().unwrap();
    let node = waiting.node().unwrap().to_owned();
    cut_off(&server, &one).await;
    let acquiring = running(waiting.acquire()).await;
    other.delete(&node, None).await.unwrap();
    other.delete(PATH, None).await.unwrap();
    server.accept_connects(0);
    let guard = acquiring.await.unwrap().unwrap();
    settle().await;
    assert!(other.exists(guard.node()).await.unwrap().is_some());
    assert_eq!(guard.token().map(drop), Ok(()));
}

/// Somebody else has had the lock between the deletion of a node and the creation of another one of its
/// name. A list shows names only.
#[tokio::test(start_paused = true)]
async fn ticket_does_not_take_another_node_for_its_own() {
    let (_server, [one, other]) = started().await;
    let ticket = mutex(&one).enqueue().await.unwrap();
    let node = ticket.node().unwrap().to_owned();
    other.delete(&node, None).await.unwrap();
    let held = mutex(&other).acquire().await.unwrap();
    other.create(&node, b"", CreateMode::Ephemeral).await.unwrap();
    let waiting = running(async move { ticket.acquire().await.unwrap() }).await;
    assert!(!waiting.is_finished());
    let token = held.token().unwrap();
    held.release().await.unwrap();
    // Its own client deletes the other node.
    other.delete(&node, None).await.unwrap();
    assert!(waiting.await.unwrap().token().unwrap() > token);
}

/// The root is a path like any other, and any timeout is valid.
#[tokio::test(start_paused = true)]
async fn every_recipe_works_in_the_root() {
    use zk_recipes::{RwLock, Semaphore, SemaphoreMutex};
    let (_server, [one]) = started().await;
    let forever = Duration::MAX;
    let lock = Mutex::new(&one, "/").unwrap().with_owner(&Owner::new());
    let guard = lock.acquire_timeout(forever).await.unwrap().unwrap();
    assert!(guard.node().starts_with("/_c_"));
    drop((lock.acquire().await.unwrap(), guard));
    let lock = RwLock::new(&one, "/").unwrap();
    let writer = lock.write().acquire_timeout(forever).await.unwrap().unwrap();
    writer.downgrade().await.unwrap().release().await.unwrap();
    let permits = Semaphore::new(&one, "/", 3).unwrap();
    let lease = permits.acquire_many_timeout(3, forever).await.unwrap().unwrap();
    assert!(lease.nodes().all(|node| node.starts_with("/leases/")));
    drop(lease);
    drop(SemaphoreMutex::new(&one, "/").unwrap().acquire().await.unwrap());
}

/// Another client deletes a waiter's node, and creates it again under the same name, before the
/// waiter watches it. The waiter may be disconnected meanwhile. The check runs for every number of
/// steps of its connection before that, from the reply to the create on.
///
/// The waiter does not take that node for its own: it queues again.
#[tokio::test(start_paused = true)]
async fn waiter_requeues_if_another_node_has_its_name() {
    for (is_cut, taken) in
        [false, true].into_iter().flat_map(|cut| (2..24).map(move |it| (cut, it)))
    {
        let (server, [one]) = started_with(Settings::new().version(Version::V3_9)).await;
        let held = mutex(&one).acquire().await.unwrap();
        let steps = Steps::default();
        let other = config(2).connector(stepped(&server, &steps)).connect().await.unwrap();
        steps.allow(taken);
        let waiting = queue(&mutex(&other)).await;
        let node = child(&server, PATH, 1);
        if is_cut {
            server.refuse_connects(0);
            server.connection_of(other.session_id()).cut(Cut::Rst);
        }
        one.delete(&node, None).await.unwrap();
        one.create(&node, b"", CreateMode::Persistent).await.unwrap();
        steps.allow_all();
        reconnect(&server).await;
        held.release().await.unwrap();
        settle().await;
        // It is another client's, so it is still there. Mostly it is ahead in the queue.
        one.delete(&node, None).await.unwrap();
        let guard = waiting.await.unwrap();
        assert_ne!(guard.node(), node, "cut: {is_cut}, after {taken} steps");
        guard.check().await.unwrap();
    }
}

/// The watch on a node with its own ACL is set by a read of that node, which may be another one.
#[tokio::test(start_paused = true)]
async fn waiter_with_an_acl_does_not_watch_a_namesake() {
    let (server, [one, other]) = started().await;
    let held = mutex(&one).acquire().await.unwrap();
    let mut waiting = mutex(&other).with_acl(OPEN_ACL_UNSAFE).enqueue().await.unwrap();
    let own = waiting.node().unwrap().to_owned();
    one.delete(&own, None).await.unwrap();
    one.create(&own, b"", CreateMode::Ephemeral).await.unwrap();
    let moved = running(async move { (waiting.position_changed().await.unwrap(), waiting) }).await;
    assert_eq!(children(&server, PATH).len(), 3, "it has queued again");
    held.release().await.unwrap();
    let (_, waiting) = moved.await.unwrap();
    assert_ne!(waiting.node(), Some(own.as_str()));
    assert!(one.exists(&own).await.unwrap().is_some(), "the node of another client stays");
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

/// `TestLockInternals.testAttemptLockFailedException` (CURATOR-41): an acquisition that fails after
/// its node was created deletes the node, and returns the cause. The next contender acquires the
/// lock.
#[tokio::test(start_paused = true)]
async fn failed_acquisition_returns_its_error_and_leaves_no_node() {
    let (server, [one, other]) = started().await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    // The list that would show the acquisition fails, and so does the first delete of the node.
    let list = server.on(Op::GetChildren2).always().answer(ErrorCode::NO_AUTH);
    let delete = server.on(Op::Delete).times(1).drop_before_applying();
    let LockError::Client(failed) = lock.acquire().await.unwrap_err() else {
        panic!("the server declines the list")
    };
    assert_eq!(failed.code(), Some(ErrorCode::NO_AUTH), "{failed}");
    list.cancel();
    let next = Mutex::new(&other, "/lock").unwrap();
    let guard = next.acquire_timeout(3 * T).await.unwrap().expect("nobody is in the way");
    assert_eq!(delete.count(), 1);
    assert_eq!(children(&server, "/lock").len(), 1);
    guard.release().await.unwrap();
}
