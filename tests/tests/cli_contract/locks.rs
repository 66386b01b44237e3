//! Tests of `zk lock`, `zk semaphore`, `zk multilock`, `zk participants` and `zk revoke`.

use std::thread;

use zk_tests::{HOLD, Journal, Running, Zk, poll};

use crate::{LIMIT, expect_refused, own_node, until, zk};

#[test]
fn command_receives_its_nodes_and_tokens() {
    let Some(zk) = zk("knows") else { return };
    let script =
        r#"cat; echo "$1"; echo "$ZK_LOCK_NODE"; echo "$ZK_FENCING_TOKEN"; echo err >&2; exit 7"#;
    let number = "0000000000";
    for (line, paths, last) in [
        ("lock /a/b/l", &["/a/b/l"][..], format!("-lock-{number}")),
        ("lock /a/rw --read", &["/a/rw"], format!("-__READ__{number}")),
        ("lock /a/rw --write", &["/a/rw"], "-__WRIT__0000000001".to_owned()),
        ("lock /n --no-reentrant", &["/n/leases"], format!("-lease-{number}")),
        ("semaphore /s --permits 3", &["/s/leases"], format!("-lease-{number}")),
        ("semaphore /t --permits 3 --take 3", &["/t/leases"; 3], "-lease-0000000002".to_owned()),
        ("multilock /e /f/c /g", &["/e", "/f/c", "/g"], format!("-lock-{number}")),
        ("multilock /g /e /f/c", &["/g", "/e", "/f/c"], "-lock-0000000001".to_owned()),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = zk.run(&[&words[..], &["--", "sh", "-c", script, "sh", "--json"]].concat());
        assert_eq!((ended.code(), &*ended.stderr), (Some(7), "err\n"), "{ended:?}");
        let [argument, nodes, tokens] = ended.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{ended:?}");
        };
        assert_eq!(argument, "--json", "what is behind the dashes is the command's");
        let nodes: Vec<&str> = nodes.split(',').collect();
        let tokens: Vec<i64> = tokens.split(',').map(|token| token.parse().unwrap()).collect();
        assert_eq!((nodes.len(), tokens.len()), (paths.len(), paths.len()), "{ended:?}");
        assert!(nodes.last().unwrap().ends_with(&last), "{line}: {nodes:?}");
        for (node, path) in nodes.iter().zip(paths) {
            assert!(node.starts_with(&format!("{path}/_c_")), "{line}: {nodes:?}");
            zk.prints(&["ls", path], "");
        }
        // The locks are acquired in the order of the path names, which the tokens show.
        let mut taken: Vec<_> = paths.iter().zip(&tokens).collect();
        taken.sort();
        assert!(*taken[0].1 > 0 && taken.is_sorted_by_key(|(_, token)| **token), "{taken:?}");
    }
}

/// Waits until so many contenders are listed, and returns the list.
fn listed(zk: &Zk, line: &str, count: usize) -> String {
    let listed = || Some(zk.ok(line)).filter(|listed| listed.lines().count() == count);
    poll(LIMIT, listed).unwrap_or_else(|| panic!("not {count} contenders"))
}

#[test]
fn participants_are_listed_in_queue_order() {
    let Some(zk) = zk("order") else { return };
    zk.gives("participants /l", 0, "", "zk: /l does not exist: nobody holds");
    zk.ok("create /app/config --parents");
    zk.gives("participants /app", 0, "", "zk: /app is not a lock: the nodes");
    zk.gives("participants /app/config", 0, "", "zk: /app/config has no contenders:");
    let sides = ["__WRIT__", "__READ__", "__READ__", "__WRIT__", "__READ__"];
    for (path, names, order) in [
        ("/l", ["lock-"; 5], [0, 1, 2, 3, 4]),
        // Both readers acquire together.
        ("/rw", sides, [0, 1, 2, 3, 4]),
    ] {
        let journal = Journal::new();
        let zk = zk.clone().journal(&journal);
        let line = format!("participants {path}");
        let mut running = Vec::new();
        for (ahead, name) in names.iter().enumerate() {
            let side = match *name {
                "__READ__" => &["--read"][..],
                "__WRIT__" => &["--write"],
                _ => &[],
            };
            running.push(zk.start(&[&["lock", path], side, &["--", "sh", "-c", HOLD]].concat()));
            listed(&zk, &line, ahead + 1);
            until("nobody got in", || !journal.entered().is_empty());
        }
        for (number, (line, name)) in listed(&zk, &line, 5).lines().zip(names).enumerate() {
            let (node, data) = line.split_once('\t').unwrap();
            assert!(node.starts_with(&format!("{path}/_c_")), "{line}");
            assert!(node.ends_with(&format!("-{name}{number:010}")), "{line}");
            let words: Vec<&str> = data.split(' ').collect();
            let ["127.0.0.1", host, process, "sh"] = words[..] else { panic!("{line}") };
            assert!(!host.is_empty() && process.parse::<u32>().is_ok(), "{line}");
        }
        assert_eq!(journal.entered().len(), 1, "{path}");
        let mut running = running.into_iter();
        running.next().unwrap().finish();
        let together = if path == "/rw" { 3 } else { 2 };
        until("the next ones", || journal.entered().len() == together);
        running.for_each(|holder| drop(holder.finish()));
        let mut numbers: Vec<i64> =
            journal.entered().iter().map(|entry| entry.sequence()).collect();
        numbers[1..together].sort_unstable();
        assert_eq!(numbers, order, "{path}");
    }
}

