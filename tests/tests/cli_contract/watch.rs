//! Tests of `zk watch`.

use serde_json::{Value, json};
use zk_tests::{Running, Zk, poll};

use crate::{LIMIT, expect_failure, zk};

#[test]
fn watch_prints_each_event_of_a_node() {
    let Some(zk) = zk("watch") else { return };
    let watcher = start(&zk, &["watch", "/a"]);
    let steps: [(&[&str], &str); 5] = [
        (&["create", "/a", "1"], "NodeCreated /a"),
        (&["set", "/a", "2"], "NodeDataChanged /a"),
        (&["create", "/a/b"], "NodeChildrenChanged /a"),
        (&["delete", "/a/b"], "NodeChildrenChanged /a"),
        (&["delete", "/a"], "NodeDeleted /a"),
    ];
    // The steps run twice, because the deletion of the node must not end the watch.
    let mut expected = String::new();
    for (command, line) in steps.iter().chain(&steps) {
        zk.ok(command);
        expected += &format!("{line}\n");
        poll(LIMIT, || (watcher.stdout() == expected).then_some(()))
            .unwrap_or_else(|| panic!("after {command:?}:\n{}", watcher.stdout()));
    }
    watcher.signal("INT");
    let ended = watcher.wait(LIMIT);
    assert_eq!((ended.code(), ended.stdout), (Some(0), expected));
}

#[test]
fn watch_prints_events_in_json() {
    let Some(zk) = zk("watch-json") else { return };
    let watcher = start(&zk, &["--json", "watch", "/a"]);
    zk.ok(&["create", "/a"]);
    let printed = poll(LIMIT, || Some(watcher.stdout()).filter(|out| out.ends_with('\n')));
    let event: Value = serde_json::from_str(&printed.expect("nothing is printed")).unwrap();
    assert_eq!(event, json!({ "event": "NodeCreated", "path": "/a" }));
    watcher.signal("TERM");
    assert_eq!(watcher.wait(LIMIT).code(), Some(0));
}

#[test]
fn watch_rejects_invalid_path() {
    let Some(zk) = zk("watch-bad") else { return };
    expect_failure(&zk.run(&["watch", "a"]), 64, "path");
}

#[test]
fn recursive_watch_prints_events_of_all_nodes() {
    let Some(zk) = zk("watch-all") else { return };
    zk.ok(&["create", "/a", "0"]);
    let watcher = start(&zk, &["watch", "/a", "-R", "--data"]);
    zk.ok(&["create", "/a/b", "1\n"]);
    zk.ok(&["create", "/a/b/c"]);
    zk.ok(&["set", "/a", "2"]);
    zk.ok(&["delete", "/a", "--recursive"]);
    let expected = ["NodeCreated /a/b\t", "NodeCreated /a/b/c", "NodeDataChanged /a"];
    let gone = ["NodeDeleted /a/b/c", "NodeDeleted /a/b", "NodeDeleted /a"];
    poll(LIMIT, || watcher.stdout().ends_with("NodeDeleted /a\n").then_some(())).unwrap();
    let printed = watcher.stdout();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 6, "{printed}");
    // The data is read after the event, when the node may have gone.
    for (line, begins) in lines.iter().zip(expected.into_iter().chain(gone)) {
        assert!(line.starts_with(begins.trim()), "{printed}");
    }
    watcher.signal("TERM");
    assert_eq!(watcher.wait(LIMIT).code(), Some(0));
}

#[test]
fn watch_prints_data_after_the_event() {
    let Some(zk) = zk("watch-data") else { return };
    let watcher = start(&zk, &["watch", "/a", "--data"]);
    zk.ok(&["create", "/a", "one\ttwo\n"]);
    poll(LIMIT, || watcher.stdout().ends_with('\n').then_some(())).unwrap();
    assert_eq!(watcher.stdout(), "NodeCreated /a\tone\\ttwo\\n\n");
    let json = start(&zk, &["watch", "/a", "--data", "--json"]);
    zk.ok(&["set", "/a", "x"]);
    poll(LIMIT, || json.stdout().ends_with('\n').then_some(())).unwrap();
    let event: Value = serde_json::from_str(&json.stdout()).unwrap();
    assert_eq!(event, json!({ "event": "NodeDataChanged", "path": "/a", "data": "x" }));
}

#[test]
fn watch_runs_a_command_for_each_event() {
    let Some(zk) = zk("watch-exec") else { return };
    let script = "echo $ZK_EVENT $ZK_PATH; cat; echo; exit 3";
    let watcher = start(&zk, &["watch", "/a", "--data", "--exec", "sh", "-c", script]);
    zk.ok(&["create", "/a", "one"]);
    let expected = "NodeCreated /a\none\n";
    poll(LIMIT, || (watcher.stdout() == expected).then_some(())).expect("the first event");
    // zk watch reports the exit status, and goes on.
    poll(LIMIT, || watcher.stderr().contains("exit status 3").then_some(())).expect("the status");
    zk.ok(&["delete", "/a"]);
    let expected = format!("{expected}NodeDeleted /a\n\n");
    poll(LIMIT, || (watcher.stdout() == expected).then_some(())).expect("the second event");
    watcher.signal("INT");
    assert_eq!(watcher.wait(LIMIT).code(), Some(0));

    // A path that no command can be given is skipped.
    let watcher = start(&zk, &["watch", "/", "-R", "--exec", "sh", "-c", "echo $ZK_PATH"]);
    let mut import = zk.start(&["import", "/"]);
    let long = format!("/{}", "x".repeat(200_000));
    let node = |path: &str| {
        let acl = [json!("world:anyone:cdrwa")];
        json!({ "path": path, "kind": "persistent", "data": "", "acl": acl }).to_string()
    };
    import.give(format!("{}\n{}\n", node(&long), node("/short")).as_bytes());
    import.end_input();
    assert_eq!(import.wait(LIMIT).code(), Some(0));
    poll(LIMIT, || (watcher.stdout() == "/short\n").then_some(())).expect("the next event");
    let note = "no command for NodeCreated: a path of 200001 bytes does not fit";
    assert!(watcher.stderr().contains(note), "{}", watcher.stderr());
    watcher.signal("INT");
    assert_eq!(watcher.wait(LIMIT).code(), Some(0));

    // A running command is ended as by zk lock.
    let script = "trap 'echo ended; exit 0' TERM; echo runs; while :; do sleep 0.05; done";
    for signal in ["TERM", "HUP"] {
        let path = format!("/{signal}");
        let watcher = start(&zk, &["watch", &path, "--exec", "sh", "-c", script]);
        zk.ok(&["create", &path]);
        poll(LIMIT, || watcher.stdout().contains("runs").then_some(())).expect("the command");
        watcher.signal(signal);
        let ended = watcher.wait(LIMIT);
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "runs\nended\n"), "{ended:?}");
    }

    let missing = start(&zk, &["watch", "/b", "--exec", "/no/such/program"]);
    zk.ok(&["create", "/b"]);
    let ended = missing.wait(LIMIT);
    assert_eq!(ended.code(), Some(127), "{ended:?}");
    assert!(ended.stderr.contains("/no/such/program"), "{ended:?}");
}

/// Starts a watcher and waits until it reports that it watches.
fn start(zk: &Zk, arguments: &[&str]) -> Running {
    let watcher = zk.start(arguments);
    poll(LIMIT, || watcher.stderr().contains("watching").then_some(())).expect("not watching");
    watcher
}
