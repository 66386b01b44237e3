//! Tests of the recipes on the in-memory server, under paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod atomic;
mod atomic_faults;
mod atomic_once;
mod barrier;
mod cache;
mod double_barrier;
mod double_barrier_faults;
mod group;
mod persistent_node;
mod persistent_node_faults;
mod persistent_node_ttl;
mod program_exit;
mod random;
mod random_members;

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zk_coordination::session::{Client, Config, SessionManager};
use zk_testing::TestServer;

/// Session timeout of the clients.
pub(crate) const T: Duration = Duration::from_secs(10);

pub(crate) fn config(seed: u128) -> Config {
    Config::new("server:1").unwrap().session_timeout(T).seed(seed)
}

pub(crate) async fn client(server: &TestServer, seed: u128) -> Client {
    config(seed).connect_with(server.clone()).await.unwrap()
}

/// Opens a session that may use every server of an ensemble of three.
pub(crate) async fn client_of_three(server: &TestServer, seed: u128) -> Client {
    let config = Config::new("server-0:1,server-1:1,server-2:1").unwrap();
    config.session_timeout(T).seed(seed).connect_with(server.clone()).await.unwrap()
}

pub(crate) async fn sessions(server: &TestServer, seed: u128) -> SessionManager {
    SessionManager::connect_with(config(seed), server.clone()).await.unwrap()
}

/// Lets all tasks run until they wait for time to pass.
///
/// The paused clock advances by 50 ms.
pub(crate) async fn settle() {
    // reason: the paused clock advances when no task is ready
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn session_opens() {
    let server = TestServer::in_memory();
    assert!(sessions(&server, 1).await.client().is_connected());
    settle().await;
    assert!(client(&server, 2).await.is_connected());
}

/// Pseudo-random numbers that repeat with the same seed (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number of at least 0 and less than `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(end)).expect("it is less than one")
    }

    /// Returns a duration of at least 0 and less than `end` milliseconds.
    pub(crate) fn ms(&mut self, end: u32) -> Duration {
        Duration::from_millis(self.below(end).into())
    }

    /// Returns a random element, or `None` if the slice is empty.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let end = u32::try_from(from.len()).expect("they are few");
        from.get(self.below(end.max(1)) as usize)
    }
}

/// Polls a future up to `polls` times, and drops it if it is still pending.
pub(crate) async fn polled<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| match left.checked_sub(1) {
        None => Poll::Ready(None),
        Some(fewer) => {
            left = fewer;
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                // The future is dropped after its last poll, without a wait for its waker.
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }
    })
    .await
}
