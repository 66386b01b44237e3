//! Tests of `zk register`.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use zk_tests::{Ended, Running, Scratch, Zk, poll};

use crate::{LIMIT, expect_failure, expect_refused, zk};

/// Script of a command that runs until its standard input ends.
const RUN: &str = "echo runs $ZK_NODE; exec cat";

fn expect_running(kept: &Running) {
    poll(LIMIT, || kept.stdout().contains("runs").then_some(()))
        .expect("the command does not start");
}

#[test]
fn node_exists_while_the_command_runs() {
    let Some(zk) = zk("register") else { return };
    let mut kept = zk.start(&["register", "/a/b", "data", "--", "sh", "-c", RUN]);
    expect_running(&kept);
    assert_eq!(zk.ok(&["get", "/a/b"]), "data");
    let first = zk.ok(&["stat", "/a/b"]);
    zk.ok(&["delete", "/a/b"]);
    let again =
        poll(LIMIT, || Some(zk.run(&["stat", "/a/b"])).filter(|ended| ended.code() == Some(0)));
    assert_ne!(again.expect("it is not created again").stdout, first);
    let told = || kept.stderr().ends_with("zk: /a/b: registered again\n").then_some(());
    poll(LIMIT, told).unwrap_or_else(|| panic!("{}", kept.stderr()));
    zk.ok(&["set", "/a/b", "of somebody else"]);
    assert!(!kept.has_ended(), "the command runs on");
    kept.end_input();
    let ended = kept.wait(LIMIT);
    assert_eq!((ended.code(), &*ended.stdout), (Some(0), "runs /a/b\n"), "{ended:?}");
    assert_eq!(ended.stderr.matches("again\n").count(), ended.stderr.lines().count(), "{ended:?}");
    assert_eq!(ended.stderr.matches("registered again").count(), 1, "{ended:?}");
    assert_eq!(zk.run(&["exists", "/a/b"]).code(), Some(1));
}

#[test]
fn command_gets_the_path_and_gives_the_exit_status() {
    let Some(zk) = zk("register-status") else { return };
    let ended = zk.run(&["register", "/a", "--", "sh", "-c", "echo $ZK_NODE; exit 7"]);
    assert_eq!((ended.code(), &*ended.stdout), (Some(7), "/a\n"), "{ended:?}");
    assert_eq!(zk.run(&["exists", "/a"]).code(), Some(1));
}

#[test]
fn second_registration_waits_for_the_first() {
    let Some(zk) = zk("register-twice") else { return };
    let mut first = zk.start(&["register", "/a", "first", "--", "sh", "-c", RUN]);
    expect_running(&first);
    let late = zk.run(&["register", "/a", "late", "--timeout", "0.5", "--", "true"]);
    assert_eq!(late.code(), Some(75), "{late:?}");
    assert!(late.stderr.contains("belongs to session"), "{late:?}");
    let mut second = zk.start(&["register", "/a", "second", "--", "sh", "-c", RUN]);
    poll(LIMIT, || second.stderr().contains("belongs to session").then_some(())).expect("no wait");
    assert_eq!(zk.ok(&["get", "/a"]), "first");
    first.end_input();
    assert_eq!(first.wait(LIMIT).code(), Some(0));
    expect_running(&second);
    assert_eq!(zk.ok(&["get", "/a"]), "second");
    second.end_input();
    assert_eq!(second.wait(LIMIT).code(), Some(0));
}

/// A killed run leaves its node until its session expires. The next run does not wait for that.
#[test]
fn restarted_registration_replaces_the_node_of_the_last_run() {
    let Some(zk) = zk("register-restart") else { return };
    let scratch = Scratch::new();
    let file = scratch.path("session");
    let file = file.to_str().unwrap();
    let run = |data| ["register", "/a", data, "--state-file", file, "--", "sh", "-c", RUN];
    let first = zk.start(&run("first"));
    expect_running(&first);
    let second = zk.run(&run("second"));
    expect_failure(&second, 1, "another zk register uses the file");
    first.signal("KILL");
    assert_eq!(first.wait(LIMIT).signal(), Some(9));
    let mut second = zk.start(&run("second"));
    expect_running(&second);
    assert_eq!(zk.ok(&["get", "/a"]), "second");
    assert!(!second.stderr().contains("belongs to session"), "{}", second.stderr());
    assert!(std::fs::read_to_string(file).unwrap().starts_with("0x"));
    second.end_input();
    assert_eq!(second.wait(LIMIT).code(), Some(0));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "", "the node is deleted");
}

