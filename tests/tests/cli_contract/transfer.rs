//! Tests of `zk export` and `zk import`: access control lists, repetitions, and incomplete input.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use zk_testing::{Op, Settings, TestServer, Version};
use zk_tests::{Ended, HOLD, Scratch, WHO_AM_I, Zk, own_shared_zookeeper, poll, release, skip};

use crate::screen::Screen;
use crate::{LIMIT, expect_failure, own_zk, zk};

fn import(zk: &Zk, root: &str, lines: &str, options: &[&str]) -> Ended {
    let mut running = zk.start(&[&["import", root], options].concat());
    running.give(lines.as_bytes());
    running.end_input();
    running.wait(LIMIT)
}

/// The file for the one-time identity of an import.
struct Identity {
    path: String,
    _scratch: Scratch,
}

impl Identity {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self { path: scratch.path("identity").display().to_string(), _scratch: scratch }
    }

    fn options(&self) -> [&str; 2] {
        ["--resume", &self.path]
    }

    /// Nothing is open to the identity when an import is complete.
    fn expect_forgotten(&self) {
        assert!(!Path::new(&self.path).exists());
    }
}

/// Creates /ro with children that its list denies to everybody, and exports it.
fn closed_tree(zk: &Zk) -> String {
    zk.ok(&["create", "/ro/c/d", "x", "--parents"]);
    zk.ok(&["create", "/ro/e"]);
    for path in ["/ro/c/d", "/ro/c", "/ro"] {
        zk.ok(&["setacl", path, "world:anyone:r"]);
    }
    zk.ok(&["export", "/ro"])
}

/// Returns the command like [`zk`], for tests that leave behind what nobody may delete. `zk import`
/// opens lists to its own address, which it learns by `whoAmI`.
fn zk_that_opens_lists(chroot: &str) -> Option<Zk> {
    if release(own_shared_zookeeper()?) < WHO_AM_I {
        skip("zk import needs whoAmI of ZooKeeper 3.7 to open a list");
        return None;
    }
    zk(chroot)
}

