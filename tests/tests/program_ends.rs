//! A test of programs that end while they hold a lock, in every way in which a `main` ends. The
//! lock is free long before their session could expire.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};
use std::time::Duration;

use zk_tests::{Settings, connect, now, zookeeper_with};

const PATH: &str = "/locks/ending";

/// Half of the program's session timeout.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn lock_is_released_when_its_program_ends() {
    let Some(server) = zookeeper_with(&Settings::default().tick_ms(500)) else { return };
    let observer = connect(&server.connect_string(), Duration::from_secs(10)).await;
    for driven_by in ["current-thread", "multi-thread", "dedicated-thread", "blocking"] {
        for end in ["return", "error", "panic"] {
            let ended = Command::new(env!("CARGO_BIN_EXE_program_end"))
                .args([&server.connect_string(), PATH, driven_by, end])
                .stderr(Stdio::null())
                .output()
                .unwrap();
            let ended_at = now();
            assert_eq!(ended.status.success(), end == "return", "{driven_by} {end}");
            let printed = String::from_utf8(ended.stdout).unwrap();
            let node = printed.trim();
            assert!(node.starts_with(PATH), "{driven_by} {end}: {printed:?}");

            let (stat, watch) = observer.exists_and_watch(node).await.unwrap();
            if stat.is_some() {
                let gone = tokio::time::timeout(SOON, watch).await;
                gone.expect("the lock was left behind").unwrap();
            }
            println!("{driven_by}, {end}: free {:?} after the program's end", ended_at.elapsed());
        }
    }
}
