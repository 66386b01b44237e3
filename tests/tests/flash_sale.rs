//! The example `flash_sale`: what the README has people run first.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use zk_testing::TestServer;
use zk_tests::{example, shared_zookeeper};

/// A sale small enough for a test.
const SMALL: [&str; 6] = ["--processes", "3", "--buyers", "60", "--items", "10"];

fn sell(arguments: &[&str]) -> Output {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    let program: &Path = PROGRAM.get_or_init(|| example("flash_sale"));
    let mut command = Command::new(program);
    command.env_remove("ZK_CONNECT").args(SMALL).args(arguments).output().unwrap()
}

/// Expects that the stock was sold and no more, and that the lock kept its promises.
fn expect_success(ended: &Output, locked_with: &str) {
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{ended:?}");
    assert!(said.lines().next().unwrap().contains(locked_with), "{said}");
    let sold = said.lines().find_map(|line| line.trim().strip_prefix("sold ")).unwrap();
    assert_eq!(sold.split_whitespace().next_back(), Some("10"), "{said}");
    assert!(said.contains("no two holders at a time"), "{said}");
    assert!(said.contains("was refused: the shop has seen"), "{said}");
}

#[test]
fn it_needs_nothing_but_itself() {
    expect_success(&sell(&[]), "an in-memory server of its own (127.0.0.1:");
}

#[test]
fn it_locks_with_a_real_server() {
    let Some(server) = shared_zookeeper() else { return };
    let connect = server.connect_string();
    expect_success(&sell(&["--connect", &connect]), &format!("on {connect}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_whose_fault_it_is() {
    let server = TestServer::start().await.unwrap();
    server.refuse_connects(0);
    let connect = server.connect_string();
    let unreachable = tokio::task::spawn_blocking(move || sell(&["--connect", &connect]));
    assert_eq!(unreachable.await.unwrap().status.code(), Some(69));
    assert_eq!(sell(&["--connect", "host:port:port"]).status.code(), Some(64));
    assert_eq!(sell(&["--items", "0"]).status.code(), Some(64));
}