#[test]
fn table_shows_names_and_ages() {
    let Some(zk) = zk("table") else { return };
    let holder = zk.hold("lock /l");
    let table = zk.ok("participants /l --table");
    let [head, row] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
    let names: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(names.join(" "), "# STATE NAME HOST PID ADDRESS QUEUED SESSION NODE");
    let cells: Vec<&str> = row.split_whitespace().collect();
    let ["1", "holds", "sh", _host, _process, "127.0.0.1", since, session, node] = cells[..] else {
        panic!("{table}")
    };
    assert!(since.ends_with('s') && session.starts_with("0x"), "{table}");
    assert!(node.starts_with("/l/_c_"), "{table}");
    let json = zk.ok("participants /l --json");
    assert!(json.contains(r#""name":"sh""#) && json.contains(r#""created_ms":1"#), "{json}");
    holder.finish();
}

#[test]
fn lock_with_timeout_fails_when_held_by_another() {
    let Some(zk) = zk("held") else { return };
    let lock = ": the lock was not acquired in time; held: nightly ";
    let all = "/a, /m, /z: the locks were not acquired in time; held: /m by nightly ";
    for (holds, asks, says) in [
        ("lock /l", "lock /l", lock),
        ("lock /rw --read", "lock /rw --write", lock),
        ("lock /rw --write", "lock /rw --read", lock),
        ("lock /rw --write", "lock /rw --write", lock),
        ("lock /n --no-reentrant", "lock /n --no-reentrant", lock),
        (
            "lock /n --no-reentrant",
            "semaphore /n --permits 1",
            "/n: no permit was acquired in time",
        ),
        ("semaphore /s --permits 2", "semaphore /s --permits 2 --take 2", "/s: 2 permits were not"),
        ("semaphore /s --permits 2 --take 2", "semaphore /s --permits 2", "held: nightly "),
        ("lock /m", "multilock /a /m /z", all),
    ] {
        let holder = zk.hold(&format!("{holds} --name nightly"));
        let nodes = || zk.ok("ls / -R").lines().filter(|path| path.contains("_c_")).count();
        let before = nodes();
        for timeout in ["0", "1.5"] {
            let line = format!("{asks} --timeout {timeout} -- echo in");
            let start = zk_tests::now();
            let ended = zk.fails(&line, 75, says);
            assert!(start.elapsed().as_secs_f64() >= timeout.parse().unwrap(), "{line}");
            assert!(ended.stderr.contains(" (session 0x"), "{ended:?}");
            assert!(ended.stderr.ends_with("s ago)\n"), "{ended:?}");
            assert_eq!(nodes(), before, "only the holder's nodes are left: {line}");
        }
        holder.finish();
        for timeout in ["0", "1"] {
            zk.prints(&format!("{asks} --timeout {timeout} -- echo in"), "in\n");
        }
    }
}

#[test]
fn readers_and_permits_are_held_together() {
    let Some(zk) = zk("together") else { return };
    for (line, list, path, count) in [
        ("lock /rw --read", "participants /rw", "/rw", 2),
        ("semaphore /s --permits 2", "participants /s --semaphore", "/s/leases", 2),
    ] {
        let (one, two) = (zk.hold(line), zk.hold(line));
        for line in listed(&zk, list, count).lines() {
            let (node, data) = line.split_once('\t').unwrap();
            assert!(node.starts_with(&format!("{path}/_c_")), "{line}");
            assert!(data.starts_with("127.0.0.1 ") && data.ends_with(" sh"), "{line}");
        }
        one.finish();
        two.signal("TERM");
        two.ends(128 + 15);
        zk.prints(&["ls", path], "");
    }
    zk.prints("ls /s/locks", "");
}

#[test]
fn first_waiter_is_not_listed_among_the_holders() {
    let Some(zk) = zk("permit-waiter") else { return };
    let holder = zk.hold("semaphore /s --permits 2 --take 2");
    let waiter = zk.start("semaphore /s --permits 2 -v -- sh -c 'echo in; cat'");
    until("the waiter is listed as a holder", || {
        let listed = zk.json("participants /s --semaphore --json");
        let states: Vec<_> =
            listed.as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
        states == ["holds", "holds", "waits"]
    });
    let lines = zk.run("participants /s --semaphore");
    assert_eq!(lines.stdout.lines().count(), 3, "{lines:?}");
    assert!(lines.stderr.starts_with("zk: 1 of these permits are not held"), "{lines:?}");
    let top = zk.json("top --json");
    assert_eq!((&top[0]["holder"], &top[0]["waiters"]), (&"2 leases".into(), &1.into()), "{top}");
    assert!(top[0]["longest_wait_s"].is_number(), "{top}");
    // Each permit is a node, and the first waiter has created those that it waits for.
    waiter.notes("waiting for /s since");
    assert!(waiter.stderr().contains(" is first of 2\n"), "{waiter}");
    holder.finish();
    waiter.finish();
}

#[test]
fn waiter_requeues_when_its_node_is_deleted() {
    let Some(zk) = zk("again") else { return };
    let holder = zk.hold("lock /l");
    let waiter = zk.start("lock /l -- sh -c 'echo $ZK_LOCK_NODE'");
    let listed = listed(&zk, "participants /l", 2);
    let node = listed.lines().nth(1).unwrap().split('\t').next().unwrap();
    zk.ok(&["delete", node]);
    // The waiter notices the deletion only when it lists the queue, after its predecessor has
    // released.
    holder.finish();
    let ended = waiter.ends(0);
    assert!(ended.stdout.starts_with("/l/_c_") && ended.stdout.trim() != node, "{ended:?}");
    zk.prints("ls /l", "");
}

#[test]
fn loss_of_any_node_ends_command_and_releases_all() {
    let Some(zk) = zk("lost") else { return };
    for (line, path, others) in [
        ("lock /l", "/l", "/l"),
        ("multilock /a /b", "/a", "/b"),
        ("semaphore /s --permits 3 --take 2", "/s/leases", "/s/leases"),
    ] {
        let holder = zk.script(line, "echo in; exec sleep 1000", "in\n");
        let node = zk.ok(&["ls", path]).lines().next_back().unwrap().to_owned();
        zk.ok(&format!("delete {path}/{node}"));
        let ended = holder.ends(74);
        let lock = path.trim_end_matches("/leases");
        let says = format!(
            "zk: {lock}: the lock was lost: the lock's node was deleted, by another client or because \
             the session expired\n"
        );
        assert_eq!(ended.stderr, says, "{line}");
        zk.prints(&["ls", others], "");
    }
}

#[test]
fn multilocks_in_opposite_orders_do_not_deadlock() {
    let Some(zk) = zk("multi-opposite") else { return };
    thread::scope(|scope| {
        for paths in ["/a /b", "/b /a"] {
            let zk = &zk;
            scope.spawn(move || {
                for _ in 0..10 {
                    zk.ok(&format!("multilock {paths} --timeout 60 -- true"));
                }
            });
        }
    });
}

#[test]
fn lock_below_ephemeral_node_is_rejected() {
    let Some(zk) = zk("refused") else { return };
    let short = zk.clone().option("--session-timeout", "4");
    short.ok("create /e --ephemeral");
    zk.fails("lock /e -- true", 1, "NoChildrenForEphemerals");
    zk.fails("multilock /a /e /z -- true", 1, "lock /e: ");
    zk.prints("participants /a", "");
}

#[test]
fn revocable_holder_releases_on_revocation() {
    let Some(zk) = zk("revocable") else { return };
    for line in ["lock /l --revocable", "lock /rw --read --revocable"] {
        let holder = zk.script(line, "echo in; exec sleep 1000", "in\n");
        let path = line.split(' ').nth(1).unwrap();
        let node = own_node(&zk, path);
        zk.prints(&["revoke", &node], "");
        let says = format!("zk: {path}: the lock was released on a revocation request\n");
        assert_eq!(holder.ends(74).stderr, says);
        zk.prints(&["ls", path], "");
        let says = format!("{node}: nobody holds it, there is no such node");
        zk.fails(&["revoke", &node], 1, &says);
    }
}

/// A request replaces the data of the node.
#[test]
fn revoke_refuses_nodes_without_a_holder_that_reacts() {
    let Some(zk) = zk("revoke-refused") else { return };
    zk.ok("create /svc data");
    zk.fails("revoke /svc", 1, "not a holder's node");
    zk.prints("get /svc", "data");
    let leader = zk.hold("elect /e --name me");
    let node = own_node(&zk, "/e");
    zk.fails(&["revoke", &node], 1, "a candidate of an election");
    zk.prints(&["get", &node], "me");
    leader.finish();
    // A lock that is not revocable is kept.
    let mut holder = zk.hold("lock /l");
    let node = own_node(&zk, "/l");
    zk.ok(&["revoke", &node]);
    zk.prints(&["get", &node], "__REVOKE__");
    assert!(!holder.has_ended());
    holder.finish();
}

#[test]
fn verbose_waiter_tells_who_has_the_lock() {
    let Some(zk) = zk("verbose") else { return };
    let holder = zk.hold("lock /l --name nightly");
    let waiter = zk.start("lock /l -v -- true");
    waiter.notes(" is first of 2\n");
    let said = waiter.stderr();
    let (_, since) = said.split_once("waiting for /l since ").expect("the time");
    let (seconds, _) = since.split_once("s: nightly ").expect("the holder");
    assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds >= 3), "{said}");
    assert!(said.starts_with("zk: session 0x"), "{said}");
    holder.finish();
    let ended = Running::ends(waiter, 0);
    assert!(ended.stderr.contains("the client was closed"), "{ended:?}");
}

