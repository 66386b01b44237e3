//! Tests of `zk register`.

use zk_tests::{Running, Scratch, poll};

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
    let again = poll(LIMIT, || Some(zk.run(&["stat", "/a/b"])).filter(|it| it.code() == Some(0)));
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
    std::fs::write(file, "other text").unwrap();
    expect_failure(&zk.run(&run("third")), 1, "no session of zk register");
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
