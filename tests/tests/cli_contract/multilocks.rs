//! Tests of `zk multilock`.

use std::thread;

use zk_tests::{HOLD, Journal, poll};

use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn command_receives_nodes_and_tokens_in_order_of_paths() {
    let Some(zk) = zk("multi-known") else { return };
    let script = r#"echo "$ZK_LOCK_NODE"; echo "$ZK_FENCING_TOKEN"; exit 9"#;
    for paths in [["/a", "/b/c", "/d"], ["/d", "/a", "/b/c"]] {
        let mut arguments = vec!["multilock"];
        arguments.extend(paths);
        arguments.extend(["--", "sh", "-c", script]);
        let ended = zk.run(&arguments);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(9), ""), "{ended:?}");
        let [nodes, tokens] = ended.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{ended:?}");
        };
        let nodes: Vec<&str> = nodes.split(',').collect();
        let tokens: Vec<i64> = tokens.split(',').map(|token| token.parse().unwrap()).collect();
        assert_eq!((nodes.len(), tokens.len()), (3, 3), "{ended:?}");
        for (node, path) in nodes.iter().zip(paths) {
            assert!(node.starts_with(&format!("{path}/_c_")), "{nodes:?}");
        }
        // The locks are acquired in the order of the path names, which the tokens show.
        let mut taken: Vec<_> = paths.iter().zip(&tokens).collect();
        taken.sort();
        assert!(taken.is_sorted_by_key(|(_, token)| **token), "{taken:?}");
        for path in paths {
            assert_eq!(zk.ok(&["participants", path]), "");
        }
    }
}

#[test]
fn multilock_acquires_all_locks_or_none() {
    let Some(zk) = zk("multi-none") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.lock("/b", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    for timeout in ["0", "0.5"] {
        let arguments = ["multilock", "/a", "/b", "/c", "--timeout", timeout, "--", "echo", "in"];
        let says = "/a, /b, /c: the locks were not acquired in time; held: /b by sh ";
        expect_failure(&zk.run(&arguments), 75, says);
        for (path, count) in [("/a", 0), ("/b", 1), ("/c", 0)] {
            assert_eq!(zk.ok(&["participants", path]).lines().count(), count, "{path}");
        }
    }
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    let all = ["multilock", "/a", "/b", "/c", "--timeout", "0", "--", "echo", "in"];
    assert_eq!(zk.ok(&all), "in\n");
}

#[test]
fn multilocks_in_opposite_orders_do_not_deadlock() {
    let Some(zk) = zk("multi-opposite") else { return };
    thread::scope(|scope| {
        for paths in [["/a", "/b"], ["/b", "/a"]] {
            let zk = &zk;
            scope.spawn(move || {
                for _ in 0..10 {
                    zk.ok(&["multilock", paths[0], paths[1], "--timeout", "60", "--", "true"]);
                }
            });
        }
    });
}

#[test]
fn loss_of_one_lock_ends_command_and_releases_all() {
    let Some(zk) = zk("multi-lost") else { return };
    let script = "echo ready; exec sleep 1000";
    let holder = zk.start(&["multilock", "/a", "/b", "--", "sh", "-c", script]);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    let listed = zk.ok(&["participants", "/a"]);
    zk.ok(&["delete", listed.split('\t').next().unwrap()]);
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{ended:?}");
    assert!(ended.stderr.starts_with("zk: /a: the lock was lost: "), "{ended:?}");
    assert_eq!(zk.ok(&["participants", "/b"]), "");
}

#[test]
fn signal_is_passed_on_and_all_locks_are_released() {
    let Some(zk) = zk("multi-signal") else { return };
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let holder = zk.start(&["multilock", "/a", "/b", "--", "sh", "-c", script]);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    holder.signal("TERM");
    assert_eq!(holder.wait(LIMIT).code(), Some(5));
    assert_eq!(zk.ok(&["participants", "/a"]) + &zk.ok(&["participants", "/b"]), "");
}

#[test]
fn multilock_error_names_the_failing_lock() {
    let Some(zk) = zk("multi-refused") else { return };
    let short = zk.clone().option("--session-timeout", "4");
    short.ok(&["create", "/e", "--ephemeral"]);
    let ended = zk.run(&["multilock", "/a", "/e", "/z", "--", "true"]);
    expect_failure(&ended, 1, "lock /e: ");
    assert_eq!(zk.ok(&["participants", "/a"]), "");
}

#[test]
fn wrong_arguments_are_explained_in_one_line() {
    for (arguments, says) in [
        (&["multilock", "--", "true"][..], "<PATH>"),
        (&["multilock", "/a", "/b"], "<CMD>"),
        (&["multilock", "/a", "/b", "/a", "--", "true"], "/a is given twice"),
        (&["multilock", "/a", "b", "--", "true"], "path"),
        (&["multilock", "/a", "/b", "--timeout", "soon", "--", "true"], "'soon'"),
    ] {
        expect_refused(arguments, says);
    }
}
