//! Tests of the plain operations.

use zk_tests::{Scratch, Settings, Zk, own_shared_zookeeper, zookeeper_with};

use crate::screen::Screen;
use crate::{expect_refused, until, zk};

#[test]
fn created_data_can_be_read_changed_and_deleted() {
    let Some(zk) = zk("data") else { return };
    zk.prints("create /a 'grüße, world'", "/a\n");
    zk.prints("get /a", "grüße, world");
    zk.prints("set /a two", "");
    zk.prints("set /a three --version 1", "");
    zk.fails("set /a four --version 1", 1, "BadVersion");
    zk.prints("get /a", "three");
    zk.fails("delete /a --version 1", 1, "BadVersion");
    zk.prints("delete /a --version 2", "");
    zk.fails("get /a", 1, "NoNode");
    zk.prints("create /empty", "/empty\n");
    zk.prints("get /empty", "");
    zk.prints("exists /empty", "true\n");
    let ended = zk.gives("exists /none", 1, "false\n", "zk: ");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    zk.prints("create /job- --sequential", "/job-0000000002\n");
    zk.prints("create /job- x --sequential", "/job-0000000003\n");
    zk.prints("create / --sequential", "/0000000004\n");
    zk.prints("get /job-0000000003", "x");
}

#[test]
fn tree_is_created_with_parents_and_deleted_recursively() {
    let Some(zk) = zk("tree") else { return };
    zk.fails("create /a/b/c", 1, "NoNode");
    zk.prints("create /a/b/c deep --parents", "/a/b/c\n");
    zk.prints("create /a/b/d --parents", "/a/b/d\n");
    zk.prints("get /a/b/c", "deep");
    zk.fails("delete /a", 1, "NotEmpty");
    zk.prints("delete /a --recursive", "");
    zk.prints("ls /", "");
    zk.fails("delete /a --recursive", 1, "NoNode");
}

#[test]
fn stat_prints_every_field() {
    let Some(zk) = zk("stat") else { return };
    zk.ok("create /a 12345");
    zk.ok("create /a/b");
    zk.ok("set /a 123");
    let stat = zk.ok("stat /a");
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
        line.unwrap_or_else(|| panic!("no {name} in {stat}")).to_owned()
    };
    assert_eq!(stat.lines().count(), 11, "{stat}");
    let numbers = ["version", "cversion", "dataLength", "numChildren", "aversion"].map(value);
    assert_eq!(numbers, ["1", "1", "3", "1", "0"]);
    assert_eq!(value("ephemeralOwner"), "0x0");
    for name in ["czxid", "mzxid", "pzxid"] {
        assert!(value(name).starts_with("0x"), "{stat}");
    }
    for name in ["ctime", "mtime"] {
        assert!(value(name).ends_with(" ms"), "{stat}");
    }
    zk.fails("stat /none", 1, "does not exist");
}

/// Containers, nodes with a time to live, and ephemeral nodes are each removed by a different
/// mechanism.
#[test]
fn containers_ttl_and_ephemeral_nodes_are_removed() {
    let settings = Settings::default().tick_ms(250).container_check_ms(50);
    let Some(server) = zookeeper_with(&settings) else { return };
    let zk = Zk::new(server.connect_string());
    let gone = |path: &str| until(path, || zk.run(&["exists", path]).stdout == "false\n");

    zk.ok("create /keeper");
    zk.prints("create /container --container", "/container\n");
    zk.ok("create /container/child");
    zk.ok("delete /container/child");
    gone("/container");

    zk.prints("create /ttl --ttl 300", "/ttl\n");
    let numbered = zk.ok("create /ttl- x --ttl 300 --sequential");
    assert_eq!(numbered, "/ttl-0000000003\n");
    gone("/ttl");
    gone(numbered.trim());

    // A container and a node with a time to live, which the server deletes.
    let kinds = r#"{"path":"/","data":"x","acl":["world:anyone:cdrwa"]}
        {"path":"/box","data":null,"acl":["world:anyone:cdrwa"],"kind":"container"}
        {"path":"/box/a","data":null,"acl":["world:anyone:cdrwa"],"kind":"ttl","ttl_ms":50}"#;
    assert_eq!(zk.run_with("import /kinds", kinds).code(), Some(0));
    gone("/kinds/box");

    let short = zk.clone().option("--session-timeout", "0.5");
    short.prints("create /ephemeral --ephemeral", "/ephemeral\n");
    // The session outlives the command by its timeout.
    zk.prints("exists /ephemeral", "true\n");
    gone("/ephemeral");
    zk.prints("exists /keeper", "true\n");
}

