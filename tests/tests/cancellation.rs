//! Whoever gives up, at whatever moment and in whatever way, leaves no node behind, though its
//! session lives on.

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
async fn an_acquisition_dropped_after_any_number_of_polls_leaves_nothing() {
    let Some(zk) = shared_zookeeper() else { return };
    let client = open(&zk.connect_string()).await;
    for polls in 0..POLLS_MAX {
        // A path of its own each time, so that the making of the path is interrupted too.
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
async fn a_waiter_dropped_after_any_number_of_polls_leaves_nothing() {
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
        // Hands the lock over as soon as the waiter has queued, if it lives to do so.
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
async fn an_acquisition_dropped_at_any_time_leaves_nothing() {
    let Some(zk) = shared_zookeeper() else { return };
    let (holder, client) = (open(&zk.connect_string()).await, open(&zk.connect_string()).await);
    const PATH: &str = "/cancel/times";
    let lock = Mutex::new(&client, PATH).unwrap();
    let mut completed = 0;
    // Uncontended: some get it in time, some do not.
    for step in 0..STEPS {
        completed += usize::from(matches!(lock.acquire_timeout(STEP * step).await, Ok(Some(_))));
    }
    expect_free(&client, PATH).await;
    println!("{completed} of {STEPS} acquisitions were done before they were dropped");

    // Contended, several at once: none gets it, all leave.
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
    assert!(client.is_connected() && client.ended().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_try_leaves_nothing() {
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
async fn a_dropped_guard_frees_the_lock() {
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
async fn what_is_given_up_while_the_server_is_down_is_gone_when_it_is_back() {
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
    // It is the same session that all this happened to.
    assert_eq!((client.ended(), other.ended()), (None, None));
    lock(&client, released).try_acquire().await.unwrap().expect("free").release().await.unwrap();
    holder.release().await.unwrap();
}

/// Polls a future this many times and then drops it, unless it is done.
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
                // The last poll is followed by the drop and not by a wait.
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }
    })
    .await
}

/// Waits until nobody holds the lock or waits for it. To be asked of the client that gave up.
async fn expect_free(client: &Client, path: &str) {
    // Whatever was sent before has been answered when this has.
    client.sync("/").await.unwrap();
    contenders(client, path, 0).await;
}

const POLLS_MAX: usize = 100;
const STEPS: u32 = 60;
const STEP: Duration = Duration::from_micros(100);
const LIMIT: Duration = Duration::from_secs(30);
