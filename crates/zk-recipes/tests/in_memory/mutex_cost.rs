//! Requests that a mutex sends, one by one.

use std::time::Duration;

use zk_recipes::limits::NODE_WATCH_DELAY;
use zk_recipes::{Guard, Mutex};
use zk_testing::TestServer;

use crate::recorded_connection::{
    CREATE2, DELETE, GET_CHILDREN2, Record, SET_WATCHES, WATCH_NODE, recorded_client,
    started_recorded, without_lease,
};
use crate::{T, children, settle_node_watches, started};

#[tokio::test(start_paused = true)]
async fn free_mutex_costs_one_write_and_one_delete() {
    let (_server, client, record) = started_recorded().await;
    let lock = Mutex::new(&client, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap(); // creates the path
    record.take();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(record.take(), [[CREATE2, GET_CHILDREN2]]);
    guard.token().unwrap();
    // reason: virtual time; the lock is held for less than the delay of the watch
    tokio::time::sleep(NODE_WATCH_DELAY - Duration::from_millis(1)).await;
    assert_eq!(record.take(), [[0; 0]; 0], "asking the guard asks no server");
    guard.release().await.unwrap();
    assert_eq!(record.take(), [[DELETE]]);
    settle_node_watches().await;
    assert_eq!(record.take(), [[0; 0]; 0], "no watch is set after the release");
}

#[tokio::test(start_paused = true)]
async fn free_mutex_held_long_costs_one_watch_more() {
    let (_server, client, record) = started_recorded().await;
    let lock = Mutex::new(&client, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap(); // creates the path
    record.take();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(record.take(), [[CREATE2, GET_CHILDREN2]]);
    settle_node_watches().await;
    assert_eq!(record.take(), [[WATCH_NODE]]);
    guard.token().unwrap();
    // reason: virtual time, in which the guard keeps the lock
    tokio::time::sleep(T * 3).await;
    assert_eq!(without_lease(record.take().concat()), [0; 0], "one watch is enough");
    guard.release().await.unwrap();
    assert_eq!(record.take(), [[DELETE]]);
}

#[tokio::test(start_paused = true)]
async fn next_in_line_acquires_without_a_request() {
    let (server, [holder]) = started().await;
    let (next, record) = recorded_client(&server, 2).await;
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move { Mutex::new(&next, "/lock").unwrap().acquire().await });
    queued(&server, 2).await;
    // One request sets the watches on the node ahead and on the waiter's own node.
    assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2], vec![SET_WATCHES]]);
    guard.release().await.unwrap();
    let guard: Guard = waiting.await.unwrap().unwrap();
    settle_node_watches().await;
    assert_eq!(record.take(), [[0; 0]; 0], "the guard goes on with the waiter's watch");
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn waiter_sends_at_most_6_requests_in_short_and_long_queues() {
    let mut per_waiter = Vec::new();
    for waiters in [3, 30] {
        let (server, [holder]) = started().await;
        let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
        let mut queue = Vec::new();
        let mut records: Vec<Record> = Vec::new();
        for seed in 0..waiters {
            let (client, record) = recorded_client(&server, 2 + seed).await;
            records.push(record);
            queue.push(tokio::spawn(take_a_turn(client)));
            queued(&server, 2 + usize::try_from(seed).unwrap()).await;
        }
        guard.release().await.unwrap();
        for turn in queue {
            turn.await.unwrap();
        }
        per_waiter.push(records.iter().map(Record::count).max().unwrap());
    }
    // Queueing: create, list, one request for all watches. After a long wait: a read of the node
    // ahead. Near the front: one list and no new watch. Release: one delete.
    assert_eq!(per_waiter, [5, 6]);
}

/// A waiter that is not first must not grant the lock to the next waiter when it is cancelled.
#[tokio::test(start_paused = true)]
async fn cancelled_waiters_do_not_grant_the_lock() {
    let (server, [client]) = started().await;
    let lock = Mutex::new(&client, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let mut queue = Vec::new();
    for n in 2..=8 {
        let lock = lock.clone();
        queue.push(tokio::spawn(async move { lock.acquire().await.unwrap().node().to_owned() }));
        queued(&server, n).await;
    }
    let last = queue.pop().unwrap();
    // The order has both cases: the nearest waiter leaves before the second nearest, and after it.
    for given_up in [5, 2, 4, 0, 1, 3] {
        queue[given_up].abort();
        // reason: virtual time, in which all tasks run until they wait
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!last.is_finished());
        assert!(guard.is_held());
    }
    queued(&server, 2).await;
    guard.release().await.unwrap();
    last.await.unwrap();
}

/// A waiter without a node must not acquire the lock by an event.
#[tokio::test(start_paused = true)]
async fn waiter_requeues_when_its_node_is_deleted() {
    let (server, [one, other]) = started().await;
    let guard = Mutex::new(&one, "/lock").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = Mutex::new(&other, "/lock").unwrap();
        async move { lock.acquire().await.unwrap() }
    });
    queued(&server, 2).await;
    let mut nodes: Vec<String> = server.with(|ensemble| {
        ensemble.tree().node("/lock").unwrap().children().map(str::to_owned).collect()
    });
    nodes.retain(|name| !guard.node().ends_with(name));
    one.delete(&format!("/lock/{}", nodes[0]), None).await.unwrap();
    queued(&server, 2).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(!next.node().ends_with(&nodes[0]));
    next.check().await.unwrap();
}

async fn take_a_turn(client: zk_recipes::session::Client) {
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    // reason: virtual time of the hold, long enough for a watch to be removed
    tokio::time::sleep(Duration::from_secs(1)).await;
    guard.release().await.unwrap();
}

/// Waits until the queue has `count` nodes, and all tasks wait.
async fn queued(server: &TestServer, count: usize) {
    let children = || {
        server.with(|ensemble| {
            ensemble.tree().node("/lock").map_or(0, |node| node.children().count())
        })
    };
    while children() != count {
        tokio::task::yield_now().await;
    }
    settled().await;
}

/// Lets all tasks run until they wait for time to pass.
async fn settled() {
    // reason: the paused clock advances when no task is ready
    tokio::time::sleep(Duration::from_millis(1)).await;
}
