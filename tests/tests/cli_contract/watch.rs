//! Tests of `zk watch`.

use serde_json::{Value, json};
use zk_tests::{Running, Zk};

use crate::{expect_refused, until, zk};

/// Starts a watcher and waits until it reports that it watches.
fn watching(zk: &Zk, line: &str) -> Running {
    let watcher = zk.start(line);
    watcher.notes("watching");
    watcher
}

fn event(watcher: &Running) -> Value {
    watcher.says("\n");
    serde_json::from_str(&watcher.stdout()).unwrap()
}

#[test]
fn watch_prints_each_event_of_a_node() {
    let Some(zk) = zk("watch") else { return };
    let watcher = watching(&zk, "watch /a");
    let steps = [
        ("create /a 1", "NodeCreated /a\n"),
        ("set /a 2", "NodeDataChanged /a\n"),
        ("create /a/b", "NodeChildrenChanged /a\n"),
        ("delete /a/b", "NodeChildrenChanged /a\n"),
        ("delete /a", "NodeDeleted /a\n"),
    ];
    // The steps run twice, because the deletion of the node must not end the watch.
    let mut expected = String::new();
    for (step, line) in steps.iter().chain(&steps) {
        zk.ok(step);
        expected += line;
        until(step, || watcher.stdout() == expected);
    }
    watcher.signal("INT");
    assert_eq!(watcher.ends(0).stdout, expected);
    expect_refused("watch a", "path");
}

#[test]
fn recursive_watch_prints_events_of_all_nodes() {
    let Some(zk) = zk("watch-all") else { return };
    zk.ok("create /a 0");
    let watcher = watching(&zk, "watch /a -R --data");
    zk.ok("create /a/b '1\n'");
    zk.ok("create /a/b/c");
    zk.ok("set /a 2");
    zk.ok("delete /a --recursive");
    watcher.says("NodeDeleted /a\n");
    let printed = watcher.stdout();
    // The data is read after the event, when the node may have gone.
    let events: Vec<&str> = printed.lines().filter_map(|line| line.split('\t').next()).collect();
    let created = ["NodeCreated /a/b", "NodeCreated /a/b/c", "NodeDataChanged /a"];
    let deleted = ["NodeDeleted /a/b/c", "NodeDeleted /a/b", "NodeDeleted /a"];
    assert_eq!(events, [created, deleted].concat(), "{printed}");
    assert!(printed.starts_with("NodeCreated /a/b\t"), "{printed}");
    watcher.signal("TERM");
    watcher.ends(0);
}

#[test]
fn watch_prints_data_after_the_event() {
    let Some(zk) = zk("watch-data") else { return };
    let watcher = watching(&zk, "watch /a --data");
    let created = watching(&zk, "--json watch /a");
    zk.ok("create /a 'one\ttwo\n'");
    watcher.says("\n");
    assert_eq!(watcher.stdout(), "NodeCreated /a\tone\\ttwo\\n\n");
    assert_eq!(event(&created), json!({ "event": "NodeCreated", "path": "/a" }));
    created.signal("TERM");
    created.ends(0);
    let changed = watching(&zk, "watch /a --data --json");
    zk.ok("set /a x");
    let expected = json!({ "event": "NodeDataChanged", "path": "/a", "data": "x" });
    assert_eq!(event(&changed), expected);
}

#[test]
fn watch_runs_a_command_for_each_event() {
    let Some(zk) = zk("watch-exec") else { return };
    let script = "'echo $ZK_EVENT $ZK_PATH; cat; echo; exit 3'";
    let watcher = watching(&zk, &format!("watch /a --data --exec sh -c {script}"));
    zk.ok("create /a one");
    until("the first event", || watcher.stdout() == "NodeCreated /a\none\n");
    // zk watch reports the exit status, and goes on.
    watcher.notes("exit status 3");
    zk.ok("delete /a");
    let expected = "NodeCreated /a\none\nNodeDeleted /a\n\n";
    until("the second event", || watcher.stdout() == expected);
    watcher.signal("INT");
    watcher.ends(0);

    // A path that no command can be given is skipped.
    let watcher = watching(&zk, "watch / -R --exec sh -c 'echo $ZK_PATH'");
    let node = |path: &str| json!({ "path": path, "data": "", "acl": ["world:anyone:cdrwa"] });
    let long = format!("/{}", "x".repeat(200_000));
    let imported = zk.run_with("import /", format!("{}\n{}\n", node(&long), node("/short")));
    assert_eq!(imported.code(), Some(0), "{imported:?}");
    watcher.says("/short\n");
    watcher.notes("no command for NodeCreated: a path of 200001 bytes does not fit");
    watcher.signal("INT");
    assert_eq!(watcher.ends(0).stdout, "/short\n");

    // A running command is ended as by zk lock.
    let script = "trap 'echo ended; exit 0' TERM; echo runs; while :; do sleep 0.05; done";
    for signal in ["TERM", "HUP"] {
        let watcher = zk.start(&["watch", &format!("/{signal}"), "--exec", "sh", "-c", script]);
        watcher.notes("watching");
        zk.ok(&format!("create /{signal}"));
        watcher.says("runs");
        watcher.signal(signal);
        assert_eq!(watcher.ends(0).stdout, "runs\nended\n");
    }
    let missing = watching(&zk, "watch /b --exec /no/such/program");
    zk.ok("create /b");
    missing.notes("/no/such/program");
    missing.ends(127);
}
