//! Tests of `zk semaphore`, `zk lock --no-reentrant` and `zk participants --semaphore`.

use serde_json::Value;
use zk_tests::{HOLD, Journal, Running, Zk, poll};

use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn command_receives_nodes_and_tokens_of_its_permits() {
    let Some(zk) = zk("permits-known") else { return };
    let script = r#"echo "$ZK_LOCK_NODE"; echo "$ZK_FENCING_TOKEN"; exit 7"#;
    for take in [1, 3] {
        let taken = take.to_string();
        let ended = zk.run(&[
            "semaphore",
            "/a/s",
            "--permits",
            "3",
            "--take",
            &taken,
            "--",
            "sh",
            "-c",
            script,
        ]);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(7), ""), "{ended:?}");
        let [nodes, tokens] = ended.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{ended:?}");
        };
        let nodes: Vec<&str> = nodes.split(',').collect();
        let tokens: Vec<i64> = tokens.split(',').map(|token| token.parse().unwrap()).collect();
        assert_eq!((nodes.len(), tokens.len()), (take, take), "{ended:?}");
        assert!(nodes.iter().all(|node| node.starts_with("/a/s/leases/_c_")), "{nodes:?}");
        assert!(tokens[0] > 0 && tokens.is_sorted(), "{tokens:?}");
    }
    assert_eq!(zk.ok(&["participants", "/a/s", "--semaphore"]), "");
}

fn hold(zk: &Zk, permits: &str, take: &str) -> Running {
    zk.start(&["semaphore", "/s", "--permits", permits, "--take", take, "--", "sh", "-c", HOLD])
}

#[test]
fn permit_limit_is_enforced_and_participants_are_listed() {
    let Some(zk) = zk("permits-counted") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut one = hold(&zk, "3", "1");
    poll(LIMIT, || {
        (zk.ok(&["participants", "/s", "--semaphore"]).lines().count() == 1).then_some(())
    })
    .expect("nobody got in");
    let two = hold(&zk, "3", "2");
    let listed = || {
        let listed = zk.ok(&["participants", "/s", "--semaphore"]);
        (listed.lines().count() == 3).then_some(listed)
    };
    let listed = poll(LIMIT, listed).expect("two more did not get in");
    for (number, line) in listed.lines().enumerate() {
        let (node, data) = line.split_once('\t').unwrap();
        assert!(node.starts_with("/s/leases/_c_"), "{line}");
        assert!(node.ends_with(&format!("-lease-{number:010}")), "{line}");
        assert!(data.starts_with("127.0.0.1 ") && data.ends_with(" sh"), "{line}");
    }

    for timeout in ["0", "0.5"] {
        let taken = ["semaphore", "/s", "--permits", "3", "--timeout", timeout, "--", "echo", "in"];
        let says = "/s: no permit was acquired in time; held: sh ";
        expect_failure(&zk.run(&taken), 75, says);
    }
    let three = zk.run(&[
        "semaphore",
        "/s",
        "--permits",
        "3",
        "--take",
        "3",
        "--timeout",
        "0",
        "--",
        "true",
    ]);
    expect_failure(&three, 75, "/s: 3 permits were not acquired in time");

    one.end_input();
    assert_eq!(one.wait(LIMIT).code(), Some(0));
    assert_eq!(
        zk.ok(&["semaphore", "/s", "--permits", "3", "--timeout", "0", "--", "echo", "in"]),
        "in\n"
    );
    two.signal("TERM");
    assert_eq!(two.wait(LIMIT).code(), Some(128 + 15));
    assert_eq!(zk.ok(&["ls", "/s/leases"]) + &zk.ok(&["ls", "/s/locks"]), "");
}

#[test]
fn first_waiter_is_not_listed_among_the_holders() {
    let Some(zk) = zk("permit-waiter") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = hold(&zk, "2", "2");
    let count = || zk.ok(&["participants", "/s", "--semaphore"]).lines().count();
    poll(LIMIT, || (count() == 2).then_some(())).expect("nobody got in");
    let mut waiter = hold(&zk, "2", "1");
    let listed = || {
        let listed: Value =
            serde_json::from_str(&zk.ok(&["participants", "/s", "--semaphore", "--json"])).unwrap();
        let states: Vec<_> =
            listed.as_array()?.iter().map(|contender| contender["state"].clone()).collect();
        (states == ["holds", "holds", "waits"]).then_some(())
    };
    poll(LIMIT, listed).expect("the waiter is listed as a holder");
    let lines = zk.run(&["participants", "/s", "--semaphore"]);
    assert_eq!(lines.stdout.lines().count(), 3, "{lines:?}");
    assert!(lines.stderr.starts_with("zk: 1 of these permits are not held"), "{lines:?}");
    let top: Value = serde_json::from_str(&zk.ok(&["top", "--json"])).unwrap();
    assert_eq!((&top[0]["holder"], &top[0]["waiters"]), (&"2 leases".into(), &1.into()), "{top}");
    assert!(top[0]["longest_wait_s"].is_number(), "{top}");
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    waiter.end_input();
    assert_eq!(waiter.wait(LIMIT).code(), Some(0));
}

