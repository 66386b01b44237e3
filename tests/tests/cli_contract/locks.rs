//! Tests of `zk lock` and `zk participants`.

use zk_tests::{HOLD, Journal, poll};

use crate::{LIMIT, expect_failure, zk};

#[test]
fn locked_command_receives_its_node_and_token() {
    let Some(zk) = zk("knows") else { return };
    let script = r#"cat; echo "$1"; echo "$ZK_LOCK_NODE"; echo "$ZK_FENCING_TOKEN"; echo err >&2"#;
    let ended = zk.run(&["lock", "/a/b/l", "--", "sh", "-c", script, "sh", "--json"]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), "err\n"), "{ended:?}");
    let [argument, node, token] = ended.stdout.lines().collect::<Vec<_>>()[..] else {
        panic!("{ended:?}");
    };
    assert_eq!(argument, "--json", "what is behind the dashes is the command's");
    assert!(node.starts_with("/a/b/l/_c_") && node.ends_with("-lock-0000000000"), "{node}");
    assert!(token.parse::<i64>().unwrap() > 0, "{token}");
    assert_eq!(zk.ok(&["participants", "/a/b/l"]), "");
}

#[test]
fn participants_are_listed_in_queue_order() {
    let Some(zk) = zk("order") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let nobody = zk.run(&["participants", "/l"]);
    assert_eq!((nobody.code(), nobody.stdout.as_str()), (Some(0), ""), "{nobody:?}");
    assert!(nobody.stderr.starts_with("zk: /l does not exist: nobody holds"), "{nobody:?}");
    zk.ok(&["create", "/app/config", "--parents"]);
    for (path, says) in
        [("/app", "is not a lock: the nodes"), ("/app/config", "has no contenders:")]
    {
        let none = zk.run(&["participants", path]);
        assert_eq!((none.code(), none.stdout.as_str()), (Some(0), ""), "{none:?}");
        assert!(none.stderr.starts_with(&format!("zk: {path} {says}")), "{none:?}");
    }
    let mut running = Vec::new();
    for count in 1..=4 {
        running.push(zk.lock("/l", HOLD));
        let queued = || (zk.ok(&["participants", "/l"]).lines().count() == count).then_some(());
        poll(LIMIT, queued).expect("it does not queue");
    }

    let printed = zk.ok(&["participants", "/l"]);
    let nodes: Vec<&str> =
        printed.lines().map(|line| line.split_once('\t').expect("a tab").0).collect();
    for (number, line) in printed.lines().enumerate() {
        let (node, data) = line.split_once('\t').unwrap();
        assert!(node.starts_with("/l/_c_"), "{line}");
        assert!(node.ends_with(&format!("-lock-{number:010}")), "{line}");
        let words: Vec<&str> = data.split(' ').collect();
        let ["127.0.0.1", host, process, "sh"] = words[..] else { panic!("{line}") };
        assert!(!host.is_empty(), "{line}");
        assert!(process.parse::<u32>().is_ok(), "{line}");
    }
    for mut holder in running {
        holder.end_input();
        assert_eq!(holder.wait(LIMIT).code(), Some(0));
    }
    let entered: Vec<String> = journal.entered().into_iter().map(|entry| entry.node).collect();
    assert_eq!(entered, nodes);
}

