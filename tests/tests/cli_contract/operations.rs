//! Tests of the plain operations.

use serde_json::Value;
use zk_testing::TestServer;
use zk_tests::{Scratch, Settings, Zk, own_shared_zookeeper, poll, zookeeper_with};

use crate::screen::Screen;
use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn created_data_can_be_read_changed_and_deleted() {
    let Some(zk) = zk("data") else { return };
    assert_eq!(zk.ok(&["create", "/a", "grüße, world"]), "/a\n");
    assert_eq!(zk.ok(&["get", "/a"]), "grüße, world", "as it is, without a new line");
    assert_eq!(zk.ok(&["set", "/a", "two"]), "");
    assert_eq!(zk.ok(&["set", "/a", "three", "--version", "1"]), "");
    expect_failure(&zk.run(&["set", "/a", "four", "--version", "1"]), 1, "BadVersion");
    assert_eq!(zk.ok(&["get", "/a"]), "three");
    expect_failure(&zk.run(&["delete", "/a", "--version", "1"]), 1, "BadVersion");
    assert_eq!(zk.ok(&["delete", "/a", "--version", "2"]), "");
    expect_failure(&zk.run(&["get", "/a"]), 1, "NoNode");
    assert_eq!(zk.ok(&["create", "/empty"]), "/empty\n");
    assert_eq!(zk.ok(&["get", "/empty"]), "");
}

#[test]
fn tree_is_created_with_parents_and_deleted_recursively() {
    let Some(zk) = zk("tree") else { return };
    expect_failure(&zk.run(&["create", "/a/b/c"]), 1, "NoNode");
    assert_eq!(zk.ok(&["create", "/a/b/c", "deep", "--parents"]), "/a/b/c\n");
    assert_eq!(zk.ok(&["create", "/a/b/d", "--parents"]), "/a/b/d\n");
    assert_eq!(zk.ok(&["get", "/a/b/c"]), "deep");
    expect_failure(&zk.run(&["delete", "/a"]), 1, "NotEmpty");
    assert_eq!(zk.ok(&["delete", "/a", "--recursive"]), "");
    assert_eq!(zk.ok(&["ls", "/"]), "");
    expect_failure(&zk.run(&["delete", "/a", "--recursive"]), 1, "NoNode");
}

#[test]
fn names_are_listed_in_order() {
    let Some(zk) = zk("names") else { return };
    for name in ["/b", "/c", "/a"] {
        zk.ok(&["create", name]);
    }
    assert_eq!(zk.ok(&["ls", "/"]), "a\nb\nc\n");
    assert_eq!(zk.ok(&["ls", "/a"]), "");
    expect_failure(&zk.run(&["ls", "/none"]), 1, "NoNode");
}

#[test]
fn exists_prints_result_and_sets_exit_status() {
    let Some(zk) = zk("existence") else { return };
    zk.ok(&["create", "/a"]);
    assert_eq!(zk.ok(&["exists", "/a"]), "true\n");
    let ended = zk.run(&["exists", "/none"]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(1), "false\n"), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}

#[test]
fn stat_prints_every_field() {
    let Some(zk) = zk("stat") else { return };
    zk.ok(&["create", "/a", "12345"]);
    zk.ok(&["create", "/a/b"]);
    zk.ok(&["set", "/a", "123"]);
    let stat = zk.ok(&["stat", "/a"]);
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
        line.unwrap_or_else(|| panic!("no {name} in {stat}")).to_owned()
    };
    assert_eq!(stat.lines().count(), 11, "{stat}");
    assert_eq!((value("version"), value("cversion")), ("1".to_owned(), "1".to_owned()));
    assert_eq!((value("dataLength"), value("numChildren")), ("3".to_owned(), "1".to_owned()));
    assert_eq!((value("aversion"), value("ephemeralOwner")), ("0".to_owned(), "0x0".to_owned()));
    for name in ["czxid", "mzxid", "pzxid"] {
        assert!(value(name).starts_with("0x"), "{stat}");
    }
    for name in ["ctime", "mtime"] {
        assert!(value(name).ends_with(" ms"), "{stat}");
    }
    expect_failure(&zk.run(&["stat", "/none"]), 1, "does not exist");
}