/// An entry for the address would open the nodes to everybody behind the same address.
#[test]
fn import_opens_lists_to_a_one_time_identity() {
    let Some(zk) = zk_that_opens_lists("import-one-time") else { return };
    let (lines, identity) = (closed_tree(&zk), Identity::new());
    let half: Vec<&str> = lines.lines().take(2).chain(["{}"]).collect();
    let ended = import(&zk, "/copy", &half.join("\n"), &identity.options());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    for says in [
        "are open to a one-time identity until the import is complete: ",
        "the one-time identity crosses the network in the clear: use TLS (--cacert)\n",
        &format!("an import of these nodes with --resume {} that succeeds", identity.path),
        "zk: /copy/c is open\n",
    ] {
        assert!(ended.stderr.contains(says), "{says}: {ended:?}");
    }
    let file = fs::read_to_string(&identity.path).unwrap();
    let (secret, open) = file.split_once('\n').unwrap();
    assert_eq!(open, "/copy\n/copy/c\n");
    assert_eq!(fs::metadata(&identity.path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!ended.stderr.contains(secret.trim()), "{ended:?}");
    let list = zk.ok(&["getacl", "/copy"]);
    assert!(list.starts_with("world:anyone:r\ndigest:zk-import-"), "{list}");
    assert!(!list.contains("ip:"), "{list}");
    // Everybody else behind this address is denied.
    expect_failure(&zk.run(&["create", "/copy/x"]), 1, "NoAuth");
    zk.clone().option("--auth", secret.trim()).ok(&["getacl", "/copy/c"]);
    // A repetition that fails early has not seen what is open.
    for input in ["", "{}"] {
        assert_eq!(import(&zk, "/copy", input, &identity.options()).code(), Some(1));
        assert_eq!(fs::read_to_string(&identity.path).unwrap(), file);
    }
    zk.ok(&["create", "/leaf"]);
    let other = import(&zk, "/other", &zk.ok(&["export", "/leaf"]), &identity.options());
    let stays = "2 nodes, such as /copy, are still open to the identity of an earlier import";
    assert!(other.code() == Some(0) && other.stderr.contains(stays), "{other:?}");
    fs::set_permissions(&identity.path, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = import(&zk, "/copy", &lines, &identity.options());
    expect_failure(&refused, 1, "it must be yours alone (chmod 600)");
    fs::set_permissions(&identity.path, fs::Permissions::from_mode(0o600)).unwrap();
    let whole = import(&zk, "/copy", &lines, &identity.options());
    assert_eq!(whole.stdout, "4 nodes imported, 2 of which existed\n", "{whole:?}");
    assert_eq!(zk.ok(&["export", "/copy"]), lines);
    identity.expect_forgotten();

    fs::write(&identity.path, "something else\n").unwrap();
    fs::set_permissions(&identity.path, fs::Permissions::from_mode(0o600)).unwrap();
    let refused = import(&zk, "/copy", &lines, &identity.options());
    expect_failure(&refused, 1, "not an identity of zk import");
}

/// Lists that deny everybody the creation of children deny it to the importer, too.
#[test]
fn imported_nodes_below_a_closed_parent_get_their_lists() {
    let Some(zk) = zk_that_opens_lists("import-closed") else { return };
    for (name, options) in [("plain", &[][..]), ("digest", &["--auth", "digest:alice:sesame"])] {
        zk.ok(&["create", &format!("/{name}")]);
        let zk = zk.chroot(&format!("/{name}"));
        let lines = closed_tree(&zk);
        let ended = import(&zk, "/copy", &lines, options);
        assert_eq!(ended.stdout, "4 nodes imported, 0 of which existed\n", "{ended:?}");
        assert_eq!(zk.ok(&["export", "/copy"]), lines);
        // All of them exist, and the list of the first one denies the creation.
        let again = import(&zk, "/copy", &lines, options);
        assert_eq!(again.stdout, "4 nodes imported, 4 of which existed\n", "{again:?}");
        assert_eq!((again.code(), again.stderr.as_str()), (Some(0), ""), "{again:?}");
        let again = import(&zk, "/copy", &lines, &[options, &["--overwrite"]].concat());
        assert_eq!(again.stdout, "4 nodes imported, 4 of which existed\n", "{again:?}");
    }
}

/// The list of the parent permits the importer to change it, but not to create children.
#[test]
fn new_child_of_an_imported_closed_parent_is_imported() {
    let Some(zk) = own_zk("import-new-child") else { return };
    let alice = ["--auth", "digest:alice:sesame"];
    zk.ok(&["create", "/from/old", "--parents"]);
    let close = || zk.ok(&[&alice[..], &["setacl", "/from", "auth::ra"]].concat());
    close();
    let lines = zk.ok(&[&alice[..], &["export", "/from"]].concat());
    assert_eq!(import(&zk, "/to", &lines, &alice).stdout, "2 nodes imported, 0 of which existed\n");
    zk.ok(&[&alice[..], &["setacl", "/from", "world:anyone:cdrwa"]].concat());
    zk.ok(&["create", "/from/new"]);
    close();
    let lines = zk.ok(&[&alice[..], &["export", "/from"]].concat());
    // Without a node that it denies, the list is not touched. The input has no last line here.
    let is_old = |line: &&str| line.contains("/old") || line.contains(r#""path":"/""#);
    let old: Vec<&str> = lines.lines().filter(is_old).collect();
    let ended = import(&zk, "/to", &old.join("\n"), &[&alice[..], &["--overwrite"]].concat());
    assert_eq!(ended.stdout, "2 nodes imported, 2 of which existed\n", "{ended:?}");
    let ended = import(&zk, "/to", &lines, &[&alice[..], &["--overwrite"]].concat());
    assert_eq!(ended.stdout, "3 nodes imported, 2 of which existed\n", "{ended:?}");
    assert_eq!(zk.ok(&[&alice[..], &["export", "/to"]].concat()), lines);
}

#[test]
fn interrupted_import_below_a_closed_parent_is_completed() {
    let Some(zk) = zk_that_opens_lists("import-half") else { return };
    let (lines, identity) = (closed_tree(&zk), Identity::new());
    let mut half: Vec<&str> = lines.lines().take(2).collect();
    half.push("{}");
    let ended = import(&zk, "/copy", &half.join("\n"), &identity.options());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let says = "line 3: no text `path`";
    assert!(ended.stderr.lines().last().unwrap().contains(says), "{ended:?}");
    let says =
        "the lists of 2 nodes have an entry more, with which this client creates what is below";
    assert!(ended.stderr.contains(says), "{ended:?}");
    let whole = import(&zk, "/copy", &lines, &identity.options());
    assert_eq!(whole.stdout, "4 nodes imported, 2 of which existed\n", "{whole:?}");
    assert_eq!(zk.ok(&["export", "/copy"]), lines);
    identity.expect_forgotten();
}

/// With its own list, the first node would keep the repetition from creating what is missing.
#[test]
fn cut_import_below_a_closed_parent_is_completed() {
    let Some(zk) = zk_that_opens_lists("import-cut-closed") else { return };
    let (lines, identity) = (closed_tree(&zk), Identity::new());
    let cut: Vec<&str> = lines.lines().take(3).collect();
    let ended = import(&zk, "/copy", &cut.join("\n"), &identity.options());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let says = "has no last line with the number of nodes, and may be incomplete: if it is whole, \
                add the line {\"nodes\":3}";
    assert!(ended.stderr.contains(says), "{ended:?}");
    let whole = import(&zk, "/copy", &lines, &identity.options());
    assert_eq!(whole.stdout, "4 nodes imported, 3 of which existed\n", "{whole:?}");
    assert_eq!(zk.ok(&["export", "/copy"]), lines);
    identity.expect_forgotten();
}

/// A filtered export, for example, has no last line.
#[test]
fn import_of_a_part_below_a_closed_parent_takes_its_own_count() {
    let Some(zk) = zk_that_opens_lists("import-part-closed") else { return };
    let (lines, identity) = (closed_tree(&zk), Identity::new());
    let mut part: Vec<&str> = lines.lines().take(3).collect();
    let ended = import(&zk, "/copy", &part.join("\n"), &identity.options());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    part.push("{\"nodes\":3}");
    let ended = import(&zk, "/copy", &part.join("\n"), &identity.options());
    assert_eq!(ended.stdout, "3 nodes imported, 3 of which existed\n", "{ended:?}");
    let copied = zk.ok(&["export", "/copy"]);
    assert_eq!(copied.lines().collect::<Vec<_>>(), part, "no list is open");
    identity.expect_forgotten();
}

/// Its access control list is of no interest then.
#[test]
fn export_leaves_out_an_ephemeral_node_with_hidden_hashes() {
    let Some(zk) = zk("export-hidden") else { return };
    zk.ok(&["create", "/app"]);
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    let entries = ["--acl", "auth::cdrwa", "--acl", "world:anyone:r"];
    let holder =
        alice.start(&[&["elect", "/app"], &entries[..], &["--", "sh", "-c", HOLD]].concat());
    poll(LIMIT, || (!zk.ok(&["ls", "/app"]).is_empty()).then_some(())).expect("no candidate");
    let exported = zk.ok(&["export", "/app"]);
    assert!(exported.ends_with("{\"nodes\":1}\n"), "{exported}");
    drop(holder);
}

/// The same input fails at the same line again, so no repetition would set the lists.
#[test]
fn import_of_a_wrong_number_of_nodes_leaves_no_list_open() {
    let Some(zk) = zk_that_opens_lists("import-count") else { return };
    let exported = closed_tree(&zk);
    let lines: Vec<&str> = exported.lines().collect();
    let fewer = [&lines[..3], &lines[4..]].concat().join("\n");
    let more = [&lines[..3], &lines[2..]].concat().join("\n");
    for (root, input, says) in [
        ("/fewer", fewer, "line 4: 3 nodes came before, of 4 that were exported"),
        ("/more", more, "line 6: 5 nodes came before, of 4 that were exported"),
    ] {
        let identity = Identity::new();
        let ended = import(&zk, root, &input, &identity.options());
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.ends_with(&format!("zk: {says}\n")), "{ended:?}");
        identity.expect_forgotten();
        for below in ["", "/c", "/c/d"] {
            assert_eq!(zk.ok(&["getacl", &format!("{root}{below}")]), "world:anyone:r\n");
        }
        expect_failure(&import(&zk, root, &input, &[]), 1, says);
    }
}

#[test]
fn import_of_lists_of_somebody_else_is_repeated() {
    let Some(zk) = zk_that_opens_lists("import-hers") else { return };
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    for path in ["/from", "/from/c", "/from/c/d", "/from/e"] {
        alice.ok(&["create", path, path, "--acl", "auth::cdrwa"]);
    }
    let exported = alice.ok(&["export", "/from"]);
    let bob = ["--auth", "digest:bob:sesame"];
    let half = exported.replace("{\"nodes\":4}", "{}");
    let ended = import(&zk, "/copy", &half, &bob);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    // Bob may read and write the nodes that his import has left open.
    let other = half.replace("\"/from/c\"", "\"new\"");
    let ended = import(&zk, "/copy", &other, &[&bob[..], &["--overwrite"]].concat());
    assert!(ended.stderr.contains("line 5: no text `path`"), "{ended:?}");
    assert_eq!(zk.clone().option("--auth", bob[1]).ok(&["get", "/copy/c"]), "new");

    let exported = exported.replace("\"/from/c\"", "\"new\"");
    let ended = import(&zk, "/copy", &exported, &bob);
    assert_eq!(ended.stdout, "4 nodes imported, 4 of which existed\n", "{ended:?}");
    let says = "zk: /copy/c/d exists and is not compared: no permission to read it\n\
                zk: 1 of the existing nodes are not compared: no permission to read them\n";
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), says), "{ended:?}");
    assert_eq!(alice.ok(&["export", "/copy"]), exported);
    let again = import(&zk, "/copy", &exported, &[&bob[..], &["--json"]].concat());
    assert!(again.stdout.contains("\"unread\":4"), "{again:?}");
    let again = import(&zk, "/copy", &exported, &[&bob[..], &["--overwrite"]].concat());
    assert_eq!(again.code(), Some(1), "{again:?}");
    assert!(again.stderr.contains("4 of the existing nodes are not replaced"), "{again:?}");
}