#[test]
fn table_shows_names_and_ages() {
    let Some(zk) = zk("table") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    let table = zk.ok(&["participants", "/l", "--table"]);
    let lines: Vec<&str> = table.lines().collect();
    let [head, row] = lines[..] else { panic!("{table}") };
    let names: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(
        names,
        ["#", "STATE", "NAME", "HOST", "PID", "ADDRESS", "QUEUED", "SESSION", "NODE"]
    );
    let cells: Vec<&str> = row.split_whitespace().collect();
    let ["1", "holds", "sh", _host, _process, "127.0.0.1", since, session, node] = cells[..] else {
        panic!("{table}")
    };
    assert!(since.ends_with('s') && session.starts_with("0x"), "{table}");
    assert!(node.starts_with("/l/_c_"), "{table}");
    let json = zk.ok(&["participants", "/l", "--json"]);
    assert!(json.contains(r#""name":"sh""#) && json.contains(r#""created_ms":1"#), "{json}");
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
}

#[test]
fn waiter_requeues_when_its_node_is_deleted() {
    let Some(zk) = zk("again") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    let waiter = zk.lock("/l", Journal::VISIT);
    let second = || {
        let printed = zk.ok(&["participants", "/l"]);
        let line = printed.lines().nth(1)?;
        Some(line.split('\t').next().unwrap().to_owned())
    };
    let node = poll(LIMIT, second).expect("it does not queue");
    zk.ok(&["delete", &node]);
    // The waiter notices the deletion only when it lists the queue, after its predecessor has
    // released.
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    let ended = waiter.wait(LIMIT);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(journal.entered().len(), 2);
    assert_ne!(journal.entered()[1].node, node);
    assert_eq!(zk.ok(&["ls", "/l"]), "");
}

#[test]
fn lock_below_ephemeral_node_is_rejected() {
    let Some(zk) = zk("refused") else { return };
    let short = zk.clone().option("--session-timeout", "4");
    short.ok(&["create", "/ephemeral", "--ephemeral"]);
    let ended = zk.run(&["lock", "/ephemeral", "--", "true"]);
    expect_failure(&ended, 1, "NoChildrenForEphemerals");
}

#[test]
fn revocable_holder_releases_on_revocation() {
    let Some(zk) = zk("revocable") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let holder =
        zk.start(&["lock", "/l", "--revocable", "--", "sh", "-c", "echo ready; sleep 1000"]);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    let listed = zk.ok(&["participants", "/l"]);
    let node = listed.split_whitespace().next().unwrap();
    assert_eq!(zk.ok(&["revoke", node]), "");
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{ended:?}");
    assert_eq!(ended.stderr, "zk: /l: the lock was released on a revocation request\n");
    assert_eq!(zk.ok(&["ls", "/l"]), "");
    let nobody = zk.run(&["revoke", node]);
    assert_eq!(nobody.code(), Some(1));
    assert_eq!(nobody.stderr, format!("zk: {node}: nobody holds it, there is no such node\n"));
}

/// A request replaces the data of the node.
#[test]
fn revoke_refuses_nodes_without_a_holder_that_reacts() {
    let Some(zk) = zk("revoke-refused") else { return };
    zk.ok(&["create", "/svc", "data"]);
    expect_failure(&zk.run(&["revoke", "/svc"]), 1, "not a holder's node");
    assert_eq!(zk.ok(&["get", "/svc"]), "data");

    let mut leader = zk.start(&["elect", "/e", "--", "sh", "-c", "echo leads; cat >/dev/null"]);
    poll(LIMIT, || (leader.stdout() == "leads\n").then_some(())).expect("nobody leads");
    let node = format!("/e/{}", zk.ok(&["ls", "/e"]).trim());
    let before = zk.ok(&["get", &node]);
    expect_failure(&zk.run(&["revoke", &node]), 1, "a candidate of an election");
    assert_eq!(zk.ok(&["get", &node]), before);
    leader.end_input();
    assert_eq!(leader.wait(LIMIT).code(), Some(0));
}

#[test]
fn holder_without_revocable_option_keeps_the_lock() {
    let Some(zk) = zk("not-revocable") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.lock("/l", "echo ready; cat >/dev/null");
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    let listed = zk.ok(&["participants", "/l"]);
    let node = listed.split_whitespace().next().unwrap();
    zk.ok(&["revoke", node]);
    assert_eq!(zk.ok(&["get", node]), "__REVOKE__");
    assert!(!holder.has_ended());
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
}

#[test]
fn verbose_waiter_tells_who_has_the_lock() {
    let Some(zk) = zk("verbose") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.start(&["lock", "/l", "--name", "nightly", "--", "sh", "-c", HOLD]);
    let held = || zk.ok(&["participants", "/l"]).contains("nightly").then_some(());
    poll(LIMIT, held).expect("nobody got in");
    let mut waiter = zk.start(&["lock", "/l", "-v", "--", "true"]);
    let told = || waiter.stderr().contains(" is first of 2\n").then_some(());
    poll(LIMIT, told).expect("nothing is told");
    let said = waiter.stderr();
    let (_, since) = said.split_once("waiting for /l since ").expect("the time");
    let (seconds, _) = since.split_once("s: nightly ").expect("the holder");
    assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds >= 3), "{said}");
    assert!(waiter.stderr().starts_with("zk: session 0x"), "{}", waiter.stderr());
    holder.end_input();
    waiter.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    let ended = waiter.wait(LIMIT);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("the client was closed"), "{ended:?}");
}
