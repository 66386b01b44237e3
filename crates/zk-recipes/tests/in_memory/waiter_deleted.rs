//! Contenders whose nodes another client deletes just before they would acquire the lock.

use std::time::Duration;

use zk_recipes::limits::RESTARTS_MAX;
use zk_recipes::session::{Client, CreateMode, OPEN_ACL_UNSAFE};
use zk_recipes::{Guard, LockError, Mutex, Owner};
use zk_testing::{Cut, Settings, TestServer, Version};

use crate::stepped::{Steps, stepped};
use crate::{
    attempt, child, children, config, cut_off, queue, queue_many, reconnect, running, settle,
    started, started_with,
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

/// The events missed during a disconnect arrive in pieces.
///
/// A waiter without a node does not acquire the lock at any step.
#[tokio::test(start_paused = true)]
async fn deleted_waiter_is_not_granted_between_missed_events() {
    for own_first in [true, false] {
        let (server, [one]) = started().await;
        let steps = Steps::default();
        let other = config(2).connector(stepped(&server, &steps)).connect().await.unwrap();
        let (held, [deleted, next]) = three(&server, &one, &other).await;
        let at = if own_first { [1, 0] } else { [0, 1] };
        let [first, second] = at.map(|at| child(&server, PATH, at));
        server.refuse_connects(0);
        steps.allow(0);
        server.connection_of(other.session_id()).cut(Cut::Rst);
        one.delete(&first, None).await.unwrap();
        one.delete(&second, None).await.unwrap();
        server.accept_connects(0);
        let mut taken = 0;
        while !next.is_finished() {
            // reason: virtual time, in which the client reconnects
            tokio::time::sleep(Duration::from_millis(10)).await;
            steps.allow(1);
            settle().await;
            assert!(!deleted.is_finished(), "own first: {own_first}, after {taken} steps");
            taken += 1;
        }
        assert!(taken > 8, "more than a handshake: {taken}");
        steps.allow_all();
        next.await.unwrap().release().await.unwrap();
        deleted.await.unwrap().check().await.unwrap();
        drop(held);
    }
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

/// The acquisition waits for the outcome of its owner's place in the queue, which no task polls.
#[tokio::test(start_paused = true)]
async fn waiter_behind_its_owners_place_fails_when_the_session_ends() {
    for closes in [true, false] {
        let (server, [one, other]) = started().await;
        let _held = mutex(&one).acquire().await.unwrap();
        let lock = mutex(&other).with_owner(&Owner::new());
        let place = lock.enqueue().await.unwrap();
        let waiting = running({
            let lock = lock.clone();
            async move { lock.acquire().await.map(drop) }
        })
        .await;
        match closes {
            true => other.close().await,
            false => assert!(server.expire(other.session_id())),
        }
        settle().await;
        assert!(waiting.is_finished(), "closes: {closes}");
        waiting.await.unwrap().unwrap_err();
        drop(place);
    }
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
