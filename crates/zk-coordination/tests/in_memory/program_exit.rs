//! Programs that end while they keep a node. The server runs on a thread of its own.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zk_coordination::session::{Config, RetryOn, SessionManager};
use zk_coordination::{Cache, Group, NodeState, PersistentNode};
use zk_testing::TestServer;

use crate::MS;

/// Session timeout, far longer than a test waits.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// Time that a test waits for a condition: half of the session timeout.
const SOON: Duration = Duration::from_secs(20);

fn server_on_a_thread() -> TestServer {
    let (started, server) = mpsc::channel();
    thread::spawn(move || {
        current_thread().block_on(async {
            started.send(TestServer::start().await.unwrap()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    server.recv().unwrap()
}

fn config_of(server: &TestServer) -> Config {
    Config::new(&server.connect_string()).unwrap().session_timeout(SESSION_TIMEOUT)
}

/// Waits until the session is closed, and expects that it has left no node.
#[allow(clippy::disallowed_methods, reason = "a real server on a real clock")]
fn expect_closed(server: &TestServer) {
    let begun = Instant::now();
    while server.with(|servers| servers.sessions().count()) > 0 {
        assert!(begun.elapsed() < SOON, "the session is not closed");
        thread::sleep(MS); // reason: a server on another thread is polled
    }
    assert!(crate::data(server, "/n").is_none());
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn kept(server: &TestServer) -> (SessionManager, PersistentNode) {
    let sessions = SessionManager::connect(config_of(server)).await.unwrap();
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    node.wait_until_present(SOON).await.unwrap();
    (sessions, node)
}

#[test]
fn program_that_returns_leaves_no_node_behind() {
    let multi_thread = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for runtime in [current_thread(), multi_thread] {
        let server = server_on_a_thread();
        runtime.block_on(async { drop(kept(&server).await) });
        drop(runtime);
        expect_closed(&server);
    }
}

#[test]
fn call_after_the_end_of_the_runtime_is_never_repeated() {
    let server = server_on_a_thread();
    let runtime = current_thread();
    let (_sessions, node, mut group, cache) = runtime.block_on(async {
        let (sessions, node) = kept(&server).await;
        let group = Group::open(&sessions, "/g").await.unwrap();
        let cache = Cache::node(&sessions, "/n").open().await.unwrap();
        (sessions, node, group, cache)
    });
    drop(runtime);
    assert!(matches!(&node.state(), NodeState::Closed { error: Some(_) }));
    current_thread().block_on(async {
        let error = node.wait_until_present(SOON).await.unwrap_err();
        assert_eq!(error.retry_on(), RetryOn::Never, "{error}");
        let error = group.changed().await.unwrap_err();
        assert_eq!(error.retry_on(), RetryOn::Never, "{error}");
        let error = cache.wait_until_synced().await.unwrap_err();
        assert_eq!(error.retry_on(), RetryOn::Never, "{error}");
    });
    expect_closed(&server);
}

#[test]
fn node_is_kept_and_closed_on_a_dedicated_thread() {
    let server = server_on_a_thread();
    let (sessions, thread) = SessionManager::connect_blocking(config_of(&server)).unwrap();
    let start = || PersistentNode::start(&sessions, "/n", "a").unwrap();
    let node = start();
    thread.block_on(node.wait_until_present(SOON)).unwrap();
    thread.block_on(node.set_data("b")).unwrap();
    thread.block_on(node.close()).unwrap();
    assert!(crate::data(&server, "/n").is_none());
    let node = start();
    thread.block_on(node.wait_until_present(SOON)).unwrap();
    drop((sessions, node));
    expect_closed(&server);
}