#[test]
fn sequential_nodes_are_numbered() {
    let Some(zk) = zk("sequential") else { return };
    assert_eq!(zk.ok(&["create", "/job-", "--sequential"]), "/job-0000000000\n");
    assert_eq!(zk.ok(&["create", "/job-", "x", "--sequential"]), "/job-0000000001\n");
    assert_eq!(zk.ok(&["create", "/", "--sequential"]), "/0000000002\n");
    assert_eq!(zk.ok(&["get", "/job-0000000001"]), "x");
}

/// Containers, nodes with a time to live, and ephemeral nodes are each removed by a different
/// mechanism.
#[test]
fn containers_ttl_and_ephemeral_nodes_are_removed() {
    let settings = Settings::default().tick_ms(250).container_check_ms(50);
    let Some(server) = zookeeper_with(&settings) else { return };
    let zk = Zk::new(server.connect_string());
    let gone = |path: &str| {
        let went = poll(LIMIT, || (zk.run(&["exists", path]).stdout == "false\n").then_some(()));
        went.unwrap_or_else(|| panic!("{path} is still there"));
    };

    zk.ok(&["create", "/keeper"]);
    assert_eq!(zk.ok(&["create", "/container", "--container"]), "/container\n");
    zk.ok(&["create", "/container/child"]);
    zk.ok(&["delete", "/container/child"]);
    gone("/container");

    assert_eq!(zk.ok(&["create", "/ttl", "--ttl", "300"]), "/ttl\n");
    let numbered = zk.ok(&["create", "/ttl-", "x", "--ttl", "300", "--sequential"]);
    assert_eq!(numbered, "/ttl-0000000003\n");
    gone("/ttl");
    gone(numbered.trim());

    // A container and a node with a time to live, which the server deletes.
    let kinds = r#"{"path":"/","data":"x","acl":["world:anyone:cdrwa"]}
        {"path":"/box","data":null,"acl":["world:anyone:cdrwa"],"kind":"container"}
        {"path":"/box/a","data":null,"acl":["world:anyone:cdrwa"],"kind":"ttl","ttl_ms":50}"#;
    let mut running = zk.start(&["import", "/kinds"]);
    running.give(kinds.as_bytes());
    running.end_input();
    assert_eq!(running.wait(LIMIT).code(), Some(0));
    gone("/kinds/box");

    let short = zk.clone().option("--session-timeout", "0.5");
    assert_eq!(short.ok(&["create", "/ephemeral", "--ephemeral"]), "/ephemeral\n");
    // The session outlives the command by its timeout.
    assert_eq!(zk.ok(&["exists", "/ephemeral"]), "true\n");
    gone("/ephemeral");
    assert_eq!(zk.ok(&["exists", "/keeper"]), "true\n");
}

#[test]
fn data_comes_from_standard_input_and_files_as_it_is() {
    let Some(zk) = zk("data-in") else { return };
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let hex: String = binary.iter().map(|byte| format!("{byte:02x}")).collect();
    let data = |path| {
        let read: Value = serde_json::from_str(&zk.ok(&["get", path, "--json"])).unwrap();
        read["data"]["hex"].as_str().unwrap().to_owned()
    };
    let scratch = Scratch::new();
    std::fs::write(scratch.path("in"), &binary).unwrap();
    zk.ok(&["create", "/a", "--file", scratch.path("in").to_str().unwrap()]);
    assert!(data("/a") == hex, "the node differs from the file");

    zk.ok(&["create", "/b"]);
    let mut set = zk.start(&["set", "/b", "-"]);
    set.give(&binary);
    set.end_input();
    assert_eq!(set.wait(LIMIT).code(), Some(0));
    assert!(data("/b") == hex, "the node differs from the input");
    for empty in [&["set", "/b", "-", "--allow-empty"][..], &["set", "/b", ""]] {
        zk.ok(&["set", "/b", "x"]);
        zk.ok(empty);
        assert_eq!(zk.ok(&["get", "/b"]), "", "{empty:?}");
    }

    expect_refused(&["set", "/b"], "- for standard input, or --file FILE");
    expect_refused(&["set", "/b", "x", "--file", "y"], "--file");
    let missing = zk.run(&["set", "/b", "--file", "/nowhere/x"]);
    expect_failure(&missing, 1, "cannot read /nowhere/x");
}

