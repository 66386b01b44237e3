//! Tests of `zk counter` and `zk barrier`.

use serde_json::json;

use crate::{expect_refused, zk};

#[test]
fn counter_is_read_added_to_and_set() {
    let Some(zk) = zk("counters") else { return };
    zk.prints("counter /c/orders", "0\n");
    assert_eq!(zk.run("exists /c/orders").code(), Some(1), "a read creates no node");
    for (change, number) in [
        ("--add 5", "5\n"),
        ("--add -7", "-2\n"),
        ("--add 3 --once a", "1\n"),
        ("--set 100", "100\n"),
        ("--add 3 --once a", "1\n"),
    ] {
        zk.prints(&format!("counter /c/orders {change}"), number);
    }
    zk.prints("ls /c/orders", "operation-a\n");
    assert_eq!(zk.json("counter /c/orders --json"), json!({ "number": 100 }));
    let says = "/c/orders/operation-a: an operation with this id";
    zk.fails("counter /c/orders --add 4 --once a", 1, says);
}

#[test]
fn counter_rejects_data_and_numbers_that_do_not_fit() {
    let Some(zk) = zk("short-counters") else { return };
    zk.prints("counter /i --integer --add 1", "1\n");
    zk.fails("counter /i", 1, "/i: 4 bytes of data are no number");
    zk.ok(r#"create /config '{"limit": 100}'"#);
    for change in ["--add 1", "--add 1 --once a", "--integer", ""] {
        let line = format!("counter /config {change}");
        zk.fails(&line, 1, "/config: 14 bytes of data are no number");
    }
    zk.prints("get /config", r#"{"limit": 100}"#);
    zk.fails("counter /i --integer --add 2147483648", 64, "the number has 4 bytes");
    let says = "out of range; the value is unchanged";
    zk.fails("counter /i --integer --add 2147483647", 1, says);
    expect_refused("counter /i --once a", "--add");
    expect_refused("counter /i --add 1 --set 1", "--set");
    zk.fails("counter /i --integer --add 1 --once a/b", 64, "cannot be the id");
}

/// A mistyped path must not cost other data.
#[test]
fn counter_overwrites_other_data_only_if_forced() {
    let Some(zk) = zk("counter-set") else { return };
    zk.ok(r#"create /config {"a":1}"#);
    zk.ok("create /long 0123456789");
    zk.ok("create /empty");
    let says = "/config: the node has 7 bytes of data, and the number has 4; --force replaces them";
    zk.fails("counter /config --set 0 --integer", 1, says);
    zk.prints("get /config", r#"{"a":1}"#);
    zk.fails("counter /long --set 0", 1, "10 bytes of data");
    zk.prints("counter /empty --set 7", "7\n");
    zk.prints("counter /empty --set 8", "8\n");
    zk.prints("counter /config --set 9 --integer --force", "9\n");
    zk.prints("counter /config --integer", "9\n");
    expect_refused("counter /i --force", "--set");
    // Unread, too.
    zk.ok("create /n --acl world:anyone:w");
    zk.fails("counter /n --set 7", 1, "--force sets the number without reading it");
    zk.prints("counter /n --set 7 --force", "7\n");
}

#[test]
fn barrier_stops_a_command_until_it_is_removed() {
    let Some(zk) = zk("barriers") else { return };
    for change in ["", "--timeout 0", "--set", "--set"] {
        zk.prints(&format!("barrier /b/migration {change}"), "");
    }
    zk.prints("exists /b/migration", "true\n");
    for timeout in ["2", "0"] {
        let line = format!("barrier /b/migration --timeout {timeout}");
        zk.fails(&line, 75, "/b/migration: the barrier is still set");
    }
    let waits = zk.start("barrier /b/migration");
    zk.prints("barrier /b/migration --remove", "");
    waits.ends(0);
    zk.prints("barrier /b/migration --remove", "");
    expect_refused("barrier /b --set --remove", "--remove");
    expect_refused("barrier /b --remove --timeout 1", "--timeout");
}

/// A mistyped path must not cost other data. Curator's barriers have an address as their data.
#[test]
fn only_nodes_of_barriers_are_removed() {
    let Some(zk) = zk("barrier-remove") else { return };
    for (path, data) in [("/config", "x=1"), ("/number", "\u{1}\u{1}\u{1}\u{1}"), ("/v", "1.2.3")] {
        zk.ok(&["create", path, data]);
        let says =
            format!("{path}: not a barrier, for the node has other data; zk delete removes it");
        zk.fails(&["barrier", path, "--remove"], 1, &says);
        zk.prints(&["get", path], data);
    }
    zk.ok("--session-timeout 60 create /session --ephemeral");
    zk.fails("barrier /session --remove", 1, "the node is ephemeral");
    zk.ok("create /mix/child --parents");
    let says = "/mix: not a barrier, for the node has children";
    let ended = zk.fails("barrier /mix --remove", 1, says);
    assert!(!ended.stderr.contains("delete"), "{ended:?}");
    zk.ok("create /unread x=1 --acl world:anyone:w");
    zk.fails("barrier /unread --remove", 1, "zk delete removes it unread");
    // Newer servers reject `exists`.
    assert!(zk.ok("ls /").contains("unread\n"));
    for address in ["10.0.0.7", "fe80::1", "fe80::1%eth0", ""] {
        zk.ok(&["create", "/b", address]);
        zk.prints("barrier /b --remove", "");
        assert_eq!(zk.run("exists /b").code(), Some(1), "{address}");
    }
}
