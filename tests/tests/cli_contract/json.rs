//! Tests of `--json`, which prints one value per line.

use serde_json::{Value, json};
use zk_tests::{HOLD, Journal, Zk, poll};

use crate::{LIMIT, zk};

#[test]
fn every_operation_prints_json() {
    let Some(zk) = zk("json") else { return };
    let created = value(&zk, &["create", "/a", "text"]);
    assert_eq!(created, json!({ "path": "/a" }));
    let created = value(&zk, &["create", "/a/n-", "--sequential"]);
    assert_eq!(created, json!({ "path": "/a/n-0000000000" }));

    let got = value(&zk, &["get", "/a"]);
    assert_eq!(got["data"], "text");
    expect_stat(&got["stat"]);
    assert_eq!(got["stat"]["dataLength"], 4);
    assert_eq!(value(&zk, &["get", "/a/n-0000000000"])["data"], "");

    let set = value(&zk, &["set", "/a", "other"]);
    expect_stat(&set["stat"]);
    assert_eq!(set["stat"]["version"], 1);

    let there = value(&zk, &["exists", "/a"]);
    assert_eq!(there["exists"], true);
    expect_stat(&there["stat"]);
    let ended = zk.run(&["--json", "exists", "/none"]);
    assert_eq!(ended.code(), Some(1));
    let absent: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(absent, json!({ "exists": false, "stat": null }));

    expect_stat(&value(&zk, &["stat", "/a"]));
    assert_eq!(value(&zk, &["ls", "/a"]), json!(["n-0000000000"]));
    assert_eq!(value(&zk, &["ls", "/a/n-0000000000"]), json!([]));
    // The option is valid after the command as well as before it.
    let behind: Value = serde_json::from_str(&zk.ok(&["ls", "/", "--json"])).unwrap();
    assert_eq!(behind, json!(["a"]));
    let synced = value(&zk, &["sync", "/a"]);
    assert_eq!(synced, json!({ "path": "/a", "done": "synced" }));
    let deleted = value(&zk, &["delete", "/a", "--recursive"]);
    assert_eq!(deleted, json!({ "path": "/a", "done": "deleted", "nodes": 2 }));
    zk.ok(&["create", "/b"]);
    let deleted = value(&zk, &["delete", "/b"]);
    assert_eq!(deleted, json!({ "path": "/b", "done": "deleted", "nodes": 1 }));
    let asked = zk.ok(&["create", "/c-", "--ephemeral", "--sequential"]);
    let revoked = value(&zk, &["revoke", asked.trim()]);
    assert_eq!(revoked, json!({ "path": asked.trim(), "done": "revocation requested" }));
    for (option, what) in [("--set", "set"), ("--remove", "removed"), ("--timeout=9", "waited")] {
        let done = value(&zk, &["barrier", "/barrier", option]);
        assert_eq!(done, json!({ "path": "/barrier", "done": what }));
    }
}

#[test]
fn participants_print_json() {
    let Some(zk) = zk("json-participants") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    assert_eq!(value(&zk, &["participants", "/lock"]), json!([]));
    let _holder = zk.lock("/lock", HOLD);
    let entry = poll(LIMIT, || journal.entered().pop()).expect("nobody got in");

    let participants = value(&zk, &["participants", "/lock"]);
    let [one] = &participants.as_array().unwrap()[..] else { panic!("{participants}") };
    assert_eq!((&one["path"], &one["token"]), (&json!(entry.node), &json!(entry.token)));
    assert_eq!(one["sequence"], 0);
    assert!(one["data"].as_str().unwrap().starts_with("127.0.0.1 "), "{one}");
    assert_eq!((&one["address"], &one["name"]), (&json!("127.0.0.1"), &json!("sh")), "{one}");
    assert!(one["session"].as_str().unwrap().starts_with("0x"), "{one}");
}

/// Runs a command and parses the value that it prints on one line.
fn value(zk: &Zk, arguments: &[&str]) -> Value {
    let printed = zk.ok(&[&["--json"], arguments].concat());
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error} in {printed}"))
}

fn expect_stat(stat: &Value) {
    let numbers = [
        "czxid",
        "mzxid",
        "pzxid",
        "ctime",
        "mtime",
        "version",
        "cversion",
        "aversion",
        "dataLength",
        "numChildren",
    ];
    for name in numbers {
        assert!(stat[name].is_i64(), "{name} in {stat}");
    }
    assert_eq!(stat["ephemeralOwner"], "0x0", "{stat}");
    assert_eq!(stat.as_object().unwrap().len(), numbers.len() + 1, "{stat}");
}
