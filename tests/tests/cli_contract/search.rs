//! Tests of `zk tree`, `zk find` and `zk ephemerals`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{expect_failure, expect_refused, zk};

/// Ephemeral nodes outlive the command that creates them by this time.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn tree_is_drawn_to_its_depth() {
    let Some(zk) = zk("drawn") else { return };
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/d", "/a/e", "/f"] {
        zk.ok(&["create", path]);
    }
    let whole = "/\n├── a\n│   ├── b\n│   │   ├── c\n│   │   └── d\n│   └── e\n└── f\n";
    assert_eq!(zk.ok(&["tree"]), whole);
    assert_eq!(zk.ok(&["tree", "/a", "--depth", "1"]), "/a\n├── b (2)\n└── e\n");
    assert_eq!(zk.ok(&["tree", "/a", "--depth", "0"]), "/a (2)\n");
    let shown: Value = serde_json::from_str(&zk.ok(&["tree", "/f", "--json"])).unwrap();
    assert_eq!(shown, json!({ "name": "/f", "children": [], "hidden_children": null }));
    expect_failure(&zk.run(&["tree", "/nowhere"]), 1, "NoNode");
    expect_refused(&["tree", "--depth", "501"], "500");
}

#[test]
fn nodes_that_may_not_be_listed_are_counted() {
    let Some(zk) = zk("hidden") else { return };
    zk.ok(&["create", "/a"]);
    let alice = zk.clone().option("--auth", "digest:alice:secret");
    alice.ok(&["create", "/a/hers", "secret", "--acl", "auth::cdrwa"]);
    alice.ok(&["create", "/a/hers/below"]);
    for (command, printed) in [
        (&["ls", "/a", "-R"][..], "/a\n/a/hers\n"),
        (&["tree", "/a"], "/a\n└── hers\n"),
        (&["find", "/a", "--contains", "secret"], ""),
        (&["ephemerals", "/a"], ""),
    ] {
        let ended = zk.run(command);
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), printed), "{ended:?}");
        assert!(ended.stderr.contains("the children of 1 of the nodes"), "{ended:?}");
    }
    expect_failure(&zk.run(&["export", "/a"]), 1, "would not be complete");
    assert_eq!(alice.ok(&["find", "/a", "--contains", "secret"]), "/a/hers\n");
}

#[test]
fn nodes_are_found_by_name_and_data() {
    let Some(zk) = zk("find") else { return };
    zk.ok(&["create", "/app", "to localhost:1"]);
    zk.ok(&["create", "/app/config", "host=localhost"]);
    zk.ok(&["create", "/app/config-old"]);
    zk.ok(&["create", "/app/box/config", "--parents"]);
    let find = |arguments: &[&str]| zk.ok(&[&["find", "/app"], arguments].concat());
    assert_eq!(find(&["--name", "config"]), "/app/box/config\n/app/config\n");
    assert_eq!(find(&["--name", "*fig-???"]), "/app/config-old\n");
    assert_eq!(find(&["--contains", "localhost"]), "/app\n/app/config\n");
    assert_eq!(find(&["--contains", "localhost", "--name", "c*"]), "/app/config\n");
    assert_eq!(find(&["--name", "app", "--json"]), "[\"/app\"]\n");
    assert_eq!(find(&["--name", "config", "-0"]), "/app/box/config\0/app/config\0");
    expect_failure(&zk.run(&["find", "/nowhere"]), 1, "NoNode");
}

#[test]
fn ephemeral_nodes_of_all_sessions_are_listed() {
    let Some(zk) = zk("ephemerals") else { return };
    let zk = zk.session_timeout(LONG);
    zk.ok(&["create", "/a"]);
    zk.ok(&["create", "/a/one", "--ephemeral"]);
    zk.ok(&["create", "/two", "--ephemeral"]);
    let owner = |path| {
        let stat: Value = serde_json::from_str(&zk.ok(&["stat", path, "--json"])).unwrap();
        stat["ephemeralOwner"].as_str().unwrap().to_owned()
    };
    let (one, two) = (owner("/a/one"), owner("/two"));
    assert_ne!(one, two);
    assert_eq!(zk.ok(&["ephemerals"]), format!("{one}\t/a/one\n{two}\t/two\n"));
    assert_eq!(zk.ok(&["ephemerals", "/a"]), format!("{one}\t/a/one\n"));
    assert_eq!(zk.ok(&["ephemerals", "/", "--session", &two]), format!("{two}\t/two\n"));
    let listed: Value = serde_json::from_str(&zk.ok(&["ephemerals", "/a", "--json"])).unwrap();
    assert_eq!(listed, json!([{ "session": one, "path": "/a/one" }]));
    expect_refused(&["ephemerals", "--session", "soon"], "hexadecimal");
}