#[test]
fn empty_input_leaves_the_node_as_it_is() {
    let Some(zk) = zk("empty-input") else { return };
    zk.ok(&["create", "/b", "kept"]);
    let copied = zk.shell("zk get /nowhere | zk set /b -").output().unwrap();
    let stderr = String::from_utf8(copied.stderr).unwrap();
    assert_eq!(copied.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("zk: standard input is empty; --allow-empty"), "{stderr}");
    let nothing = ["set", "/b", "--file", "/dev/null"];
    expect_failure(&zk.run(&nothing), 1, "/dev/null is empty; --allow-empty accepts that");
    expect_failure(&zk.run(&["create", "/c", "-"]), 1, "standard input is empty");
    assert_eq!(zk.ok(&["get", "/b"]), "kept");
}

#[test]
fn set_creates_the_node_if_asked() {
    let Some(zk) = zk("set-create") else { return };
    expect_failure(&zk.run(&["set", "/a", "1"]), 1, "NoNode (-101); zk create, or set --create");
    assert_eq!(zk.ok(&["set", "/a", "1", "--create"]), "");
    assert_eq!(zk.ok(&["set", "/a", "2", "--create"]), "");
    assert_eq!(zk.ok(&["get", "/a"]), "2");
    let stat: Value =
        serde_json::from_str(&zk.ok(&["set", "/b", "", "--create", "--json"])).unwrap();
    assert_eq!(stat["stat"]["version"], 0, "{stat}");
    expect_failure(&zk.run(&["set", "/c/d", "1", "--create"]), 1, "zk create --parents");
    expect_refused(&["set", "/a", "1", "--create", "--version", "1"], "--version");
}

#[test]
fn missing_chroot_is_named() {
    let Some(zk) = zk("chroot-missing") else { return };
    let zk = zk.chroot("/nowhere");
    let create = zk.run(&["create", "/x", "--parents"]);
    let says = "the chroot of --connect does not exist; --create-chroot creates it";
    expect_failure(&create, 1, says);
    for command in ["get", "ls", "count", "getacl"] {
        expect_failure(&zk.run(&[command, "/"]), 1, "the chroot of --connect does not exist");
    }
    expect_failure(&zk.run(&["stat", "/"]), 1, "/: the chroot of --connect does not exist");
    let commands: &[&[&str]] = &[
        &["lock", "/l", "--", "true"],
        &["barrier", "/b"],
        &["counter", "/c"],
        &["sync", "/"],
        &["participants", "/l"],
        &["watch", "/x"],
        &["delete", "/x"],
        &["set", "/x", "1"],
        &["discover", "s"],
        &["exists", "/x"],
    ];
    for command in commands {
        expect_failure(&zk.run(command), 1, says);
    }
    assert_eq!(zk.ok(&["--create-chroot", "lock", "/l", "--", "echo", "in"]), "in\n");
}

#[test]
fn root_is_not_deleted_and_the_error_says_so() {
    let Some(server) = own_shared_zookeeper() else { return };
    let zk = Zk::new(server.connect_string());
    for delete in [&["delete", "/"][..], &["delete", "/", "--recursive"], &["delete", "/zookeeper"]]
    {
        expect_failure(
            &zk.run(delete),
            1,
            "BadArguments (-8); servers delete neither the root nor",
        );
    }
}