#[test]
fn loss_of_one_of_several_permits_ends_command() {
    let Some(zk) = zk("permit-lost") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let holder = zk.start(&[
        "semaphore",
        "/s",
        "--permits",
        "3",
        "--take",
        "2",
        "--",
        "sh",
        "-c",
        "echo ready; exec sleep 1000",
    ]);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    let listed = zk.ok(&["participants", "/s", "--semaphore"]);
    let node = listed.lines().nth(1).unwrap().split('\t').next().unwrap();
    zk.ok(&["delete", node]);
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{ended:?}");
    assert!(ended.stderr.starts_with("zk: /s: the lock was lost: "), "{ended:?}");
    assert_eq!(zk.ok(&["ls", "/s/leases"]), "");
}

#[test]
fn no_reentrant_lock_is_a_semaphore_with_one_permit() {
    let Some(zk) = zk("semaphore-mutex") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.start(&["lock", "/l", "--no-reentrant", "--", "sh", "-c", HOLD]);
    let entered = poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    assert!(entered.node.starts_with("/l/leases/_c_"), "{entered:?}");
    assert_eq!(zk.ok(&["participants", "/l", "--semaphore"]).lines().count(), 1);
    let held = zk.run(&["lock", "/l", "--no-reentrant", "--timeout", "0", "--", "true"]);
    expect_failure(&held, 75, "/l: the lock was not acquired in time");
    let held = zk.run(&["semaphore", "/l", "--permits", "1", "--timeout", "0", "--", "true"]);
    expect_failure(&held, 75, "/l: no permit was acquired in time");
    zk.ok(&["lock", "/l", "--allow-foreign-nodes", "--timeout", "0", "--", "true"]);
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    assert_eq!(
        zk.ok(&["lock", "/l", "--no-reentrant", "--timeout", "0", "--", "echo", "in"]),
        "in\n"
    );
}

#[test]
fn wrong_arguments_are_explained_in_one_line() {
    for (arguments, says) in [
        (&["semaphore", "/s", "--", "true"][..], "--permits"),
        (&["semaphore", "/s", "--permits", "0", "--", "true"], "'0' for '--permits"),
        (&["semaphore", "/s", "--permits", "2", "--take", "3", "--", "true"], "--take 3"),
        (&["semaphore", "/s", "--permits", "2", "--take", "0", "--", "true"], "'0' for '--take"),
        (&["semaphore", "/s", "--permits", "two", "--", "true"], "'two'"),
        (&["semaphore", "s", "--permits", "2", "--", "true"], "path"),
        (&["semaphore", "/s", "--permits", "2"], "<CMD>"),
        (&["semaphore", "--permits", "2", "--", "true"], "<PATH>"),
        (&["lock", "/l", "--no-reentrant"], "<CMD>"),
        (&["lock", "/l", "--no-reentrant", "true"], "'true'"),
        (&["lock", "/l", "--no-reentrant=yes", "--", "true"], "--no-reentrant"),
        (&["participants", "--semaphore"], "<PATH>"),
        (&["participants", "s", "--semaphore"], "path"),
        (&["participants", "/s", "--semaphores"], "--semaphores"),
    ] {
        expect_refused(arguments, says);
    }
}

/// Each permit is a node, and the first waiter has created those that it waits for.
#[test]
fn verbose_waiter_counts_contenders() {
    let Some(zk) = zk("semaphore-verbose") else { return };
    let both = ["--permits", "2", "--take", "2", "--", "sh", "-c", "echo in; exec cat"];
    let mut holder = zk.start(&[&["semaphore", "/s"], &both[..]].concat());
    poll(LIMIT, || (holder.stdout() == "in\n").then_some(())).expect("nobody got in");
    let waiter = zk.start(&["--verbose", "semaphore", "/s", "--permits", "2", "--", "true"]);
    let told = || waiter.stderr().contains("waiting for /s since").then_some(());
    poll(LIMIT, told).expect("nothing is told");
    assert!(waiter.stderr().contains(" is first of 2\n"), "{}", waiter.stderr());
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    assert_eq!(waiter.wait(LIMIT).code(), Some(0));
}
