//! Tests of `zk register`.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use zk_tests::{Ended, Scratch, Zk, poll};

use crate::{LIMIT, expect_refused, zk};

/// Script of a command that runs until its standard input ends.
const RUN: &str = "echo runs $ZK_NODE; exec cat";

#[test]
fn node_exists_while_the_command_runs() {
    let Some(zk) = zk("register") else { return };
    let mut kept = zk.script("register /a/b data", RUN, "runs");
    zk.prints("get /a/b", "data");
    let first = zk.ok("stat /a/b");
    zk.ok("delete /a/b");
    let again = poll(LIMIT, || Some(zk.run("stat /a/b")).filter(|ended| ended.code() == Some(0)));
    assert_ne!(again.expect("it is not created again").stdout, first);
    kept.notes("zk: /a/b: registered again\n");
    zk.ok("set /a/b 'of somebody else'");
    assert!(!kept.has_ended(), "the command runs on");
    let ended = kept.finish();
    assert_eq!(ended.stdout, "runs /a/b\n");
    assert_eq!(ended.stderr.matches("again\n").count(), ended.stderr.lines().count(), "{ended:?}");
    assert_eq!(ended.stderr.matches("registered again").count(), 1, "{ended:?}");
    assert_eq!(zk.run("exists /a/b").code(), Some(1));

    zk.gives("register /a/b -- sh -c 'echo $ZK_NODE; exit 7'", 7, "/a/b\n", "");
    assert_eq!(zk.run("exists /a/b").code(), Some(1));
    zk.ok("create /p --acl world:anyone:r");
    zk.fails("register /p/a -- true", 1, "NoAuth");
    expect_refused("register /e", "the command goes after --");
    expect_refused("register e -- true", "path");
}

#[test]
fn second_registration_waits_for_the_first() {
    let Some(zk) = zk("register-twice") else { return };
    let first = zk.script("register /a first", RUN, "runs");
    zk.gives("register /a late --timeout 0.5 -- true", 75, "", "belongs to session");
    let second = zk.start(&["register", "/a", "second", "--", "sh", "-c", RUN]);
    second.notes("belongs to session");
    zk.prints("get /a", "first");
    first.finish();
    second.says("runs");
    zk.prints("get /a", "second");
    second.finish();
}

/// The file of a registration, in a folder of its own.
struct StateFile {
    scratch: Scratch,
    path: String,
}

impl StateFile {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new();
        Self { path: scratch.path(name).display().to_string(), scratch }
    }

    /// Runs a registration with this file.
    fn run(&self, zk: &Zk, script: &str) -> Ended {
        zk.run(&["register", "/a", "--state-file", &self.path, "--", "sh", "-c", script])
    }

    fn read(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    /// Expects that the command ran, and that the first note names the file and the consequence.
    fn expect_noted(&self, ended: &Ended, says: &str) {
        assert_eq!((ended.code(), &*ended.stdout), (Some(0), "runs /a\n"), "{ended:?}");
        let note = format!("zk: {}: {says}", self.path);
        let is_note = |line: &str| line.starts_with(&note) && line.contains("old node");
        assert!(ended.stderr.lines().next().is_some_and(is_note), "{ended:?}");
    }
}

/// A killed run leaves its node until its session expires. The next run does not wait for that.
#[test]
fn restarted_registration_replaces_the_node_of_the_last_run() {
    let Some(zk) = zk("register-restart") else { return };
    let file = StateFile::new("session");
    let line = |data: &str| format!("register /a {data} --state-file {}", file.path);
    let first = zk.script(&line("first"), RUN, "runs");
    let says = "another zk register uses the file";
    zk.fails(&format!("{} -- true", line("second")), 1, says);
    first.signal("KILL");
    assert_eq!(first.wait(LIMIT).signal(), Some(9));
    let second = zk.script(&line("second"), RUN, "runs");
    zk.prints("get /a", "second");
    assert!(!second.stderr().contains("belongs to session"), "{second}");
    assert!(file.read().starts_with("0x"));
    second.finish();
    assert_eq!(file.read(), "", "the node is deleted");
}

#[test]
fn registration_replaces_a_damaged_state_file_of_its_own_only() {
    let Some(zk) = zk("register-damaged") else { return };
    let file = StateFile::new("session");
    let script = format!("echo runs $ZK_NODE; cat {} >&2", file.path);
    let damages: [&[u8]; 4] = [&[0; 19], b"0x1000\0\0\0\0", b"0x1000", b"0x1000000000000000\0"];
    for damaged in damages {
        std::fs::write(&file.path, damaged).unwrap();
        let ended = file.run(&zk, &script);
        file.expect_noted(&ended, "no session of zk register");
        let stored = ended.stderr.lines().last().unwrap();
        assert!(stored.starts_with("0x") && stored.len() == 18, "{ended:?}");
        assert_eq!(file.read(), "", "the node is deleted");
    }
    for text in ["other text", "0x1000000000000000\n1", "\u{7f}"] {
        std::fs::write(&file.path, text).unwrap();
        file.expect_noted(&file.run(&zk, RUN), "not a file of zk register");
        assert_eq!(file.read(), text);
    }
}

#[test]
fn registration_goes_on_without_its_state_file() {
    let Some(zk) = zk("register-no-file") else { return };
    let missing = StateFile::new("missing/session");
    missing.expect_noted(&missing.run(&zk, RUN), "No such file or directory");
    // The limit on the length of files stands for a full disk.
    let file = StateFile::new("session");
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; \
         exec zk register /a --state-file {} -- sh -c 'echo runs $ZK_NODE'",
        file.path
    );
    let ended = zk.shell(&script).output().unwrap();
    let [stdout, stderr] =
        [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    file.expect_noted(&Ended { status: ended.status, stdout, stderr }, "File too large");
    assert_eq!(file.read(), "");
    let folder = StateFile::new("");
    folder.run(&Zk::new("127.0.0.2:1"), RUN).expect_failure(1, "Is a directory");
}

/// Another user may have put the link there.
#[test]
fn state_file_is_private_and_no_link_to_nowhere() {
    let Some(zk) = zk("register-link") else { return };
    let file = StateFile::new("session");
    file.run(&zk, RUN).expect(0, "runs /a\n", "");
    assert_eq!(Path::new(&file.path).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let link = StateFile::new("link");
    let target = link.scratch.path("target");
    symlink(&target, &link.path).unwrap();
    link.expect_noted(&link.run(&zk, RUN), "File exists");
    assert!(!target.exists());
    // A link to the file is one name of it.
    let other = StateFile::new("other");
    symlink(&file.path, &other.path).unwrap();
    other.run(&zk, RUN).expect(0, "runs /a\n", "");
}
