//! Tests of `zk counter` and `zk barrier`.

use serde_json::{Value, json};

use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn counter_is_read_added_to_and_set() {
    let Some(zk) = zk("counters") else { return };
    assert_eq!(zk.ok(&["counter", "/c/orders"]), "0\n");
    assert_eq!(zk.run(&["exists", "/c/orders"]).code(), Some(1), "a read creates no node");
    assert_eq!(zk.ok(&["counter", "/c/orders", "--add", "5"]), "5\n");
    assert_eq!(zk.ok(&["counter", "/c/orders", "--add", "-7"]), "-2\n");
    assert_eq!(zk.ok(&["counter", "/c/orders", "--add", "3", "--once", "a"]), "1\n");
    assert_eq!(zk.ok(&["counter", "/c/orders", "--set", "100"]), "100\n");
    assert_eq!(zk.ok(&["counter", "/c/orders", "--add", "3", "--once", "a"]), "1\n");
    assert_eq!(zk.ok(&["ls", "/c/orders"]), "operation-a\n");
    let told: Value = serde_json::from_str(&zk.ok(&["counter", "/c/orders", "--json"])).unwrap();
    assert_eq!(told, json!({ "number": 100 }));
    let again = zk.run(&["counter", "/c/orders", "--add", "4", "--once", "a"]);
    expect_failure(&again, 1, "/c/orders/operation-a: an operation with this id");
}

#[test]
fn counter_rejects_data_and_numbers_that_do_not_fit() {
    let Some(zk) = zk("short-counters") else { return };
    assert_eq!(zk.ok(&["counter", "/i", "--integer", "--add", "1"]), "1\n");
    expect_failure(&zk.run(&["counter", "/i"]), 1, "/i: 4 bytes of data are no number");
    zk.ok(&["create", "/config", "{\"limit\": 100}"]);
    for change in [&["--add", "1"][..], &["--add", "1", "--once", "a"], &["--integer"], &[]] {
        let ended = zk.run(&[&["counter", "/config"][..], change].concat());
        expect_failure(&ended, 1, "/config: 14 bytes of data are no number");
    }
    assert_eq!(zk.ok(&["get", "/config"]), "{\"limit\": 100}");
    let large = i64::from(i32::MAX) + 1;
    let large = zk.run(&["counter", "/i", "--integer", "--add", &large.to_string()]);
    expect_failure(&large, 64, "the number has 4 bytes");
    let most = i32::MAX.to_string();
    let sum = zk.run(&["counter", "/i", "--integer", "--add", &most]);
    expect_failure(&sum, 1, "out of range; the value is unchanged");
    expect_refused(&["counter", "/i", "--once", "a"], "--add");
    expect_refused(&["counter", "/i", "--add", "1", "--set", "1"], "--set");
    let id = zk.run(&["counter", "/i", "--integer", "--add", "1", "--once", "a/b"]);
    expect_failure(&id, 64, "cannot be the id");
}

/// A mistyped path must not cost other data.
#[test]
fn counter_overwrites_other_data_only_if_forced() {
    let Some(zk) = zk("counter-set") else { return };
    zk.ok(&["create", "/config", "{\"a\":1}"]);
    zk.ok(&["create", "/long", "0123456789"]);
    zk.ok(&["create", "/empty"]);
    let set = ["counter", "/config", "--set", "0", "--integer"];
    let says = "/config: the node has 7 bytes of data, and the number has 4; --force replaces them";
    expect_failure(&zk.run(&set), 1, says);
    assert_eq!(zk.ok(&["get", "/config"]), "{\"a\":1}");
    expect_failure(&zk.run(&["counter", "/long", "--set", "0"]), 1, "10 bytes of data");
    assert_eq!(zk.ok(&["counter", "/empty", "--set", "7"]), "7\n");
    assert_eq!(zk.ok(&["counter", "/empty", "--set", "8"]), "8\n");
    assert_eq!(zk.ok(&["counter", "/config", "--set", "9", "--integer", "--force"]), "9\n");
    assert_eq!(zk.ok(&["counter", "/config", "--integer"]), "9\n");
    expect_refused(&["counter", "/i", "--force"], "--set");
}

