//! Tests of `zk tree`, `zk find`, `zk ephemerals` and `zk txn`.

use std::time::Duration;

use serde_json::json;

use crate::{expect_refused, zk};

/// Ephemeral nodes outlive the command that creates them by this time.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn tree_is_drawn_to_its_depth() {
    let Some(zk) = zk("drawn") else { return };
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/d", "/a/e", "/f"] {
        zk.ok(&["create", path]);
    }
    let whole = "/\n├── a\n│   ├── b\n│   │   ├── c\n│   │   └── d\n│   └── e\n└── f\n";
    zk.prints("tree", whole);
    zk.prints("tree /a --depth 1", "/a\n├── b (2)\n└── e\n");
    zk.prints("tree /a --depth 0", "/a (2)\n");
    let shown = zk.json("tree /f --json");
    assert_eq!(shown, json!({ "name": "/f", "children": [], "hidden_children": null }));
    zk.fails("tree /nowhere", 1, "NoNode");
    expect_refused("tree --depth 501", "500");
}

#[test]
fn nodes_that_may_not_be_listed_are_counted() {
    let Some(zk) = zk("hidden") else { return };
    zk.ok("create /a");
    let alice = zk.clone().option("--auth", "digest:alice:secret");
    alice.ok("create /a/hers secret --acl auth::cdrwa");
    alice.ok("create /a/hers/below");
    for (line, printed) in [
        ("ls /a -R", "/a\n/a/hers\n"),
        ("tree /a", "/a\n└── hers\n"),
        ("find /a --contains secret", ""),
        ("ephemerals /a", ""),
    ] {
        zk.gives(line, 0, printed, "the children of 1 of the nodes");
    }
    zk.fails("export /a", 1, "would not be complete");
    alice.prints("find /a --contains secret", "/a/hers\n");
}

#[test]
fn nodes_are_found_by_name_and_data() {
    let Some(zk) = zk("find") else { return };
    zk.ok("create /app 'to localhost:1'");
    zk.ok("create /app/config host=localhost");
    zk.ok("create /app/config-old");
    zk.ok("create /app/box/config --parents");
    for (options, found) in [
        ("--name config", "/app/box/config\n/app/config\n"),
        ("--name *fig-???", "/app/config-old\n"),
        ("--contains localhost", "/app\n/app/config\n"),
        ("--contains localhost --name c*", "/app/config\n"),
        ("--name app --json", "[\"/app\"]\n"),
        ("--name config -0", "/app/box/config\0/app/config\0"),
    ] {
        zk.prints(&format!("find /app {options}"), found);
    }
    zk.fails("find /nowhere", 1, "NoNode");
}

#[test]
fn ephemeral_nodes_of_all_sessions_are_listed() {
    let Some(zk) = zk("ephemerals") else { return };
    let zk = zk.session_timeout(LONG);
    zk.ok("create /a");
    zk.ok("create /a/one --ephemeral");
    zk.ok("create /two --ephemeral");
    let owner = |path: &str| {
        let stat = zk.json(&format!("stat {path} --json"));
        stat["ephemeralOwner"].as_str().unwrap().to_owned()
    };
    let (one, two) = (owner("/a/one"), owner("/two"));
    assert_ne!(one, two);
    zk.prints("ephemerals", &format!("{one}\t/a/one\n{two}\t/two\n"));
    zk.prints("ephemerals /a", &format!("{one}\t/a/one\n"));
    zk.prints(&format!("ephemerals / --session {two}"), &format!("{two}\t/two\n"));
    let listed = zk.json("ephemerals /a --json");
    assert_eq!(listed, json!([{ "session": one, "path": "/a/one" }]));
    expect_refused("ephemerals --session soon", "hexadecimal");
}

#[test]
fn transaction_is_applied_whole_or_not_at_all() {
    let Some(zk) = zk("txn") else { return };
    zk.ok("create /a 0");
    let done = "checked /a\nset /a\ncreated /b\ndeleted /b\n";
    zk.prints("txn 'check /a 0' 'set /a one two' 'create /b x' 'delete /b'", done);
    zk.prints("get /a", "one two");
    zk.fails("txn 'set /a lost' 'check /a 0'", 1, "BadVersion");
    zk.prints("get /a", "one two");
    let ended = zk.run_with("txn --json", "create /c\n\nset /c 3\n");
    let done = r#"[{"done":"created","path":"/c"},{"done":"set","path":"/c"}]"#;
    assert_eq!(ended.stdout.trim_end(), done);
    expect_refused("txn", "--help");
    expect_refused("txn 'move /a /b'", "create, set, delete or check");
}
