//! Tests of different kinds of locks on one path, which would not exclude each other.

use zk_tests::{HOLD, Journal, poll};

use crate::{LIMIT, expect_failure, zk};

/// For each kind of lock: the recipe of its nodes, the subcommand, and its options.
const KINDS: [(&str, &str, &[&str]); 4] = [
    ("mutex", "lock", &[]),
    ("read-write lock", "lock", &["--write"]),
    ("semaphore", "lock", &["--no-reentrant"]),
    ("semaphore", "semaphore", &["--permits", "2"]),
];

#[test]
fn different_lock_kind_on_same_path_fails_with_status_78() {
    let Some(zk) = zk("foreign-nodes") else { return };
    for (number, (held, command, options)) in KINDS.into_iter().enumerate() {
        let journal = Journal::new();
        let path = format!("/l{number}");
        let holds = [&[command, &path], options, &["--", "sh", "-c", HOLD]].concat();
        let mut holder = zk.clone().journal(&journal).start(&holds);
        let node = poll(LIMIT, || journal.entered().pop()).expect("nobody got in").node;
        for (_, command, options) in KINDS.into_iter().filter(|(kind, ..)| *kind != held) {
            for timeout in [&["--timeout", "0"][..], &["--timeout", "5"], &[]] {
                let asks = [&[command, &path], options, timeout, &["--", "true"]].concat();
                let says = format!("cannot acquire {path}: {node} is the node of a {held}");
                expect_failure(&zk.run(&asks), 78, &says);
            }
            let allows = ["--allow-foreign-nodes", "--timeout", "5", "--", "echo", "in"];
            let asks = [&[command, &path], options, &allows].concat();
            assert_eq!(zk.ok(&asks), "in\n", "{asks:?}");
        }
        if held != "mutex" {
            let several = zk.run(&["multilock", "/other", &path, "--timeout", "5", "--", "true"]);
            let says = format!("lock {path}: cannot acquire {path}: ");
            expect_failure(&several, 78, &says);
        }
        holder.end_input();
        assert_eq!(holder.wait(LIMIT).code(), Some(0));
    }
}