/// For each kind of lock: the recipe of its nodes, the command, and its options.
const KINDS: [(&str, &str, &str); 4] = [
    ("mutex", "lock", ""),
    ("read-write lock", "lock", "--write"),
    ("semaphore", "lock", "--no-reentrant"),
    ("semaphore", "semaphore", "--permits 2"),
];

/// Different kinds of locks on one path would not exclude each other.
#[test]
fn different_lock_kind_on_same_path_fails_with_status_78() {
    let Some(zk) = zk("foreign-nodes") else { return };
    for (number, (held, command, options)) in KINDS.into_iter().enumerate() {
        let path = format!("/l{number}");
        let holder = zk.hold(&format!("{command} {path} {options}"));
        let below = if held == "semaphore" { "/leases" } else { "" };
        let node = own_node(&zk, &format!("{path}{below}"));
        for (_, command, options) in KINDS.into_iter().filter(|(kind, ..)| *kind != held) {
            for timeout in ["--timeout 0", "--timeout 5", ""] {
                let says = format!("cannot acquire {path}: {node} is the node of a {held}");
                zk.fails(&format!("{command} {path} {options} {timeout} -- true"), 78, &says);
            }
            let allows = "--allow-foreign-nodes --timeout 5 -- echo in";
            zk.prints(&format!("{command} {path} {options} {allows}"), "in\n");
        }
        if held != "mutex" {
            let says = format!("lock {path}: cannot acquire {path}: ");
            zk.fails(&format!("multilock /other {path} --timeout 5 -- true"), 78, &says);
        }
        holder.finish();
    }
}

