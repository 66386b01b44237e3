//! Tests of `zk lock --read` and `zk lock --write`.

use zk_tests::{HOLD, Journal, Running, Zk, poll};

use crate::{LIMIT, expect_failure, expect_refused, zk};

/// Starts a holder that releases when its input ends, and waits until `inside` contenders have
/// acquired the lock.
fn hold(zk: &Zk, side: &str, journal: &Journal, inside: usize) -> Running {
    let holder = zk.start(&["lock", "/rw", side, "--", "sh", "-c", HOLD]);
    poll(LIMIT, || (journal.entered().len() == inside).then_some(())).expect("it does not get in");
    holder
}

/// Waits until `count` contenders are in the queue, and returns their list as printed.
fn listed(zk: &Zk, count: usize) -> String {
    let listed = || {
        let listed = zk.ok(&["participants", "/rw"]);
        (listed.lines().count() == count).then_some(listed)
    };
    poll(LIMIT, listed).expect("they do not queue")
}

fn end(mut holder: Running) {
    holder.end_input();
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn readers_share_and_writer_excludes() {
    let Some(zk) = zk("sides") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let one = hold(&zk, "--read", &journal, 1);
    let two = hold(&zk, "--read", &journal, 2);
    for timeout in ["0", "0.5"] {
        let ended = zk.run(&["lock", "/rw", "--write", "--timeout", timeout, "--", "true"]);
        expect_failure(&ended, 75, "/rw: the lock was not acquired in time");
    }
    end(one);
    end(two);

    let writer = hold(&zk, "--write", &journal, 3);
    for side in ["--read", "--write"] {
        let ended = zk.run(&["lock", "/rw", side, "--timeout", "0", "--", "true"]);
        expect_failure(&ended, 75, "/rw: the lock was not acquired in time");
    }
    end(writer);
    assert_eq!(zk.ok(&["lock", "/rw", "--write", "--timeout", "0", "--", "echo", "in"]), "in\n");
    assert_eq!(zk.ok(&["ls", "/rw"]), "");
}

#[test]
fn command_receives_node_and_token_and_sets_exit_status() {
    let Some(zk) = zk("sides-known") else { return };
    let script = r#"echo "$ZK_LOCK_NODE"; echo "$ZK_FENCING_TOKEN"; exit 7"#;
    let mut last = 0;
    for (side, name) in [("--read", "-__READ__"), ("--write", "-__WRIT__"), ("--read", "-__READ__")]
    {
        let ended = zk.run(&["lock", "/a/rw", side, "--", "sh", "-c", script]);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(7), ""), "{ended:?}");
        let [node, token] = ended.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{ended:?}");
        };
        assert!(node.starts_with("/a/rw/_c_") && node[..node.len() - 10].ends_with(name), "{node}");
        let token: i64 = token.parse().unwrap();
        assert!(token > last, "{token}, {last}");
        last = token;
    }
}

#[test]
fn waiters_are_listed_and_acquire_in_queue_order() {
    let Some(zk) = zk("sides-order") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let holder = hold(&zk, "--write", &journal, 1);
    let mut waiting = Vec::new();
    let sides = ["--read", "--read", "--write", "--read"];
    for (ahead, side) in sides.iter().enumerate() {
        waiting.push(zk.start(&["lock", "/rw", side, "--", "sh", "-c", HOLD]));
        listed(&zk, ahead + 2);
    }
    let kinds = ["__WRIT__", "__READ__", "__READ__", "__WRIT__", "__READ__"];
    for (number, (line, kind)) in listed(&zk, 5).lines().zip(kinds).enumerate() {
        let (node, data) = line.split_once('\t').unwrap();
        assert!(node.ends_with(&format!("-{kind}{number:010}")), "{line}");
        assert!(data.starts_with("127.0.0.1 ") && data.ends_with(" sh"), "{line}");
    }

    end(holder);
    let inside = |count| poll(LIMIT, || (journal.entered().len() == count).then_some(())).unwrap();
    inside(3); // both readers together
    end(waiting.remove(0));
    end(waiting.remove(0));
    inside(4); // the writer
    end(waiting.remove(0));
    inside(5);
    end(waiting.remove(0));
    let mut numbers: Vec<i64> = journal.entered().iter().map(zk_tests::Entry::sequence).collect();
    numbers[1..3].sort_unstable(); // both readers acquired together
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn revocable_reader_releases_on_revocation() {
    let Some(zk) = zk("sides-revoked") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let reader = zk.start(&["lock", "/rw", "--read", "--revocable", "--", "sh", "-c", HOLD]);
    let entry = poll(LIMIT, || journal.entered().pop()).expect("it does not get in");
    zk.ok(&["revoke", &entry.node]);
    assert_eq!(reader.wait(LIMIT).code(), Some(74));
    assert_eq!(zk.ok(&["ls", "/rw"]), "");
}

#[test]
fn read_and_write_options_are_exclusive() {
    for (other, says) in [("--write", "--write"), ("--no-reentrant", "--no-reentrant")] {
        expect_refused(&["lock", "/rw", "--read", other, "--", "true"], says);
    }
    expect_refused(&["lock", "/rw", "--write", "--no-reentrant", "--", "true"], "--no-reentrant");
}
