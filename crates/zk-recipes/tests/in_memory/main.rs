//! Tests of the recipes against the in-process test server.
//!
//! Most tests use in-memory streams and pause tokio's clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod blocking;
mod cancelled;
mod closing;
mod common_id;
mod election;
mod election_reports;
mod errors;
mod foreign_nodes;
mod guard;
mod guard_watch;
mod leader_change;
mod left_behind;
mod lifetime_cost;
mod local_queue;
mod marked_release;
mod metrics;
mod multi_lock;
mod nodes;
mod other_servers;
mod outside_runtime;
mod owner;
mod program_exit;
mod recorded_connection;
mod run_whenever_held;
mod rwlock;
mod semaphore;
mod shared_value;
mod short_request_timeouts;
mod stepped;
mod tapped;
mod timeouts;
mod tokio_budget;
mod unreadable_create;
mod waiter_deleted;
mod waiting;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use zk_recipes::limits::NODE_WATCH_DELAY;
use zk_recipes::session::{Client, Config};
use zk_recipes::{
    Guard, Lock, LockError, LockGuard, Mutex, ReadLock, RwLock, Semaphore, SemaphoreGuard,
    SemaphoreMutex, WriteGuard, WriteLock,
};
use zk_testing::{Cut, Settings, TestServer};

/// Session timeout of the clients.
pub(crate) const T: Duration = Duration::from_secs(10);

/// Length of a lease, counted from the touch that it starts with.
///
/// It is the session timeout less a twelfth and a thousandth of it, rounded up to the next
/// millisecond, because timers fire at milliseconds.
pub(crate) const LEASE: Duration = Duration::from_millis(9_157);

/// Longest part of the lease that a guard promises: half of the session timeout, less the margin and
/// the drift of clocks.
pub(crate) const PROMISED: Duration = Duration::from_millis(4_157);

pub(crate) fn config(seed: u128) -> Config {
    Config::new("server:1").unwrap().session_timeout(T).seed(seed)
}

pub(crate) async fn client(server: &TestServer, seed: u128) -> Client {
    config(seed).connector(server.clone()).connect().await.unwrap()
}

/// Starts a server in memory and connects clients with the seeds 1, 2 and so on.
pub(crate) async fn started<const N: usize>() -> (TestServer, [Client; N]) {
    started_with(Settings::new()).await
}

pub(crate) async fn started_with<const N: usize>(settings: Settings) -> (TestServer, [Client; N]) {
    let server = TestServer::in_memory_with(settings);
    let mut clients = Vec::new();
    for seed in 1..=N {
        clients.push(client(&server, seed as u128).await);
    }
    (server, clients.try_into().expect("as many clients"))
}

/// A lock of any kind, with the guard of its own type.
pub(crate) trait Acquire: Clone + Send + 'static {
    type Held: Send;

    fn acquired(self) -> BoxFuture<'static, Result<Self::Held, LockError>>;
}

macro_rules! acquire {
    ($($lock:ty: $held:ty,)*) => {
        $(impl Acquire for $lock {
            type Held = $held;

            fn acquired(self) -> BoxFuture<'static, Result<$held, LockError>> {
                Box::pin(async move { self.acquire().await })
            }
        })*
    };
}

acquire! {
    Mutex: Guard,
    ReadLock: Guard,
    WriteLock: WriteGuard,
    Semaphore: SemaphoreGuard,
    SemaphoreMutex: Guard,
}

impl Acquire for Arc<dyn Lock> {
    type Held = Box<dyn LockGuard>;

    fn acquired(self) -> BoxFuture<'static, Result<Self::Held, LockError>> {
        Box::pin(async move { self.acquire_boxed().await })
    }
}

