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
    expect_failure(&zk.run(&["counter", "/i"]), 1, "/i: 4 bytes of data are too few");
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

#[test]
fn barrier_stops_a_command_until_it_is_removed() {
    let Some(zk) = zk("barriers") else { return };
    assert_eq!(zk.ok(&["barrier", "/b/migration"]), "");
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--set"]), "");
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--set"]), "");
    assert_eq!(zk.ok(&["exists", "/b/migration"]), "true\n");
    let late = zk.run(&["barrier", "/b/migration", "--timeout", "0.2"]);
    expect_failure(&late, 75, "/b/migration: the barrier is still set");
    let waits = zk.start(&["barrier", "/b/migration"]);
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--remove"]), "");
    assert_eq!(waits.wait(LIMIT).code(), Some(0));
    assert_eq!(zk.ok(&["barrier", "/b/migration", "--remove"]), "");
    expect_refused(&["barrier", "/b", "--set", "--remove"], "--remove");
    expect_refused(&["barrier", "/b", "--remove", "--timeout", "1"], "--timeout");
}
