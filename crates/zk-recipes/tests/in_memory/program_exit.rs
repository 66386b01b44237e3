//! Programs that end, in every way in which a `main` can end.
//!
//! No lock stays behind until the session timeout. The server runs on a separate thread, like a
//! server in another process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zk_recipes::session::{Client, Config};
use zk_recipes::{Guard, LockError, Mutex};
use zk_testing::TestServer;

use crate::children;

/// Session timeout, far longer than a test waits.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// Time that a test waits for a condition: half of the session timeout.
const SOON: Duration = Duration::from_secs(20);

/// Starts a server that keeps running when the runtime of a program shuts down.
pub(crate) fn server_on_a_thread() -> TestServer {
    let (started, server) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            started.send(TestServer::start().await.unwrap()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    server.recv().unwrap()
}

pub(crate) fn config_of(server: &TestServer) -> Config {
    let config = Config::new(&server.connect_string()).unwrap();
    config.session_timeout(SESSION_TIMEOUT)
}

/// Waits for a condition by polling it.
#[allow(clippy::disallowed_methods, reason = "a real server on a real clock")]
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}");
        thread::sleep(Duration::from_millis(1)); // reason: a server on another thread is polled
    }
}

fn has_no_session(server: &TestServer) -> bool {
    server.with(|servers| servers.sessions().count()) == 0
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn locked(config: Config) -> (Client, Guard) {
    let client = config.connect().await.unwrap();
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    (client, guard)
}

#[test]
fn main_that_returns_fails_or_panics_leaves_no_lock_behind() {
    for runtime in [current_thread, multi_thread] {
        for end in ["returns", "fails", "panics"] {
            let server = server_on_a_thread();
            let ended = catch_unwind(AssertUnwindSafe(|| {
                runtime().block_on(async {
                    let (client, guard) = locked(config_of(&server)).await;
                    assert_eq!(guard.is_held(), end != "panics", "on purpose");
                    let path = if end == "fails" { "not a path" } else { "/a/path" };
                    Mutex::new(&client, path)?;
                    Ok::<_, LockError>(())
                })
            }));
            assert_eq!(
                (ended.is_err(), matches!(ended, Ok(Err(_)))),
                (end == "panics", end == "fails")
            );
            wait_until("the session is closed", || has_no_session(&server));
            assert!(children(&server, "/lock").is_empty());
        }
    }
}

#[test]
fn runtime_that_ends_before_the_client_closes_its_session() {
    let server = server_on_a_thread();
    let runtime = current_thread();
    let (client, guard) = runtime.block_on(locked(config_of(&server)));
    drop(runtime);
    assert!(!guard.is_held() && client.end_reason().is_some());
    wait_until("the session is closed", || has_no_session(&server));
}

#[test]
fn detached_session_is_left_alone_when_the_runtime_ends() {
    let server = server_on_a_thread();
    let runtime = current_thread();
    let (client, _guard) = runtime.block_on(locked(config_of(&server)));
    client.detach().unwrap();
    drop(runtime);
    assert!(!has_no_session(&server));
}

#[test]
fn guard_on_another_thread_is_lost_while_the_caller_blocks() {
    let server = server_on_a_thread();
    current_thread().block_on(async {
        let (client, guard) = locked(config_of(&server).dedicated_thread()).await;
        server.expire(client.session_id());
        wait_until("the guard is lost", || !guard.is_held());
    });
}
