//! Tests of `--json`, which prints one value per line.

use serde_json::{Value, json};
use zk_tests::{HOLD, Journal, Zk, poll};

use crate::{LIMIT, zk};

#[test]
fn every_operation_prints_json() {
    let Some(zk) = zk("json") else { return };
    let done = |path: &str, done: &str| json!({ "path": path, "done": done });
    let deleted = |path: &str, nodes| json!({ "path": path, "done": "deleted", "nodes": nodes });
    for (line, expected) in [
        ("create /a text", json!({ "path": "/a" })),
        ("create /a/n- --sequential", json!({ "path": "/a/n-0000000000" })),
        ("get /a", json!({ "data": "text", "dataLength": 4 })),
        ("get /a/n-0000000000", json!({ "data": "", "dataLength": 0 })),
        ("set /a other", json!({ "version": 1 })),
        ("exists /a", json!({ "exists": true, "dataLength": 5 })),
        ("stat /a", json!({ "version": 1 })),
        ("ls /a", json!(["n-0000000000"])),
        ("ls /a/n-0000000000", json!([])),
        ("ls /", json!(["a"])),
        ("sync /a", done("/a", "synced")),
        ("delete /a --recursive", deleted("/a", 2)),
        ("create /b", json!({ "path": "/b" })),
        ("delete /b", deleted("/b", 1)),
        ("create /c- --ephemeral --sequential", json!({ "path": "/c-0000000002" })),
        ("revoke /c-0000000002", done("/c-0000000002", "revocation requested")),
        ("barrier /barrier --set", done("/barrier", "set")),
        ("barrier /barrier --remove", done("/barrier", "removed")),
        ("barrier /barrier --timeout=9", done("/barrier", "waited")),
    ] {
        let mut printed = value(&zk, line);
        // `zk stat` prints the fields of a stat, and others an object in which they are.
        let stat = match printed.as_object_mut() {
            Some(object) if object.contains_key("czxid") => Some(printed.take()),
            Some(object) => object.remove("stat"),
            None => None,
        };
        if let Some(stat) = stat {
            expect_stat(&stat);
            let all = expected.as_object().unwrap();
            for (name, expected) in all {
                let found = stat.get(name).unwrap_or_else(|| &printed[name]);
                assert_eq!(found, expected, "{line}: {name}");
            }
        } else {
            assert_eq!(printed, expected, "{line}");
        }
    }
    // The option is valid after the command as well as before it.
    assert_eq!(zk.json("ls / --json"), value(&zk, "ls /"));
    let absent = zk.run("--json exists /none");
    let printed = "{\"exists\":false,\"stat\":null}\n";
    assert_eq!((absent.code(), &*absent.stdout), (Some(1), printed), "{absent:?}");
}

#[test]
fn participants_print_json() {
    let Some(zk) = zk("json-participants") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    assert_eq!(value(&zk, "participants /lock"), json!([]));
    let _holder = zk.lock("/lock", HOLD);
    let entry = poll(LIMIT, || journal.entered().pop()).expect("nobody got in");

    let participants = value(&zk, "participants /lock");
    let [one] = &participants.as_array().unwrap()[..] else { panic!("{participants}") };
    assert_eq!((&one["path"], &one["token"]), (&json!(entry.node), &json!(entry.token)));
    assert_eq!(one["sequence"], 0);
    assert!(one["data"].as_str().unwrap().starts_with("127.0.0.1 "), "{one}");
    assert_eq!((&one["address"], &one["name"]), (&json!("127.0.0.1"), &json!("sh")), "{one}");
    assert!(one["session"].as_str().unwrap().starts_with("0x"), "{one}");
}

/// Runs a command and parses the value that it prints on one line.
fn value(zk: &Zk, line: &str) -> Value {
    let printed = zk.ok(&format!("--json {line}"));
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error} in {printed}"))
}

fn expect_stat(stat: &Value) {
    let numbers = "czxid mzxid pzxid ctime mtime version cversion aversion dataLength numChildren";
    let numbers: Vec<&str> = numbers.split(' ').collect();
    for name in &numbers {
        assert!(stat[*name].is_i64(), "{name} in {stat}");
    }
    assert_eq!(stat["ephemeralOwner"], "0x0", "{stat}");
    assert_eq!(stat.as_object().unwrap().len(), numbers.len() + 1, "{stat}");
}