#[test]
fn wrong_arguments_are_explained_in_one_line() {
    for (line, says) in [
        ("multilock -- true", "<PATH>"),
        ("multilock /a /b", "<CMD>"),
        ("multilock /a /b /a -- true", "/a is given twice"),
        ("multilock /a b -- true", "path"),
        ("multilock /a /b --timeout soon -- true", "'soon'"),
        ("semaphore /s -- true", "--permits"),
        ("semaphore /s --permits 0 -- true", "'0' for '--permits"),
        ("semaphore /s --permits 2 --take 3 -- true", "--take 3"),
        ("semaphore /s --permits 2 --take 0 -- true", "'0' for '--take"),
        ("semaphore /s --permits two -- true", "'two'"),
        ("semaphore s --permits 2 -- true", "path"),
        ("semaphore /s --permits 2", "<CMD>"),
        ("semaphore --permits 2 -- true", "<PATH>"),
        ("lock /l --no-reentrant", "<CMD>"),
        ("lock /l --no-reentrant true", "'true'"),
        ("lock /l --no-reentrant=yes -- true", "--no-reentrant"),
        ("lock /rw --read --write -- true", "--write"),
        ("lock /rw --read --no-reentrant -- true", "--no-reentrant"),
        ("lock /rw --write --no-reentrant -- true", "--no-reentrant"),
        ("participants --semaphore", "<PATH>"),
        ("participants s --semaphore", "path"),
        ("participants /s --semaphores", "--semaphores"),
    ] {
        expect_refused(line, says);
    }
}