#[test]
fn data_comes_from_standard_input_and_files_as_it_is() {
    let Some(zk) = zk("data-in") else { return };
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let hex: String = binary.iter().map(|byte| format!("{byte:02x}")).collect();
    let data = |path| {
        let read = zk.json(&["get", path, "--json"]);
        read["data"]["hex"].as_str().unwrap().to_owned()
    };
    let scratch = Scratch::new();
    std::fs::write(scratch.path("in"), &binary).unwrap();
    zk.ok(&["create", "/a", "--file", scratch.path("in").to_str().unwrap()]);
    assert!(data("/a") == hex, "the node differs from the file");

    zk.ok("create /b");
    assert_eq!(zk.run_with("set /b -", &binary).code(), Some(0));
    assert!(data("/b") == hex, "the node differs from the input");
    for empty in ["set /b - --allow-empty", "set /b ''"] {
        zk.ok("set /b x");
        zk.ok(empty);
        zk.prints("get /b", "");
    }

    expect_refused("set /b", "- for standard input, or --file FILE");
    expect_refused("set /b x --file y", "--file");
    zk.fails("set /b --file /nowhere/x", 1, "cannot read /nowhere/x");
}

#[test]
fn empty_input_leaves_the_node_as_it_is() {
    let Some(zk) = zk("empty-input") else { return };
    zk.ok("create /b kept");
    let copied = zk.shell("zk get /nowhere | zk set /b -").output().unwrap();
    let stderr = String::from_utf8(copied.stderr).unwrap();
    assert_eq!(copied.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("zk: standard input is empty; --allow-empty"), "{stderr}");
    let says = "/dev/null is empty; --allow-empty accepts that";
    zk.fails("set /b --file /dev/null", 1, says);
    zk.fails("create /c -", 1, "standard input is empty");
    zk.prints("get /b", "kept");
}

#[test]
fn set_creates_the_node_if_asked() {
    let Some(zk) = zk("set-create") else { return };
    zk.fails("set /a 1", 1, "NoNode (-101); zk create, or set --create");
    zk.prints("set /a 1 --create", "");
    zk.prints("set /a 2 --create", "");
    zk.prints("get /a", "2");
    let stat = zk.json("set /b '' --create --json");
    assert_eq!(stat["stat"]["version"], 0, "{stat}");
    zk.fails("set /c/d 1 --create", 1, "zk create --parents");
    expect_refused("set /a 1 --create --version 1", "--version");
}

#[test]
fn root_is_not_deleted_and_the_error_says_so() {
    let Some(server) = own_shared_zookeeper() else { return };
    let zk = Zk::new(server.connect_string());
    for delete in ["delete /", "delete / --recursive", "delete /zookeeper"] {
        zk.fails(delete, 1, "BadArguments (-8); servers delete neither the root nor");
    }
}

#[test]
fn subtree_is_listed_and_counted() {
    let Some(zk) = zk("subtree") else { return };
    for path in ["/a", "/a/b", "/a/b/c", "/a-b", "/a/ä"] {
        zk.ok(&["create", path]);
    }
    zk.prints("ls /", "a\na-b\n");
    zk.prints("ls /a", "b\nä\n");
    zk.prints("ls /a-b", "");
    zk.fails("ls /none", 1, "NoNode");
    zk.prints("ls / -R", "/\n/a\n/a/b\n/a/b/c\n/a/ä\n/a-b\n");
    zk.prints("ls /a/b --recursive", "/a/b\n/a/b/c\n");
    zk.prints("ls /a/b -R --json", "[\"/a/b\",\"/a/b/c\"]\n");
    zk.prints("count /", "5\n");
    zk.prints("count /a/b/c", "0\n");
    zk.fails("ls /nowhere -R", 1, "NoNode");
    zk.fails("count /nowhere", 1, "NoNode");
    zk.prints("sync", "");
    zk.prints("sync /a", "");
    zk.gives("config", 0, "", "it stands alone"); // and has no members
}

#[test]
fn completions_need_no_server() {
    let nowhere = Zk::new("127.0.0.2:1");
    for (shell, text) in
        [("bash", "complete -F _zk"), ("zsh", "#compdef zk"), ("fish", "complete -c zk")]
    {
        let script = nowhere.ok(&["completions", shell]);
        assert!(script.contains(text), "{shell}: {script}");
        assert!(script.contains("participants"), "{shell}");
    }
    expect_refused("completions ksh", "bash");
}

/// Any client that may create a node would else write to the terminals of other people.
#[test]
fn terminal_gets_no_control_sequences_of_a_node() {
    let Some(zk) = zk("terminal") else { return };
    let path = "/a\u{202e}b\\c";
    zk.ok(&["create", path, "x\u{1b}[2J\u{202e}\ty\n\u{9b}z"]);
    zk.prints("ls /", "a\u{202e}b\\c\n");
    let screen = Screen::start(&zk, "zk ls / && zk get $(zk find / --name a?b*) && echo ready");
    screen.shows("ready", 1);
    let printed = screen.printed().replace('\r', "");
    assert_eq!(printed, "a\\u{202e}b\\c\nx\\u{1b}[2J\\u{202e}\ty\n\\u{9b}z\nready\n");
}
