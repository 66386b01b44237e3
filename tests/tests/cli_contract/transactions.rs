//! Tests of `zk txn`.

use serde_json::{Value, json};

use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn transaction_is_applied_whole_or_not_at_all() {
    let Some(zk) = zk("txn") else { return };
    zk.ok(&["create", "/a", "0"]);
    let done = zk.ok(&["txn", "check /a 0", "set /a one two", "create /b x", "delete /b"]);
    assert_eq!(done, "checked /a\nset /a\ncreated /b\ndeleted /b\n");
    assert_eq!(zk.ok(&["get", "/a"]), "one two");
    let failed = zk.run(&["txn", "set /a lost", "check /a 0"]);
    expect_failure(&failed, 1, "BadVersion");
    assert_eq!(zk.ok(&["get", "/a"]), "one two");

    let mut input = zk.start(&["txn", "--json"]);
    input.give(b"create /c\n\nset /c 3\n");
    input.end_input();
    let ended = input.wait(LIMIT);
    let done: Value = serde_json::from_str(&ended.stdout).unwrap();
    let expected = [("created", "/c"), ("set", "/c")]
        .map(|(done, path)| json!({ "done": done, "path": path }));
    assert_eq!(done, json!(expected));
    expect_refused(&["txn"], "--help");
    expect_refused(&["txn", "move /a /b"], "create, set, delete or check");
}
