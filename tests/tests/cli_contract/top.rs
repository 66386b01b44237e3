//! `zk top`, where there is no terminal.

use serde_json::Value;
use zk_tests::{HOLD, Journal, poll};

use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn top_lists_locks_with_holders_and_waiters() {
    let Some(zk) = zk("top") else { return };
    assert_eq!(zk.ok(&["top", "/"]).lines().count(), 1, "only the head");
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut running = vec![zk.lock("/locks/stock", HOLD)];
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    running.push(zk.lock("/locks/stock", HOLD));
    let looked = || {
        let locks: Value = serde_json::from_str(&zk.ok(&["top", "/locks", "--json"])).unwrap();
        (locks[0]["waiters"] == 1).then_some(locks)
    };
    let locks = poll(LIMIT, looked).expect("the second one does not queue");
    assert_eq!(locks.as_array().unwrap().len(), 1, "{locks}");
    assert_eq!(locks[0]["path"], "/locks/stock", "{locks}");
    assert_eq!(locks[0]["kind"], "mutex", "{locks}");
    assert!(locks[0]["holder"].as_str().unwrap().starts_with("sh "), "{locks}");
    assert!(locks[0]["since_s"].is_number() && locks[0]["longest_wait_s"].is_number(), "{locks}");

    let tables = zk.ok(&["top", "/locks", "--count", "2", "--interval", "0.1"]);
    let lines: Vec<&str> = tables.lines().collect();
    assert_eq!(lines.len(), 4, "{tables}");
    assert!(
        lines[0].starts_with("LOCK") && lines[1].starts_with("/locks/stock  mutex"),
        "{tables}"
    );
    assert!(lines[3].ends_with(" 0.0"), "the second look knows the rate: {tables}");
    for mut holder in running {
        holder.end_input();
        assert_eq!(holder.wait(LIMIT).code(), Some(0));
    }
}

#[test]
fn semaphore_is_one_lock_with_its_waiters() {
    let Some(zk) = zk("top-semaphore") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.start(&["semaphore", "/s", "--permits", "1", "--", "sh", "-c", HOLD]);
    let looked = || {
        let locks: Value = serde_json::from_str(&zk.ok(&["top", "--json"])).unwrap();
        (locks[0]["holder"] == "1 leases").then_some(locks)
    };
    let locks = poll(LIMIT, looked).expect("nobody got in");
    assert_eq!(locks.as_array().unwrap().len(), 1, "{locks}");
    assert_eq!((&locks[0]["path"], &locks[0]["kind"]), (&"/s".into(), &"semaphore".into()));
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
}

#[test]
fn wrong_uses_of_top_are_told() {
    let Some(zk) = zk("top-wrong") else { return };
    expect_failure(&zk.run(&["top", "/nowhere"]), 1, "NoNode");
    expect_refused(&["top", "relative"], "path");
    expect_refused(&["top", "/", "--interval", "0"], "above 0");
    expect_refused(&["top", "/", "--count", "0"], "0");
}