#[test]
fn counter_is_set_unread_only_if_forced() {
    let Some(zk) = zk("counter-unread") else { return };
    zk.ok(&["create", "/n", "--acl", "world:anyone:w"]);
    let says = "--force sets the number without reading it";
    expect_failure(&zk.run(&["counter", "/n", "--set", "7"]), 1, says);
    assert_eq!(zk.ok(&["counter", "/n", "--set", "7", "--force"]), "7\n");
}

#[test]
fn unreadable_node_is_not_removed_as_a_barrier() {
    let Some(zk) = zk("barrier-unread") else { return };
    zk.ok(&["create", "/b", "x=1", "--acl", "world:anyone:w"]);
    expect_failure(&zk.run(&["barrier", "/b", "--remove"]), 1, "zk delete removes it unread");
    assert_eq!(zk.ok(&["ls", "/"]), "b\n"); // newer servers reject `exists`
}

#[test]
fn node_with_children_is_not_removed_as_a_barrier() {
    let Some(zk) = zk("barrier-parent") else { return };
    zk.ok(&["create", "/mix/child", "--parents"]);
    let ended = zk.run(&["barrier", "/mix", "--remove"]);
    expect_failure(&ended, 1, "/mix: not a barrier, for the node has children");
    assert!(!ended.stderr.contains("delete"), "{ended:?}");
}

#[test]
fn barrier_stops_a_command_until_it_is_removed() {
    let Some(zk) = zk("barriers") else { return };
    assert_eq!(zk.ok(&["barrier", "/b/migration"]), "");
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--set"]), "");
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--set"]), "");
    assert_eq!(zk.ok(&["exists", "/b/migration"]), "true\n");
    let late = zk.run(&["barrier", "/b/migration", "--timeout", "2"]);
    expect_failure(&late, 75, "/b/migration: the barrier is still set");
    let waits = zk.start(&["barrier", "/b/migration"]);
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--remove"]), "");
    assert_eq!(waits.wait(LIMIT).code(), Some(0));
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--remove"]), "");
    expect_refused(&["barrier", "/b", "--set", "--remove"], "--remove");
    expect_refused(&["barrier", "/b", "--remove", "--timeout", "1"], "--timeout");
}

#[test]
fn barrier_is_tested_once_without_time() {
    let Some(zk) = zk("barrier-test") else { return };
    assert_eq!(zk.ok(&["barrier", "/b", "--timeout", "0"]), "");
    zk.ok(&["barrier", "/b", "--set"]);
    let tested = zk.run(&["barrier", "/b", "--timeout", "0"]);
    expect_failure(&tested, 75, "/b: the barrier is still set");
}

/// A mistyped path must not cost other data. Curator's barriers have an address as their data.
#[test]
fn only_nodes_of_barriers_are_removed() {
    let Some(zk) = zk("barrier-remove") else { return };
    for (path, data) in [("/config", "x=1"), ("/number", "\u{1}\u{1}\u{1}\u{1}"), ("/v", "1.2.3")] {
        zk.ok(&["create", path, data]);
        let says =
            format!("{path}: not a barrier, for the node has other data; zk delete removes it");
        expect_failure(&zk.run(&["barrier", path, "--remove"]), 1, &says);
        assert_eq!(zk.ok(&["get", path]), data);
    }
    zk.ok(&["--session-timeout", "60", "create", "/session", "--ephemeral"]);
    expect_failure(&zk.run(&["barrier", "/session", "--remove"]), 1, "the node is ephemeral");
    for address in ["10.0.0.7", "fe80::1", "fe80::1%eth0", ""] {
        zk.ok(&["create", "/b", address]);
        assert_eq!(zk.ok(&["barrier", "/b", "--remove"]), "");
        assert_eq!(zk.run(&["exists", "/b"]).code(), Some(1), "{address}");
    }
}