#[test]
fn import_without_a_parent_names_it() {
    let Some(zk) = zk("import-parent") else { return };
    let mut import = zk.start(&["import", "/a/b"]);
    import.give(b"{\"path\":\"/\",\"data\":null,\"acl\":[\"world:anyone:cdrwa\"]}\n");
    import.end_input();
    let hint = "/a does not exist, and no earlier line creates it; zk create --parents does";
    expect_failure(&import.wait(LIMIT), 1, &format!("NoNode (-101); {hint}"));
}

#[test]
fn import_of_other_text_names_the_format() {
    let Some(zk) = zk("import-text") else { return };
    let mut import = zk.start(&["import", "/a"]);
    import.give(b"path=/a\n");
    import.end_input();
    expect_failure(&import.wait(LIMIT), 1, "line 1: not JSON as zk export writes it: ");
}

#[test]
fn subtree_is_listed_and_counted() {
    let Some(zk) = zk("subtree") else { return };
    for path in ["/a", "/a/b", "/a/b/c", "/a-b", "/a/ä"] {
        zk.ok(&["create", path]);
    }
    assert_eq!(zk.ok(&["ls", "/", "-R"]), "/\n/a\n/a/b\n/a/b/c\n/a/ä\n/a-b\n");
    assert_eq!(zk.ok(&["ls", "/a/b", "--recursive"]), "/a/b\n/a/b/c\n");
    assert_eq!(zk.ok(&["ls", "/a/b", "-R", "--json"]), "[\"/a/b\",\"/a/b/c\"]\n");
    assert_eq!(zk.ok(&["count", "/"]), "5\n");
    assert_eq!(zk.ok(&["count", "/a/b/c"]), "0\n");
    expect_failure(&zk.run(&["ls", "/nowhere", "-R"]), 1, "NoNode");
    expect_failure(&zk.run(&["count", "/nowhere"]), 1, "NoNode");
    assert_eq!(zk.ok(&["sync"]), "");
    assert_eq!(zk.ok(&["sync", "/a"]), "");
    let alone = zk.run(&["config"]);
    assert_eq!((alone.code(), &*alone.stdout), (Some(0), ""), "a standalone server has no members");
    assert!(alone.stderr.contains("it stands alone"), "{alone:?}");
}

#[test]
fn exported_nodes_are_imported_as_they_were() {
    let Some(zk) = zk("export") else { return };
    zk.ok(&["create", "/from", "grüße"]);
    zk.ok(&["create", "/from/a", "x", "--acl", "world:anyone:cdrwa", "--acl", "ip:127.0.0.1:r"]);
    zk.ok(&["create", "/from/a/b"]);
    zk.ok(&["create", "/from/box"]);
    zk.ok(&["create", "/from/gone", "--ephemeral"]);
    let mut set = zk.start(&["set", "/from/a/b", "-"]);
    set.give(&[0, 159, 146, 150]);
    set.end_input();
    assert_eq!(set.wait(LIMIT).code(), Some(0));
    let exported = zk.run(&["export", "/from"]);
    assert_eq!(exported.code(), Some(0), "{exported:?}");
    assert_eq!(exported.stderr, "zk: 1 ephemeral node is left out\n");
    let (nodes, last) = exported.stdout.trim_end().rsplit_once('\n').unwrap();
    assert_eq!((nodes.lines().count(), last), (4, "{\"nodes\":4}"), "{exported:?}");

    let import = |lines: &str, options: &[&str]| {
        let mut running = zk.start(&[&["import", "/to"], options].concat());
        running.give(lines.as_bytes());
        running.end_input();
        running.wait(LIMIT)
    };
    // Half of it first, as if interrupted, and then all.
    let half: Vec<&str> = exported.stdout.lines().take(2).collect();
    assert_eq!(import(&half.join("\n"), &[]).code(), Some(0));
    let whole = import(&exported.stdout, &[]);
    let told = "4 nodes imported, 2 of which existed\n";
    assert_eq!((whole.code(), whole.stdout.as_str()), (Some(0), told), "{whole:?}");
    assert_eq!(zk.ok(&["export", "/to"]), exported.stdout);
    assert_eq!(zk.ok(&["getacl", "/to/a"]), "world:anyone:cdrwa\nip:127.0.0.1:r\n");

    zk.ok(&["set", "/to", "mine"]);
    expect_failure(&import(&exported.stdout, &[]), 1, "line 1: /to exists with other data");
    assert_eq!(import(&exported.stdout, &["--overwrite"]).code(), Some(0));
    assert_eq!(zk.ok(&["get", "/to"]), "grüße");

    expect_failure(&import("\n", &[]), 1, "standard input has no node");
    expect_failure(&import("\n{}", &[]), 1, "line 2: no text `path`");
    expect_failure(&zk.run(&["export", "/nowhere"]), 1, "NoNode");
}

