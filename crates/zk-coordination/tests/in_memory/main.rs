//! Tests of the recipes on the in-memory server, under paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod acl;
mod atomic;
mod atomic_once;
mod barrier;
mod before_the_first_session;
mod cache;
mod cancelled;
mod double_barrier;
mod double_barrier_end;
mod double_barrier_orders;
mod group;
mod persistent_node;
mod persistent_node_faults;
mod persistent_node_owner;
mod persistent_node_ttl;
mod program_exit;
mod what_people_type;

use std::fmt::Debug;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::JoinHandle;
use zk_coordination::session::{Client, Config, SessionId, SessionManager};
use zk_testing::server::NodeKind;
use zk_testing::{Cut, Fault, FaultBuilder, TestServer};

/// Session timeout of the clients.
pub(crate) const T: Duration = Duration::from_secs(10);

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// Time in which a session removes the watches that nobody needs.
const REMOVAL: Duration = Duration::from_secs(5);

pub(crate) fn config(seed: u128) -> Config {
    Config::new("server:1").unwrap().session_timeout(T).seed(seed)
}

/// Settings of a client that may use every server.
fn config_of_all(server: &TestServer, seed: u128) -> Config {
    let hosts: Vec<_> = (0..server.servers()).map(|index| format!("server-{index}:1")).collect();
    Config::new(&hosts.join(",")).unwrap().session_timeout(T).seed(seed)
}

async fn open(server: &TestServer, config: Config) -> Client {
    config.connector(server.clone()).connect().await.unwrap()
}

pub(crate) async fn client(server: &TestServer, seed: u128) -> Client {
    open(server, config(seed)).await
}

pub(crate) async fn client_of_all(server: &TestServer, seed: u128) -> Client {
    open(server, config_of_all(server, seed)).await
}

/// Opens clients of a server, with the seeds from `first` on.
pub(crate) async fn more_clients<const N: usize>(server: &TestServer, first: u128) -> [Client; N] {
    join_all((first..).take(N).map(|seed| client(server, seed))).await.try_into().unwrap()
}

/// Starts a server, and opens clients with the seeds from 1 on.
pub(crate) async fn clients<const N: usize>() -> (TestServer, [Client; N]) {
    let server = TestServer::in_memory();
    let clients = more_clients(&server, 1).await;
    (server, clients)
}

pub(crate) async fn manager(server: &TestServer, config: Config) -> SessionManager {
    SessionManager::connect(config.connector(server.clone())).await.unwrap()
}

pub(crate) async fn sessions(server: &TestServer, seed: u128) -> SessionManager {
    manager(server, config(seed)).await
}

pub(crate) async fn sessions_of_all(server: &TestServer, seed: u128) -> SessionManager {
    manager(server, config_of_all(server, seed)).await
}

/// Starts a server, and opens a manager with seed 1, and a client with seed 2.
pub(crate) async fn sessions_and_client() -> (TestServer, SessionManager, Client) {
    let server = TestServer::in_memory();
    let (sessions, client) = (sessions(&server, 1).await, client(&server, 2).await);
    (server, sessions, client)
}

/// Loses a request before it is applied, or its reply afterwards.
pub(crate) fn lose(fault: FaultBuilder, is_applied: bool) -> Fault {
    if is_applied { fault.apply_then_drop_reply() } else { fault.drop_before_applying() }
}

/// Cuts all connections, and refuses new ones.
pub(crate) fn cut_off(server: &TestServer) {
    (0..server.servers()).for_each(|index| server.refuse_connects(index));
    server.connections().cut(Cut::Rst);
}

pub(crate) fn accept(server: &TestServer) {
    (0..server.servers()).for_each(|index| server.accept_connects(index));
}

/// Returns the data of a node at the leader.
pub(crate) fn data(server: &TestServer, path: &str) -> Option<Vec<u8>> {
    server.with(|ensemble| Some(ensemble.tree().node(path)?.data().unwrap_or_default().to_vec()))
}

/// Returns the ephemeral owner of a node at the leader.
pub(crate) fn owner(server: &TestServer, path: &str) -> Option<SessionId> {
    server.with(|ensemble| Some(ensemble.tree().node(path)?.stat().ephemeral_owner))
}

pub(crate) fn kind(server: &TestServer, path: &str) -> NodeKind {
    server.with(|ensemble| ensemble.tree().node(path).unwrap().kind())
}

/// Returns the names of the children of a node, or nothing if there is no node.
pub(crate) fn children(server: &TestServer, path: &str) -> Vec<String> {
    server.with(|ensemble| {
        let node = ensemble.tree().node(path);
        node.map(|node| node.children().map(str::to_owned).collect()).unwrap_or_default()
    })
}

pub(crate) fn watches(server: &TestServer) -> usize {
    server.with(|ensemble| ensemble.watches(0))
}

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // reason: virtual time
}

/// Lets all tasks run until they wait for time to pass.
///
/// The paused clock advances by 50 ms.
pub(crate) async fn settle() {
    // reason: the paused clock advances when no task is ready
    pass(50 * MS).await;
}

/// Waits until the session has removed the watches that nobody needs.
pub(crate) async fn settle_watches() {
    pass(REMOVAL).await;
}

/// Waits for calls that run in tasks, and returns their results.
pub(crate) async fn all<T, E: Debug>(
    tasks: impl IntoIterator<Item = JoinHandle<Result<T, E>>>,
) -> Vec<T> {
    join_all(tasks).await.into_iter().map(|done| done.unwrap().unwrap()).collect()
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
