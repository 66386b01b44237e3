//! Tests of the discovery on the in-memory server, under paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod curator_bugs;
mod instance;
mod provider;
mod registration;
mod service_cache;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zk_discovery::session::{Client, Config, SessionManager};
use zk_discovery::{Discovery, Instances, Registration, ServiceInstance};
use zk_testing::{Cut, TestServer};

/// Session timeout of the clients.
pub(crate) const T: Duration = Duration::from_secs(10);

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Path of the services.
pub(crate) const BASE: &str = "/services";

pub(crate) fn config(seed: u128) -> Config {
    Config::new("server:1").unwrap().session_timeout(T).seed(seed)
}

pub(crate) async fn client(server: &TestServer, seed: u128) -> Client {
    config(seed).connector(server.clone()).connect().await.unwrap()
}

pub(crate) async fn sessions(server: &TestServer, seed: u128) -> SessionManager {
    SessionManager::connect(config(seed).connector(server.clone())).await.unwrap()
}

pub(crate) async fn discovery(server: &TestServer, seed: u128) -> Discovery {
    Discovery::new(&sessions(server, seed).await, BASE).unwrap()
}

/// Starts a server, and opens the sessions and the discovery of a process.
pub(crate) async fn process() -> (TestServer, SessionManager, Discovery) {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let discovery = Discovery::new(&sessions, BASE).unwrap();
    (server, sessions, discovery)
}

/// Starts a server, and opens the discoveries of two processes.
pub(crate) async fn two_processes() -> (TestServer, Discovery, Discovery) {
    let server = TestServer::in_memory();
    let (ours, theirs) = (discovery(&server, 1).await, discovery(&server, 2).await);
    (server, ours, theirs)
}

/// Starts a server, and registers the instance `a`. The client with seed 2 is an operator.
pub(crate) async fn registered() -> (TestServer, Discovery, Client, Registration) {
    let server = TestServer::in_memory();
    let (discovery, operator) = (discovery(&server, 1).await, client(&server, 2).await);
    let registration = register(&discovery, web("a")).await;
    (server, discovery, operator, registration)
}

/// Registers instances with these ids.
pub(crate) async fn register_all<T: ToString>(
    discovery: &Discovery,
    ids: impl IntoIterator<Item = T>,
) -> Vec<Registration> {
    let mut registrations = Vec::new();
    for id in ids {
        registrations.push(register(discovery, web(&id.to_string())).await);
    }
    registrations
}

pub(crate) fn ids(instances: &Instances) -> Vec<&str> {
    instances.iter().map(|instance| instance.id()).collect()
}

/// Cuts all connections, and refuses new ones.
pub(crate) fn cut_off(server: &TestServer) {
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
}

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // reason: virtual time
}

/// An instance of the service `web`.
pub(crate) fn web(id: &str) -> ServiceInstance {
    ServiceInstance::new("web").with_id(id).with_address("10.0.0.7").with_port(8080)
}

/// Registers an instance, and waits for it.
pub(crate) async fn register(discovery: &Discovery, instance: ServiceInstance) -> Registration {
    let registration = discovery.register(instance).unwrap();
    registration.wait_until_registered(3 * T).await.unwrap();
    registration
}

/// Returns the data of a node on the leader.
pub(crate) fn data(server: &TestServer, path: &str) -> Option<String> {
    server.with(|ensemble| {
        let node = ensemble.tree().node(path)?;
        Some(String::from_utf8(node.data().unwrap_or_default().to_vec()).unwrap())
    })
}

/// Returns the instance that a node on the leader has.
pub(crate) fn stored(server: &TestServer, path: &str) -> Option<ServiceInstance> {
    data(server, path).map(|data| ServiceInstance::from_json(data.as_bytes()).unwrap())
}

/// Lets all tasks run until they wait for time to pass.
///
/// The paused clock advances by 50 ms.
pub(crate) async fn settle() {
    // reason: the paused clock advances when no task is ready
    pass(50 * MS).await;
}

/// Polls a future at most so many times, with a run of the other tasks after each, and drops it if
/// it is still pending. No time passes meanwhile.
pub(crate) async fn poll_times<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(done) = polled {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}
