//! Waiters in a task that has used up tokio's cooperative budget.
//!
//! Tokio's channels return `Pending` to such a task, even if an event has arrived.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::coop::consume_budget;
use zk_recipes::{Guard, Lock, MultiLock, Mutex};
use zk_testing::{Cut, TestServer};

use crate::{T, children, client, queue_many, running, settle, started};

/// Units of budget that tokio gives a task for each poll.
const BUDGET: usize = 128;

/// Polls a future, and spends `units` of the budget before the first poll after `spends` is set.
///
/// Later polls have the whole budget again.
async fn spending<F: Future>(units: usize, spends: Arc<AtomicBool>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if spends.swap(false, Ordering::Relaxed) {
            for unit in 0..units {
                let spent = pin!(consume_budget()).poll(cx);
                assert!(spent.is_ready(), "unit {unit} of {units}");
            }
        }
        future.as_mut().poll(cx)
    })
    .await
}

/// Other code in the task uses up the budget in every poll.
#[tokio::test(start_paused = true)]
async fn acquire_timeout_ends_in_a_task_without_budget() {
    let (_server, [one, other]) = started().await;
    let held = Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap();
    for is_multi in [false, true] {
        let lock = Mutex::new(&one, "/lock").unwrap();
        let timeout = Duration::from_millis(30);
        let waiting = tokio::spawn(async move {
            let mut acquire = pin!(async {
                match is_multi {
                    false => lock.acquire_timeout(timeout).await.unwrap().is_some(),
                    true => {
                        let lock: [Arc<dyn Lock>; 1] = [Arc::new(lock)];
                        MultiLock::new(lock).acquire_timeout(timeout).await.unwrap().is_some()
                    }
                }
            });
            poll_fn(|cx| {
                while pin!(consume_budget()).poll(cx).is_ready() {}
                acquire.as_mut().poll(cx)
            })
            .await
        });
        tokio::task::yield_now().await;
        tokio::time::advance(timeout * 2).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(waiting.is_finished(), "several locks: {is_multi}");
        assert!(!waiting.await.unwrap());
    }
    drop(held);
}

/// The event of a predecessor uses the last unit. No unit is left for the event of the waiter's own
/// node.
#[tokio::test(start_paused = true)]
async fn waiter_sees_its_node_is_deleted_without_task_budget() {
    for predecessors in [1, 2] {
        for units in BUDGET - 8..=BUDGET {
            let case = format!("{predecessors} ahead, {units} units");
            let server = TestServer::in_memory();
            let (other, operator) = (client(&server, 1).await, client(&server, 3).await);
            let one = client(&server, 2).await;
            let lock = |client| Mutex::new(client, "/lock").unwrap();
            let held = lock(&other).acquire().await.unwrap();
            let between = queue_many(&lock(&other), predecessors - 1).await;
            let spends = Arc::new(AtomicBool::new(false));
            let waiting = running({
                let (lock, spends) = (lock(&one), Arc::clone(&spends));
                spending(units, spends, async move { lock.acquire().await.unwrap() })
            })
            .await;
            assert!(!waiting.is_finished(), "{case}");

            // One transaction deletes all nodes, so all events have arrived when the waiter is
            // polled.
            let names = children(&server, "/lock");
            assert_eq!(names.len(), predecessors + 1, "{case}");
            let paths: Vec<String> = names.iter().map(|name| format!("/lock/{name}")).collect();
            let all = paths.iter().fold(operator.multi(), |multi, path| multi.delete(path, None));
            spends.store(true, Ordering::Relaxed);
            all.send().await.unwrap();
            // The waiter in between queues again.
            settle().await;
            drop(between);
            let guard: Guard = waiting.await.unwrap();
            assert!(!spends.load(Ordering::Relaxed), "{case}");
            assert!(!paths.iter().any(|path| path == guard.node()), "{case}: it has a new node");
            guard.check().await.expect(&case);
            // reason: virtual time, in which a guard with a deleted node would fail
            tokio::time::sleep(T).await;
            assert!(guard.is_held(), "{case}");
            drop(held);
        }
    }
}

/// The attempts never wait, so without a limit the driver of this runtime would never run.
#[tokio::test]
async fn attempts_without_a_connection_let_the_session_reconnect() {
    let (server, [client]) = started().await;
    let lock = Mutex::new(&client, "/lock").unwrap();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    while client.is_connected() {
        tokio::task::yield_now().await;
    }
    server.accept_connects(0);
    let mut attempts = 0;
    while !matches!(lock.acquire_timeout(Duration::ZERO).await, Ok(Some(_))) {
        attempts += 1;
        assert!(attempts < 1_000_000, "the session does not reconnect");
    }
    assert!(attempts > 0, "the first attempt had no connection");
}