#[test]
fn export_escapes_control_characters() {
    let Some(zk) = zk("export-controls") else { return };
    let data = "\u{7f}\u{9b}2J\u{1b}[2J";
    zk.ok(&["create", "/a", data]);
    let exported = zk.ok(&["export", "/a"]);
    assert!(exported.lines().flat_map(str::chars).all(|char| !char.is_control()), "{exported:?}");
    let mut import = zk.start(&["import", "/b"]);
    import.give(exported.as_bytes());
    import.end_input();
    assert_eq!(import.wait(LIMIT).code(), Some(0));
    assert_eq!(zk.ok(&["get", "/b"]), data);
}

/// The nodes below /zookeeper cannot be created elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn export_of_all_nodes_leaves_out_the_ensembles_own() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    for path in ["/a", "/zookeeper-not", "/app", "/app/zookeeper"] {
        zk.ok(&["create", path]);
    }
    let paths = |zk: &Zk, root: &str| -> Vec<String> {
        let exported = zk.ok(&["export", root]);
        let nodes = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        nodes.filter_map(|node| Some(node["path"].as_str()?.to_owned())).collect()
    };
    assert_eq!(paths(&zk, "/"), ["/", "/a", "/app", "/app/zookeeper", "/zookeeper-not"]);
    let exported = zk.run(&["export", "/"]);
    assert_eq!(exported.stderr, "zk: /zookeeper is left out: each ensemble has its own\n");
    assert!(paths(&zk, "/zookeeper").len() > 1, "asked for by name");
    assert_eq!(paths(&zk.chroot("/app"), "/"), ["/", "/zookeeper"]);
    let mut import = Zk::new(server.connect_string()).chroot("/a").start(&["import", "/"]);
    import.give(exported.stdout.as_bytes());
    import.end_input();
    let ended = import.wait(LIMIT);
    assert_eq!(ended.stdout, "5 nodes imported, 1 of which existed\n", "{ended:?}");
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
    expect_refused(&["completions", "ksh"], "bash");
}

/// Any client that may create a node would else write to the terminals of other people.
#[test]
fn terminal_gets_no_control_sequences_of_a_node() {
    let Some(zk) = zk("terminal") else { return };
    let path = "/a\u{202e}b\\c";
    zk.ok(&["create", path, "x\u{1b}[2J\u{202e}\ty\n\u{9b}z"]);
    assert_eq!(zk.ok(&["ls", "/"]), "a\u{202e}b\\c\n", "a pipe gets the path as it is");
    let screen = Screen::start(&zk, "zk ls / && zk get $(zk find / --name a?b*) && echo ready");
    screen.shows("ready", 1);
    let printed = screen.printed().replace('\r', "");
    assert_eq!(printed, "a\\u{202e}b\\c\nx\\u{1b}[2J\\u{202e}\ty\n\\u{9b}z\nready\n");
}
