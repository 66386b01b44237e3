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

/// Starts a watcher and waits until it reports that it watches.
fn start(zk: &Zk, arguments: &[&str]) -> Running {
    let watcher = zk.start(arguments);
    poll(LIMIT, || watcher.stderr().contains("watching").then_some(())).expect("not watching");
    watcher
}
