//! `zk watch`.

use serde_json::{Value, json};
use zk_tests::{Running, Zk, poll};

use crate::{LIMIT, expect_failure, zk};

#[test]
fn what_happens_to_a_node_is_printed_as_it_happens() {
    let Some(zk) = zk("watch") else { return };
    let watcher = start(&zk, &["watch", "/a"]);
    let steps: [(&[&str], &str); 5] = [
        (&["create", "/a", "1"], "NodeCreated /a"),
        (&["set", "/a", "2"], "NodeDataChanged /a"),
        (&["create", "/a/b"], "NodeChildrenChanged /a"),
        (&["delete", "/a/b"], "NodeChildrenChanged /a"),
        (&["delete", "/a"], "NodeDeleted /a"),
    ];
    // Twice, because the end of the node is not the end of the watching.
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
fn what_happens_is_printed_in_json() {
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
fn a_path_that_cannot_be_watched_is_refused() {
    let Some(zk) = zk("watch-bad") else { return };
    expect_failure(&zk.run(&["watch", "a"]), 64, "path");
}

/// Starts a watcher and waits until it says that it watches.
fn start(zk: &Zk, arguments: &[&str]) -> Running {
    let watcher = zk.start(arguments);
    poll(LIMIT, || watcher.stderr().contains("watching").then_some(())).expect("not watching");
    watcher
}
