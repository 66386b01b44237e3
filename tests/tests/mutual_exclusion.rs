//! Tests that a lock has at most one holder at a time, is granted in queue order, and has growing
//! tokens.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::sync::Arc;
use std::thread;

use zk_recipes::Mutex;
use zk_tests::{Journal, Zk, append_grant, contenders, open, zookeeper};

#[test]
fn commands_hold_lock_one_at_a_time_in_queue_order() {
    let Some(zk) = zookeeper() else { return };
    let journal = Journal::new();
    let command = Zk::new(zk.connect_string()).journal(&journal);
    // The path is not a container: the server might remove it, and the sequence numbers would start
    // again.
    command.ok(&["create", PATH, "--parents"]);
    thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                for _ in 0..RUNS {
                    command.ok(&["lock", PATH, "--", "sh", "-c", Journal::VISIT]);
                }
            });
        }
    });

    let sequences: Vec<i64> = journal.visits().iter().map(|visit| visit.sequence()).collect();
    let expected: Vec<i64> = (0..).take(PROCESSES * RUNS).collect();
    assert_eq!(sequences, expected, "one node for each run, granted in order");
    assert_eq!(command.ok(&["ls", PATH]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_hold_lock_one_at_a_time_in_queue_order() {
    let Some(zk) = zookeeper() else { return };
    let journal = Arc::new(Journal::new());
    let command = Zk::new(zk.connect_string());
    command.ok(&["create", PATH, "--parents"]);
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = open(&zk.connect_string()).await;
        let journal = Arc::clone(&journal);
        tasks.push(tokio::spawn(async move {
            let lock = Mutex::new(&client, PATH).unwrap();
            for _ in 0..ACQUISITIONS {
                let guard = lock.acquire().await.unwrap();
                append_grant(&journal, &guard);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }

    let sequences: Vec<i64> = journal.visits().iter().map(|visit| visit.sequence()).collect();
    let expected: Vec<i64> = (0..).take(CLIENTS * ACQUISITIONS).collect();
    assert_eq!(sequences, expected, "one node for each acquisition, granted in order");
    let observer = open(&zk.connect_string()).await;
    contenders(&observer, PATH, 0).await;
}

const PATH: &str = "/locks/stock";
const PROCESSES: usize = 8;
const RUNS: usize = 50;
const CLIENTS: usize = 20;
const ACQUISITIONS: usize = 20;
