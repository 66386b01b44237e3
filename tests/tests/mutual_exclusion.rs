//! A test that a lock has at most one holder at a time, is granted in queue order, and has growing tokens.

use std::thread;

use zk_tests::{Journal, Zk, zookeeper};

#[test]
fn commands_hold_lock_one_at_a_time_in_queue_order() {
    let Some(zk) = zookeeper() else { return };
    let journal = Journal::new();
    let command = Zk::new(zk.connect_string()).journal(&journal);
    // The path is not a container: the server might remove it, and the sequence numbers would start
    // again.
    command.ok("create /stock");
    thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                for _ in 0..RUNS {
                    command.ok(&["lock", "/stock", "--", "sh", "-c", Journal::VISIT]);
                }
            });
        }
    });
    let sequences: Vec<i64> = journal.visits().iter().map(|visit| visit.sequence()).collect();
    let expected: Vec<i64> = (0..).take(PROCESSES * RUNS).collect();
    assert_eq!(sequences, expected, "one node for each run, granted in order");
    command.prints("ls /stock", "");
}

const PROCESSES: usize = 8;
const RUNS: usize = 50;
