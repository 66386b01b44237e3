//! Tests of the recipes on the in-memory server, under paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod acl;
mod atomic;
mod atomic_faults;
mod atomic_once;
mod barrier;
mod before_the_first_session;
mod cache;
mod cancelled;
mod double_barrier;
mod double_barrier_end;
mod double_barrier_faults;
mod double_barrier_orders;
mod group;
mod persistent_node;
mod persistent_node_faults;
mod persistent_node_owner;
mod persistent_node_ttl;
mod program_exit;
mod random_members;
mod what_people_type;

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zk_coordination::session::{Client, Config, SessionManager};
use zk_testing::TestServer;

/// Session timeout of the clients.
pub(crate) const T: Duration = Duration::from_secs(10);

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn config(seed: u128) -> Config {
    Config::new("server:1").unwrap().session_timeout(T).seed(seed)
}

pub(crate) async fn client(server: &TestServer, seed: u128) -> Client {
    config(seed).connector(server.clone()).connect().await.unwrap()
}

/// Opens a session that may use every server of an ensemble of three.
pub(crate) async fn client_of_three(server: &TestServer, seed: u128) -> Client {
    let config = Config::new("server-0:1,server-1:1,server-2:1").unwrap();
    config.session_timeout(T).seed(seed).connector(server.clone()).connect().await.unwrap()
}

pub(crate) async fn sessions(server: &TestServer, seed: u128) -> SessionManager {
    SessionManager::connect(config(seed).connector(server.clone())).await.unwrap()
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