/// Expects that the command ran, and that the first note names the file and the consequence.
fn expect_noted(ended: &Ended, file: &str, says: &str) {
    assert_eq!((ended.code(), &*ended.stdout), (Some(0), "runs /a\n"), "{ended:?}");
    let note = format!("zk: {file}: {says}");
    let is_note = |line: &str| line.starts_with(&note) && line.contains("old node");
    assert!(ended.stderr.lines().next().is_some_and(is_note), "{ended:?}");
}

#[test]
fn registration_replaces_a_damaged_state_file() {
    let Some(zk) = zk("register-damaged") else { return };
    let scratch = Scratch::new();
    let file = scratch.path("session");
    let name = file.to_str().unwrap();
    let script = format!("echo runs $ZK_NODE; cat {name} >&2");
    let damages: [&[u8]; 4] = [&[0; 19], b"0x1000\0\0\0\0", b"0x1000", b"0x1000000000000000\0"];
    for damaged in damages {
        std::fs::write(&file, damaged).unwrap();
        let ended = zk.run(&["register", "/a", "--state-file", name, "--", "sh", "-c", &script]);
        expect_noted(&ended, name, "no session of zk register");
        let stored = ended.stderr.lines().last().unwrap();
        assert!(stored.starts_with("0x") && stored.len() == 18, "{ended:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "", "the node is deleted");
    }
}

#[test]
fn registration_leaves_a_file_of_another_program_alone() {
    let Some(zk) = zk("register-foreign") else { return };
    let scratch = Scratch::new();
    let file = scratch.path("session");
    let name = file.to_str().unwrap();
    for text in ["other text", "0x1000000000000000\n1", "\u{7f}"] {
        std::fs::write(&file, text).unwrap();
        let ended = zk.run(&["register", "/a", "--state-file", name, "--", "sh", "-c", RUN]);
        expect_noted(&ended, name, "not a file of zk register");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn registration_goes_on_without_its_state_file() {
    let Some(zk) = zk("register-no-file") else { return };
    let scratch = Scratch::new();
    let file = scratch.path("missing/session");
    let name = file.to_str().unwrap();
    let ended = zk.run(&["register", "/a", "--state-file", name, "--", "sh", "-c", RUN]);
    expect_noted(&ended, name, "No such file or directory");
}

/// Another user may have put the link there.
#[test]
fn state_file_is_private_and_no_link_to_nowhere() {
    let Some(zk) = zk("register-link") else { return };
    let scratch = Scratch::new();
    let [file, link, target] = ["session", "link", "target"].map(|name| scratch.path(name));
    let run = |file: &Path| {
        zk.run(&["register", "/a", "--state-file", file.to_str().unwrap(), "--", "sh", "-c", RUN])
    };
    let ended = run(&file);
    assert_eq!((ended.code(), &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    symlink(&target, &link).unwrap();
    expect_noted(&run(&link), link.to_str().unwrap(), "File exists");
    assert!(!target.exists());
    symlink(&file, scratch.path("other")).unwrap();
    let ended = run(&scratch.path("other"));
    assert_eq!(
        (ended.code(), &*ended.stderr),
        (Some(0), ""),
        "a link to the file is one name of it"
    );
}

/// The limit on the length of files stands for a full disk.
#[test]
fn registration_goes_on_if_its_session_cannot_be_stored() {
    let Some(zk) = zk("register-full") else { return };
    let scratch = Scratch::new();
    let file = scratch.path("session");
    let name = file.to_str().unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec zk register /a --state-file {name} -- sh -c 'echo runs $ZK_NODE'"
    );
    let ended = zk.shell(&script).output().unwrap();
    let [stdout, stderr] =
        [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let ended = Ended { status: ended.status, stdout, stderr };
    expect_noted(&ended, name, "File too large");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}

#[test]
fn state_file_is_not_a_folder() {
    let scratch = Scratch::new();
    let folder = scratch.path("");
    let name = folder.to_str().unwrap();
    let zk = Zk::new("127.0.0.2:1");
    let ended = zk.run(&["register", "/a", "--state-file", name, "--", "true"]);
    expect_failure(&ended, 1, "Is a directory");
}

#[test]
fn rejected_registration_fails_at_once() {
    let Some(zk) = zk("register-rejected") else { return };
    zk.ok(&["create", "/p", "--acl", "world:anyone:r"]);
    expect_failure(&zk.run(&["register", "/p/a", "--", "true"]), 1, "NoAuth");
}

#[test]
fn register_needs_a_path_and_a_command() {
    expect_refused(&["register", "/e"], "the command goes after --");
    expect_refused(&["register", "e", "--", "true"], "path");
}
