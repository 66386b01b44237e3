//! A test of Curator's locks at the server of `zk-testing`, over TCP. `conformance.rs` compares its answers
//! with those of a real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use zk_testing::TestServer;
use zk_tests::Curator;

#[tokio::test(flavor = "multi_thread")]
async fn curators_locks_exclude_each_other_on_it() {
    let server = TestServer::start().await.unwrap();
    let start = || Curator::start(&server.connect_string(), Duration::from_secs(20), &[]);
    let (Some(mut one), Some(mut other)) = (start(), start()) else { return };
    for (first, second, numbers) in [
        ("mutex", "mutex", "0 0"),
        ("semaphore-mutex", "semaphore-mutex", "0 0"),
        ("read", "write", "0 0"),
        ("write", "read", "0 0"),
        ("semaphore", "semaphore", "2 2"),
    ] {
        let path = format!("/{first}-{second}");
        one.ok("a", &format!("acquire {first} {path} {numbers} -1"));
        if first == "read" {
            other.ok("reader", &format!("acquire read {path} {numbers} -1"));
            other.ok("reader", "release");
        }
        let acquire = format!("acquire {second} {path} {numbers}");
        assert_eq!(other.ask("b", &format!("{acquire} 200")), ["timeout"], "{path}");
        other.tell("b", &format!("{acquire} -1"));
        one.ok("a", "release");
        assert_eq!(other.answer("b")[0], "ok", "{path}");
        other.ok("b", "release");
    }
}
