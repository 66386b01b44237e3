//! A test of other clients at the server of `zk-testing`, over TCP.

use std::process::Stdio;

use xtask::zookeeper::{Privilege, curator_jars};
use zk_testing::TestServer;
use zk_tests::{Distribution, java, or_skip};

/// Parts that must pass, in order.
const PARTS: [&str; 6] =
    ["create, get, set", "sequences, children", "watches", "multi", "ephemerals", "zkCli"];

/// Parts that must pass if Curator is installed.
const RECIPES: [&str; 4] = [
    "Curator's InterProcessMutex",
    "Curator's InterProcessSemaphoreMutex",
    "Curator's InterProcessReadWriteLock",
    "Curator's InterProcessSemaphoreV2",
];

#[tokio::test(flavor = "multi_thread")]
async fn java_and_curator_take_it_for_zookeeper() {
    let Some(distribution) = or_skip(Distribution::shared()) else { return };
    let server = TestServer::start().await.unwrap();

    let mut class_path = distribution.class_path().to_owned();
    for jar in curator_jars(Privilege::of_tests()).unwrap_or_default() {
        class_path.push(":");
        class_path.push(jar);
    }
    let program = java::program(distribution.java(), &[], &class_path, "ForeignClient.java");
    let Some(mut java) = program else { return };
    java.arg(server.connect_string()).stderr(Stdio::piped());
    let ended = tokio::task::spawn_blocking(move || java.output()).await.unwrap().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));

    assert!(ended.status.success(), "{}: {said}{errors}", ended.status);
    let passed: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("passed ")).collect();
    assert_eq!(passed[..PARTS.len()], PARTS, "{errors}");
    if said.contains("skipped curator") {
        eprintln!("SKIPPED the part with Curator: {said}");
    } else {
        assert_eq!(passed[PARTS.len()..], RECIPES, "{errors}");
    }
}
