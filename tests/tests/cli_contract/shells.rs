//! Tests of pipes, JSON errors, hints, manual pages and `--retry`.

use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};
use zk_tests::{Scratch, Zk, own_shared_zookeeper};

use crate::{LIMIT, expect_refused, zk};

#[test]
fn closed_pipe_ends_a_command_without_a_word() {
    let Some(zk) = zk("pipes") else { return };
    zk.ok("create /a");
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    for (command, code) in [
        ("zk ls -R /", 141),
        ("zk export / 2>/dev/null", 141),
        ("zk doctor", 141),
        ("zk --help", 0),
        ("zk --verbose get / 2>&1 >/dev/null", 0),
    ] {
        let ended = zk.shell(command).stdout(closed()).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.as_str()), (Some(code), ""), "{command}");
    }
}

#[test]
fn errors_are_json_if_asked_for() {
    let Some(zk) = zk("json-errors") else { return };
    let error = |line: &str| -> Value {
        let ended = zk.run(line);
        let said: Value = serde_json::from_str(&ended.stderr).unwrap();
        assert_eq!((ended.code(), ended.stdout.as_str()), (said["status"].as_i64().map(code), ""));
        said
    };
    assert_eq!(
        error("get /nowhere --json"),
        json!({
            "error": "getData /nowhere: NoNode (-101)",
            "status": 1,
            "code": "NoNode",
            "may_be_applied": false,
        })
    );
    let usage = error("--json frobnicate");
    assert_eq!((&usage["status"], &usage["code"]), (&json!(64), &Value::Null));
    assert!(usage["error"].as_str().unwrap().contains("--help"), "{usage}");
    // Arguments after -- belong to the command.
    zk.fails("lock l -- echo --json", 64, "path");
}

#[test]
fn notes_are_json_if_asked_for() {
    let Some(zk) = zk("json-notes") else { return };
    zk.ok("create /a");
    let json = zk.flag("--json");
    let notes = |line: &str| -> Vec<Value> {
        let ended = json.run(line);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        ended.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(
        notes("participants /x"),
        [json!({ "note": "/x does not exist: nobody holds a lock there, or waits for one" })]
    );
    let verbose = notes("--verbose lock /a -- true");
    let told = |text| verbose.iter().any(|line| line["note"].as_str().unwrap().starts_with(text));
    assert!(told("session 0x") && told("acquired /a/"), "{verbose:?}");
}

fn code(status: i64) -> i32 {
    i32::try_from(status).unwrap()
}

#[test]
fn usual_slips_get_a_hint() {
    let Some(zk) = zk("slips") else { return };
    zk.ok("create /a");
    zk.ok("create /a/b");
    zk.fails("create /x/y", 1, "--parents");
    zk.fails("delete /a", 1, "--recursive");
    expect_refused("lock /l ./backup.sh", "the command goes after --");
    expect_refused("rm /a", "it is zk delete");
    let others = zk.run("get /a lock");
    assert!(!others.stderr.contains("--, as in"), "{others:?}");
    let bytes = zk.shell("zk lock /a $'\\xff'").output().unwrap();
    assert_eq!(bytes.status.code(), Some(64), "{bytes:?}");
    expect_refused("lokc /a -- true", "'lock'");
    expect_refused("ls / --recusive", "'--recursive'");
}

#[test]
fn manual_pages_need_no_server() {
    let nowhere = Zk::new("127.0.0.2:1");
    assert!(nowhere.ok("man").contains(".TH zk 1"), "the page of zk");
    let lock = nowhere.ok("man lock");
    assert!(lock.contains("zk\\-lock") && lock.contains("ZK_FENCING_TOKEN"), "{lock}");
    let folder = Scratch::new();
    nowhere.ok(&["man", "--dir", folder.path(".").to_str().unwrap()]);
    assert_eq!(folder.read("zk-lock.1"), lock);
    assert!(folder.read("zk.1").contains(".TH zk 1"));
    expect_refused("man frobnicate", "no command is `frobnicate`");
}

#[test]
fn retry_waits_for_an_ensemble_that_starts() {
    let Some(server) = own_shared_zookeeper() else { return };
    // Nobody else gets this port, and connections to the other address are refused.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("127.0.0.2:{}", taken.local_addr().unwrap().port());
    let zk = Zk::new(&address);
    let mut waiting = zk.start("--retry 60 exists /");
    // The command that gives up begins later, and ends first.
    zk.fails("exists /", 69, &address);
    zk.fails("--retry 0.1 exists /", 69, &address);
    assert!(!waiting.has_ended(), "{}", waiting.stderr());
    let listener = TcpListener::bind(&address).unwrap();
    let to = server.connect_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
            }
        }
    });
    let ended = waiting.wait(LIMIT);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "true\n"), "{ended:?}");
    expect_refused("--retry 0 ls /", "above 0");
}
