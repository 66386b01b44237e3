//! Tests of `flash-sale`, the first program of the README.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use zk_testing::TestServer;
use zk_tests::{program, shared_zookeeper};

/// A sale small enough for a test.
const SMALL: [&str; 6] = ["--processes", "3", "--buyers", "60", "--items", "10"];

fn sell(arguments: &[&str]) -> Output {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    let program: &Path = PROGRAM.get_or_init(|| program("flash-sale"));
    let mut command = Command::new(program);
    command.args(SMALL).args(arguments).output().unwrap()
}

/// Expects that exactly the stock was sold, and that the lock kept its promises.
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
fn flash_sale_runs_with_its_own_server() {
    expect_success(&sell(&[]), ", an in-memory server of its own");
}

#[test]
fn flash_sale_runs_on_a_real_server() {
    let Some(server) = shared_zookeeper() else { return };
    let connect = server.connect_string();
    expect_success(&sell(&["--connect", &connect]), &format!("on {connect}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn flash_sale_exit_status_names_the_cause() {
    let server = TestServer::start().await.unwrap();
    server.refuse_connects(0);
    let connect = server.connect_string();
    let unreachable = tokio::task::spawn_blocking(move || sell(&["--connect", &connect]));
    assert_eq!(unreachable.await.unwrap().status.code(), Some(69));
    assert_eq!(sell(&["--connect", "host:port:port"]).status.code(), Some(64));
    assert_eq!(sell(&["--items", "0"]).status.code(), Some(64));
}