/// Kind of a lock, or side of the read-write lock. Each lock has a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Reader,
    Writer,
    Permit,
    SemaphoreMutex,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Mutex, Self::Reader, Self::Writer, Self::Permit, Self::SemaphoreMutex];

    pub(crate) fn lock(self, client: &Client) -> Arc<dyn Lock> {
        let rw = RwLock::new(client, "/rw").unwrap();
        match self {
            Self::Mutex => Arc::new(Mutex::new(client, "/m").unwrap()),
            Self::Reader => Arc::new(rw.read().clone()),
            Self::Writer => Arc::new(rw.write().clone()),
            Self::Permit => Arc::new(Semaphore::new(client, "/s", 1).unwrap()),
            Self::SemaphoreMutex => Arc::new(SemaphoreMutex::new(client, "/sm").unwrap()),
        }
    }

    /// Acquires the lock so that it excludes all other contenders.
    pub(crate) async fn exclude(self, client: &Client) -> Box<dyn LockGuard> {
        let kind = if self == Self::Reader { Self::Writer } else { self };
        kind.lock(client).acquire_boxed().await.unwrap()
    }

    /// Returns the parents of the lock's nodes, first that of its queue.
    pub(crate) fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Mutex => &["/m"],
            Self::Reader | Self::Writer => &["/rw"],
            Self::Permit => &["/s/locks", "/s/leases"],
            Self::SemaphoreMutex => &["/sm/locks", "/sm/leases"],
        }
    }
}

/// Runs a future in a task, until it waits or has ended.
pub(crate) async fn running<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let task = tokio::spawn(future);
    settle().await;
    task
}

/// Starts an acquisition, and lets it run until it waits or has ended.
pub(crate) async fn attempt<L: Acquire>(lock: &L) -> JoinHandle<Result<L::Held, LockError>> {
    running(lock.clone().acquired()).await
}

/// As [`attempt`], for an acquisition that does not fail.
pub(crate) async fn queue<L: Acquire>(lock: &L) -> JoinHandle<L::Held> {
    let acquired = lock.clone().acquired();
    running(async move { acquired.await.unwrap() }).await
}

/// Queues this many contenders, one after the other.
pub(crate) async fn queue_many<L: Acquire>(lock: &L, count: usize) -> Vec<JoinHandle<L::Held>> {
    let mut waiting = Vec::new();
    for _ in 0..count {
        waiting.push(queue(lock).await);
    }
    waiting
}

/// Cuts a client off. It cannot reconnect before [`reconnect`].
pub(crate) async fn cut_off(server: &TestServer, client: &Client) {
    server.refuse_connects(0);
    server.connection_of(client.session_id()).cut(Cut::Rst);
    settle().await;
}

/// Lets clients connect again, and waits for the longest pause before their next attempt.
pub(crate) async fn reconnect(server: &TestServer) {
    server.accept_connects(0);
    tokio::time::sleep(T / 4).await; // reason: virtual time
}

/// Returns the path of a child, counted from 0 in the order of [`children`].
pub(crate) fn child(server: &TestServer, path: &str, at: usize) -> String {
    format!("{path}/{}", children(server, path)[at])
}

/// Returns the names of a node's children, sorted by the text after their last hyphen.
///
/// The list is empty if the node does not exist.
pub(crate) fn children(server: &TestServer, path: &str) -> Vec<String> {
    let mut names: Vec<String> = server.with(|ensemble| {
        let node = ensemble.tree().node(path);
        node.map(|node| node.children().map(str::to_owned).collect()).unwrap_or_default()
    });
    names.sort_by(|a, b| a.rsplit('-').next().cmp(&b.rsplit('-').next()));
    names
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which the test has stopped")]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Lets all tasks run until they wait for time to pass.
///
/// The paused clock advances by 50 ms.
pub(crate) async fn settle() {
    // reason: the paused clock advances when no task is ready
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Waits until every guard watches its own node.
///
/// A guard that did not wait with such a watch sets it after [`NODE_WATCH_DELAY`].
pub(crate) async fn settle_node_watches() {
    tokio::time::sleep(NODE_WATCH_DELAY).await; // reason: virtual time, the delay itself
    settle().await;
}

/// Polls a future up to `polls` times, and drops it if it is still pending.
pub(crate) async fn polled<T, E: std::fmt::Debug>(
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
                // The future is dropped after its last poll, without a wait for its waker.
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }
    })
    .await
}