/// An entry of somebody else, or one with other permissions, is no rest of an import.
#[test]
fn import_keeps_lists_with_entries_that_it_has_not_added() {
    let Some(zk) = zk("import-entries") else { return };
    zk.ok(&["create", "/from"]);
    zk.ok(&["setacl", "/from", "world:anyone:ra"]);
    let lines = zk.ok(&["export", "/from"]);
    for entry in ["ip:127.0.0.9:ca", "ip:127.0.0.9:crwa", "ip:127.0.0.1:ca"] {
        zk.ok(&["create", "/to"]);
        zk.ok(&["setacl", "/to", "world:anyone:ra", entry]);
        let ended = import(&zk, "/to", &lines, &[]);
        assert!(ended.stderr.contains("/to keeps another access control list"), "{ended:?}");
        assert_eq!(zk.ok(&["getacl", "/to"]), format!("world:anyone:ra\n{entry}\n"));
        zk.ok(&["delete", "/to"]);
    }
}

#[test]
fn lists_of_existing_nodes_are_compared_and_overwritten() {
    let Some(zk) = zk("import-lists") else { return };
    for path in ["/from/a", "/from/b", "/to/a", "/to/b"] {
        zk.ok(&["create", path, "--parents"]);
    }
    zk.ok(&["setacl", "/from/a", "world:anyone:r", "ip:127.0.0.1:cdrwa"]);
    let lines = zk.ok(&["export", "/from"]);
    let ended = import(&zk, "/to", &lines, &[]);
    assert_eq!(ended.stdout, "3 nodes imported, 3 of which existed\n", "{ended:?}");
    let says = "zk: /to/a keeps another access control list than in the input\n\
                zk: 1 of the existing nodes keep other access control lists; see --overwrite\n";
    assert_eq!(ended.stderr, says);
    let json = import(&zk, "/to", &lines, &["--json"]);
    assert_eq!(
        json.stdout, "{\"created\":0,\"imported\":3,\"other_acl\":1,\"unread\":0}\n",
        "{json:?}"
    );
    let ended = import(&zk, "/to", &lines, &["--overwrite"]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(zk.ok(&["export", "/to"]), lines);
}

/// A full disk or a killed command cuts an export off, often at the end of a line.
/// No data and null are different for programs that read them.
#[test]
fn null_data_is_exported_and_imported() {
    let Some(zk) = zk("import-null") else { return };
    let line = |path: &str, data: &str| {
        format!("{{\"acl\":[\"world:anyone:rwcda\"],\"data\":{data},\"path\":\"{path}\"}}\n")
    };
    let lines = line("/", "null") + &line("/empty", "\"\"") + "{\"nodes\":2}\n";
    assert_eq!(import(&zk, "/null", &lines, &[]).code(), Some(0));
    let exported = zk.ok(&["export", "/null"]);
    assert!(exported.contains(r#""data":null,"path":"/""#), "{exported}");
    assert!(exported.contains(r#""data":"","path":"/empty""#), "{exported}");
    let other = import(&zk, "/null", &lines.replace("null", "\"\""), &[]);
    expect_failure(&other, 1, "exists with other data");
    let overwritten = import(&zk, "/null", &lines, &["--overwrite"]);
    assert_eq!(overwritten.stdout, "2 nodes imported, 2 of which existed\n", "{overwritten:?}");
    let short = zk.option("--max-request-len", "1024");
    expect_failure(&short.run(&["create", "/large", &"x".repeat(2_000)]), 1, "--max-request-len");
}

#[test]
fn incomplete_input_is_told() {
    let Some(zk) = zk("import-cut") else { return };
    for path in ["/from/a", "/from/b"] {
        zk.ok(&["create", path, "--parents"]);
    }
    let exported = zk.ok(&["export", "/from"]);
    let lines: Vec<&str> = exported.lines().collect();
    assert_eq!((lines.len(), lines[3]), (4, "{\"nodes\":3}"), "{exported}");

    let without_one = [lines[0], lines[1], lines[3]].join("\n");
    let ended = import(&zk, "/to", &without_one, &[]);
    expect_failure(&ended, 1, "line 3: 2 nodes came before, of 3 that were exported");
    let without_end = import(&zk, "/to", &lines[..3].join("\n"), &[]);
    assert_eq!(without_end.code(), Some(0), "{without_end:?}");
    let says = "zk: the input has no last line with the number of nodes, and may be incomplete\n";
    assert_eq!(without_end.stderr, says);

    // Several exports in one input.
    let twice = import(&zk, "/to", &exported.repeat(2), &[]);
    assert_eq!((twice.code(), twice.stderr.as_str()), (Some(0), ""), "{twice:?}");
    assert_eq!(twice.stdout, "6 nodes imported, 6 of which existed\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_removed_before_the_result() {
    let settings = Settings::new().version(Version::V3_9);
    let server = TestServer::start_with(settings).await.unwrap();
    let zk = Zk::new(server.connect_string());
    // It takes longer than the interval between two states of the progress.
    server.on(Op::Create2).nth(1000).delay(Duration::from_millis(500));
    let mut lines = String::from("{\"path\":\"/\",\"data\":null,\"acl\":[\"world:anyone:r\"]}\n");
    for number in 1..3000 {
        let acl = "\"acl\":[\"world:anyone:cdrwa\"]";
        writeln!(lines, "{{\"path\":\"/{number}\",\"data\":null,{acl}}}").unwrap();
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("lines"), lines + "{\"nodes\":3000}\n").unwrap();
    let import = format!("zk import /a <{}", scratch.path("lines").display());
    let screen = Screen::start(&zk, &import);
    screen.shows("3000 nodes imported, 0 of which existed", 1);
    let printed = screen.printed();
    let (before, _) = printed.split_once("3000 nodes imported, 0").unwrap();
    assert!(before.contains(" nodes imported"), "{printed:?}");
    assert!(before.ends_with("\r\u{1b}[K"), "{printed:?}");
}
