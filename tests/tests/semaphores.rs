//! Tests of semaphores on a real server: no node is left behind, and no permit is granted twice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use zk_recipes::session::Client;
use zk_recipes::{Lock, MultiLock, Mutex, Semaphore, SemaphoreMutex};
use zk_tests::{connect, contenders, open, shared_zookeeper, zookeeper};

#[tokio::test(flavor = "multi_thread")]
async fn semaphore_never_grants_more_permits_than_its_limit() {
    let Some(zk) = shared_zookeeper() else { return };
    let held = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let client = open(&zk.connect_string()).await;
        let held = held.clone();
        tasks.push(tokio::spawn(async move {
            let semaphore = Semaphore::new(&client, "/semaphores/many", PERMITS).unwrap();
            for round in 0..ROUNDS {
                let take = 1 + (number + round) % PERMITS;
                let lease = match round % 4 {
                    0 => match semaphore.try_acquire_many(take).await.unwrap() {
                        Some(lease) => lease,
                        None => continue,
                    },
                    _ => semaphore.acquire_many(take).await.unwrap(),
                };
                let now = held.fetch_add(take, Ordering::SeqCst) + take;
                assert!(now <= PERMITS, "{now} of {PERMITS}");
                tokio::task::yield_now().await;
                held.fetch_sub(take, Ordering::SeqCst);
                lease.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let observer = open(&zk.connect_string()).await;
    expect_free(&observer, "/semaphores/many").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquisition_dropped_after_any_poll_leaves_no_node() {
    let Some(zk) = shared_zookeeper() else { return };
    let client = open(&zk.connect_string()).await;
    for polls in 0..POLLS_MAX {
        // Each round uses a new path, so that the creation of the path is interrupted too.
        let path = format!("/semaphores/polls/{polls}");
        let semaphore = Semaphore::new(&client, &path, 3).unwrap();
        let lease = polled(polls, semaphore.acquire_many(3)).await;
        let done = lease.is_some();
        drop(lease);
        expect_free(&client, &path).await;
        if done {
            println!("three permits take {polls} polls at most");
            return;
        }
    }
    panic!("not done after {POLLS_MAX} polls");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_and_permit_waiter_survive_server_restart() {
    let Some(zk) = zookeeper() else { return };
    let address = zk.connect_string();
    let timeout = Duration::from_secs(30);
    let (one, other) = (connect(&address, timeout).await, connect(&address, timeout).await);
    let semaphore = |client: &Client| Semaphore::new(client, "/s", 3).unwrap();
    let lease = semaphore(&one).acquire_many(2).await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = semaphore(&other);
        async move { semaphore.acquire_many(2).await }
    });
    contenders(&one, "/s/leases", 4).await;
    zk.kill();
    let released = tokio::spawn(lease.release());
    zk.restart().unwrap();
    assert_eq!(released.await.unwrap(), Ok(()));
    let lease = waiting.await.unwrap().unwrap();
    assert!(lease.is_held());
    assert!(semaphore(&one).try_acquire_many(2).await.unwrap().is_none());
    lease.release().await.unwrap();
    expect_free(&one, "/s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_locks_in_canonical_order_do_not_deadlock() {
    let Some(zk) = shared_zookeeper() else { return };
    let (one, other) = (open(&zk.connect_string()).await, open(&zk.connect_string()).await);
    let locks = |client: &Client| -> [Arc<dyn Lock>; 3] {
        [
            Arc::new(Mutex::new(client, "/multi/c").unwrap()),
            Arc::new(SemaphoreMutex::new(client, "/multi/a").unwrap()),
            Arc::new(Semaphore::new(client, "/multi/b", 1).unwrap()),
        ]
    };
    let mut backwards = locks(&other);
    backwards.reverse();
    let run = async |locks: MultiLock| {
        for _ in 0..20 {
            let guard = locks.acquire().await.unwrap();
            assert!(guard.tokens().unwrap().is_sorted());
            guard.release().await.unwrap();
        }
    };
    tokio::join!(
        run(MultiLock::in_canonical_order(locks(&one))),
        run(MultiLock::in_canonical_order(backwards)),
    );
    for path in ["/multi/a", "/multi/b"] {
        expect_free(&one, path).await;
    }
    contenders(&one, "/multi/c", 0).await;
}

async fn expect_free(client: &Client, path: &str) {
    // Requests that were sent earlier are answered before this one.
    client.sync("/").await.unwrap();
    for below in ["leases", "locks"] {
        contenders(client, &format!("{path}/{below}"), 0).await;
    }
}

/// Polls a future this many times and then drops it, unless it completes.
async fn polled<T, E: std::fmt::Debug>(
    polls: usize,
    future: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| match left.checked_sub(1) {
        None => Poll::Ready(None),
        Some(fewer) => {
            left = fewer;
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done.unwrap())),
                // The drop follows the last poll directly, without a wait.
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }
    })
    .await
}

const CLIENTS: u32 = 8;
const ROUNDS: u32 = 20;
const PERMITS: u32 = 4;
const POLLS_MAX: usize = 200;
