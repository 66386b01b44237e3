//! Tests that a cancelled acquisition leaves no node behind, at any point and in any way of
//! cancelling, although its session lives on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zk_recipes::session::Client;
use zk_recipes::{Guard, LockError, Mutex};
use zk_tests::{connect, contenders, eventually, open, shared_zookeeper, zookeeper};

#[tokio::test(flavor = "multi_thread")]
async fn acquisition_dropped_after_any_poll_leaves_no_node() {
    let Some(zk) = shared_zookeeper() else { return };
    let client = open(&zk.connect_string()).await;
    for polls in 0..POLLS_MAX {
        // Each round uses a new path, so that the creation of the path is interrupted too.
        let path = format!("/cancel/polls/{polls}");
        let lock = Mutex::new(&client, &path).unwrap();
        let acquired = polled(polls, lock.acquire()).await;
        let done = acquired.is_some();
        drop(acquired);
        expect_free(&client, &path).await;
        if done {
            println!("an uncontended acquisition takes {polls} polls at most");
            return;
        }
    }
    panic!("not done after {POLLS_MAX} polls");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_dropped_after_any_poll_leaves_no_node() {
    let Some(zk) = shared_zookeeper() else { return };
    let (holder, client) = (open(&zk.connect_string()).await, open(&zk.connect_string()).await);
    const PATH: &str = "/cancel/waiters";
    let holders_lock = Mutex::new(&holder, PATH).unwrap();
    let lock = Mutex::new(&client, PATH).unwrap();
    for polls in 0..POLLS_MAX {
        let guard = holders_lock.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { polled(polls, lock.acquire()).await }
        });
        // The holder releases as soon as the waiter has queued or ended.
        eventually(LIMIT, async || {
            let queued = holders_lock.participants().await.unwrap().len() == 2;
            (queued || waiting.is_finished()).then_some(())
        })
        .await
        .expect("the waiter neither queued nor ended");
        guard.release().await.unwrap();
        let acquired = waiting.await.unwrap();
        let done = acquired.is_some();
        drop(acquired);
        expect_free(&client, PATH).await;
        if done {
            println!("a contended acquisition takes {polls} polls at most");
            return;
        }
    }
    panic!("not done after {POLLS_MAX} polls");
}

#[tokio::test(flavor = "multi_thread")]
async fn acquisition_timed_out_at_any_time_leaves_no_node() {
    let Some(zk) = shared_zookeeper() else { return };
    let (holder, client) = (open(&zk.connect_string()).await, open(&zk.connect_string()).await);
    const PATH: &str = "/cancel/times";
    let lock = Mutex::new(&client, PATH).unwrap();
    let mut completed = 0;
    // Uncontended: some acquisitions complete in time, and some do not.
    for step in 0..STEPS {
        completed += usize::from(matches!(lock.acquire_timeout(STEP * step).await, Ok(Some(_))));
    }
    expect_free(&client, PATH).await;
    println!("{completed} of {STEPS} acquisitions were done before they were dropped");

    // Contended, several at once: no acquisition completes, and every waiter leaves the queue.
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    let waiters: Vec<_> = (0..STEPS)
        .map(|step| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire_timeout(STEP * step).await })
        })
        .collect();
    for waiter in waiters {
        assert!(waiter.await.unwrap().unwrap().is_none());
    }
    contenders(&holder, PATH, 1).await;
    guard.release().await.unwrap();
    expect_free(&client, PATH).await;
    assert!(client.is_connected() && client.end_reason().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_try_acquire_leaves_no_node() {
    let Some(zk) = shared_zookeeper() else { return };
    let (holder, client) = (open(&zk.connect_string()).await, open(&zk.connect_string()).await);
    const PATH: &str = "/cancel/try";
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    let lock = Mutex::new(&client, PATH).unwrap();
    for _ in 0..20 {
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    let names = contenders(&holder, PATH, 1).await;
    assert!(guard.node().ends_with(&names[0]));
    guard.release().await.unwrap();
    let guard = lock.try_acquire().await.unwrap().expect("free, and nobody waits");
    guard.release().await.unwrap();
    expect_free(&holder, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_guard_releases_lock() {
    let Some(zk) = shared_zookeeper() else { return };
    let client = open(&zk.connect_string()).await;
    const PATH: &str = "/cancel/guard";
    let lock = Mutex::new(&client, PATH).unwrap();
    for _ in 0..20 {
        let guard = tokio::time::timeout(LIMIT, lock.acquire()).await.expect("not free").unwrap();
        drop(guard);
    }
    expect_free(&client, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_and_cancels_during_downtime_take_effect_later() {
    let Some(zk) = zookeeper() else { return };
    let timeout = Duration::from_secs(30);
    let address = zk.connect_string();
    let (client, other) = (connect(&address, timeout).await, connect(&address, timeout).await);
    let [released, dropped, waiting] = ["/down/released", "/down/dropped", "/down/waiting"];
    let lock = |client: &Client, path: &str| Mutex::new(client, path).unwrap();
    let release = lock(&client, released).acquire().await.unwrap();
    let drop_it = lock(&client, dropped).acquire().await.unwrap();
    let holder = lock(&other, waiting).acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = lock(&client, waiting);
        async move { lock.acquire().await }
    });
    contenders(&other, waiting, 2).await;

    zk.kill();
    let release = tokio::spawn(release.release());
    drop(drop_it);
    waiter.abort();
    zk.restart().unwrap();

    let result = tokio::time::timeout(LIMIT, release).await.expect("no answer").unwrap();
    assert_eq!(result, Ok(()));
    for path in [released, dropped] {
        expect_free(&other, path).await;
    }
    let names = contenders(&other, waiting, 1).await;
    assert!(holder.node().ends_with(&names[0]));
    // All of this happened within the same two sessions.
    assert_eq!((client.end_reason(), other.end_reason()), (None, None));
    lock(&client, released).try_acquire().await.unwrap().expect("free").release().await.unwrap();
    holder.release().await.unwrap();
}

/// Polls a future this many times and then drops it, unless it completes.
async fn polled(
    polls: usize,
    future: impl Future<Output = Result<Guard, LockError>>,
) -> Option<Guard> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| match left.checked_sub(1) {
        None => Poll::Ready(None),
        Some(fewer) => {
            left = fewer;
            match future.as_mut().poll(cx) {
                Poll::Ready(acquired) => Poll::Ready(Some(acquired.unwrap())),
                // The drop follows the last poll directly, without a wait.
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }
    })
    .await
}

/// Waits until the lock has no holder and no waiter. `client` must be the client that cancelled.
async fn expect_free(client: &Client, path: &str) {
    // Requests that were sent earlier are answered before this one.
    client.sync("/").await.unwrap();
    contenders(client, path, 0).await;
}

const POLLS_MAX: usize = 100;
const STEPS: u32 = 60;
const STEP: Duration = Duration::from_micros(100);
const LIMIT: Duration = Duration::from_secs(30);
