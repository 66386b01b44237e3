//! Tests of `zk export` and `zk import`.

use std::fmt::Write as _;
use std::fs;

use std::time::Duration;

use serde_json::Value;
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Version};
use zk_tests::{Ended, Scratch, Zk};

use crate::screen::Screen;
use crate::{expect_refused, until, zk};

pub(crate) fn import(zk: &Zk, arguments: &str, lines: &str) -> Ended {
    zk.run_with(&format!("import {arguments}"), lines)
}

/// Returns a line of an export.
fn line(path: &str, data: &str) -> String {
    format!("{{\"acl\":[\"world:anyone:cdrwa\"],\"data\":{data},\"path\":\"{path}\"}}\n")
}

#[test]
fn exported_nodes_are_imported_as_they_were() {
    let Some(zk) = zk("export") else { return };
    let controls = "\u{7f}\u{9b}2J\u{1b}[2J";
    zk.ok("create /from grüße");
    zk.ok("create /from/a x --acl world:anyone:cdrwa --acl ip:127.0.0.1:r");
    zk.ok("create /from/a/b");
    zk.ok(&["create", "/from/box", controls]);
    zk.ok("create /from/gone --ephemeral");
    assert_eq!(zk.run_with("set /from/a/b -", [0, 159, 146, 150]).code(), Some(0));
    let exported = zk.run("export /from");
    exported.expect(0, &exported.stdout, "zk: 1 ephemeral node is left out\n");
    let (nodes, last) = exported.stdout.trim_end().rsplit_once('\n').unwrap();
    assert_eq!((nodes.lines().count(), last), (4, "{\"nodes\":4}"), "{exported:?}");
    assert!(nodes.lines().flat_map(str::chars).all(|char| !char.is_control()), "{nodes:?}");

    // Half of it first, as if interrupted, and then all.
    let half: Vec<&str> = exported.stdout.lines().take(2).collect();
    assert_eq!(import(&zk, "/to", &half.join("\n")).code(), Some(0));
    let told = "4 nodes imported, 2 of which existed\n";
    import(&zk, "/to", &exported.stdout).expect(0, told, "");
    zk.prints("export /to", &exported.stdout);
    zk.prints("getacl /to/a", "world:anyone:cdrwa\nip:127.0.0.1:r\n");
    zk.prints("get /to/box", controls);

    zk.ok("set /to mine");
    import(&zk, "/to", &exported.stdout).expect_failure(1, "line 1: /to exists with other data");
    assert_eq!(import(&zk, "/to --overwrite", &exported.stdout).code(), Some(0));
    zk.prints("get /to", "grüße");
    zk.fails("export /nowhere", 1, "NoNode");
}

#[test]
fn unusable_input_is_told() {
    let Some(zk) = zk("import-text") else { return };
    let root = "{\"path\":\"/\",\"data\":null,\"acl\":[\"world:anyone:cdrwa\"]}\n";
    let hint = "NoNode (-101); /a does not exist, and no earlier line creates it; \
                zk create --parents does";
    for (path, input, says) in [
        ("/a/b", root, hint),
        ("/a", "path=/a\n", "line 1: not JSON as zk export writes it: "),
        ("/a", "\n", "standard input has no node"),
        ("/a", "\n{}", "line 2: no text `path`"),
    ] {
        import(&zk, path, input).expect_failure(1, says);
    }
    let large = format!("create /large {}", "x".repeat(2_000));
    zk.option("--max-request-len", "1024").fails(&large, 1, "--max-request-len");
}

#[test]
fn incomplete_input_is_told() {
    let Some(zk) = zk("import-cut") else { return };
    zk.ok("create /from/a --parents");
    zk.ok("create /from/b");
    let exported = zk.ok("export /from");
    let lines: Vec<&str> = exported.lines().collect();
    assert_eq!((lines.len(), lines[3]), (4, "{\"nodes\":3}"), "{exported}");
    let without_one = import(&zk, "/to", &[lines[0], lines[1], lines[3]].join("\n"));
    without_one.expect_failure(1, "line 3: 2 nodes came before, of 3 that were exported");
    let without_end = import(&zk, "/to", &lines[..3].join("\n"));
    let says = "zk: the input has no last line with the number of nodes, and may be incomplete\n";
    assert_eq!((without_end.code(), &*without_end.stderr), (Some(0), says), "{without_end:?}");
    // Several exports in one input.
    let told = "6 nodes imported, 6 of which existed\n";
    import(&zk, "/to", &exported.repeat(2)).expect(0, told, "");
}

/// No data and null are different for programs that read them.
#[test]
fn null_data_is_exported_and_imported() {
    let Some(zk) = zk("import-null") else { return };
    let lines = line("/", "null") + &line("/empty", "\"\"") + "{\"nodes\":2}\n";
    assert_eq!(import(&zk, "/null", &lines).code(), Some(0));
    let exported = zk.ok("export /null");
    assert!(exported.contains(r#""data":null,"path":"/""#), "{exported}");
    assert!(exported.contains(r#""data":"","path":"/empty""#), "{exported}");
    let other = import(&zk, "/null", &lines.replace("null", "\"\""));
    other.expect_failure(1, "exists with other data");
    let overwritten = import(&zk, "/null --overwrite", &lines);
    assert_eq!(overwritten.stdout, "2 nodes imported, 2 of which existed\n", "{overwritten:?}");
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
    let exported = zk.run("export /");
    assert_eq!(exported.stderr, "zk: /zookeeper is left out: each ensemble has its own\n");
    assert!(paths(&zk, "/zookeeper").len() > 1, "asked for by name");
    assert_eq!(paths(&zk.chroot("/app"), "/"), ["/", "/zookeeper"]);
    let ended = import(&zk.chroot("/a"), "/", &exported.stdout);
    assert_eq!(ended.stdout, "5 nodes imported, 1 of which existed\n", "{ended:?}");
}

/// Creates /app with two children that only Alice may read, and one whose hash only she may read. Returns
/// her command.
fn partly_hidden(zk: &Zk) -> Zk {
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    for path in ["/app", "/app/a", "/app/z"] {
        zk.ok(&["create", path, path]);
    }
    for path in ["/app/hers", "/app/hers/below", "/app/own"] {
        alice.ok(&["create", path, "secret", "--acl", "auth::cdrwa"]);
    }
    alice.ok("create /app/hash public --acl auth::cdrwa --acl world:anyone:r");
    zk.ok("create /app/z/open");
    alice
}

#[test]
fn export_leaves_out_unreadable_nodes_if_asked_to() {
    let Some(zk) = zk("export-unreadable") else { return };
    let alice = partly_hidden(&zk);
    zk.fails("export /app", 1, "see --skip-unreadable");
    let ended = zk.run("export /app --skip-unreadable");
    let paths = |lines: &str| -> Vec<String> {
        let lines = lines.lines();
        let path =
            |line: &str| line.split_once(r#""path":""#)?.1.split('"').next().map(str::to_owned);
        lines.filter_map(path).collect()
    };
    assert_eq!(paths(&ended.stdout), ["/", "/a", "/z", "/z/open"], "{ended:?}");
    assert!(ended.stdout.ends_with("{\"nodes\":4,\"unreadable\":3}\n"), "{ended:?}");
    let says = "zk: /app/hash is left out: no permission to read the hashes in its access control list\n\
                zk: /app/hers is left out: no permission to read it\n\
                zk: /app/own is left out: no permission to read it\n\
                zk: 3 nodes are left out: no permission to read them\n";
    assert_eq!((ended.code(), &*ended.stderr), (Some(0), says));
    let json = zk.run("export /app --skip-unreadable --json");
    assert!(json.stderr.contains("\"unreadable\":3}"), "{json:?}");
    let imported = import(&zk, "/copy", &ended.stdout);
    assert_eq!(imported.stdout, "4 nodes imported, 0 of which existed\n", "{imported:?}");

    let whole = alice.run("export /app --skip-unreadable");
    assert!(whole.stdout.ends_with("{\"nodes\":8,\"unreadable\":0}\n"), "{whole:?}");
    assert_eq!(whole.stderr, "");
    zk.fails("export /app/own --skip-unreadable", 1, "NoAuth");
    // A node without its parent could not be imported.
    alice.ok("create /app/hash/below");
    let ended = zk.run("export /app --skip-unreadable");
    assert_eq!(paths(&ended.stdout), ["/", "/a", "/z", "/z/open"], "{ended:?}");
    assert!(ended.stdout.ends_with("{\"nodes\":4,\"unreadable\":4}\n"), "{ended:?}");
}

#[test]
fn nodes_are_exported_and_imported_without_lists() {
    let Some(zk) = zk("export-no-acl") else { return };
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    alice.ok("create /app public --acl auth::cdrwa --acl world:anyone:r");
    alice.ok("create /app/a --acl auth::cdrwa --acl world:anyone:r");
    zk.fails("export /app", 1, "see --no-acl");
    let lines =
        "{\"data\":\"public\",\"path\":\"/\"}\n{\"data\":\"\",\"path\":\"/a\"}\n{\"nodes\":2}\n";
    zk.prints("export /app --no-acl", lines);
    import(&zk, "/copy", lines).expect_failure(1, "line 1: no list `acl`; --no-acl");
    let says = "2 nodes imported, 0 of which existed, 0 access control lists ignored\n";
    import(&zk, "/copy --no-acl", lines).expect(0, says, "");
    zk.prints("getacl /copy/a", "world:anyone:cdrwa\n");

    // The lists of the input are ignored, and so are those of existing nodes.
    zk.ok("setacl /copy world:anyone:crw");
    let lines = alice.ok("export /app");
    let says = "{\"created\":0,\"ignored_acl\":2,\"imported\":2,\"other_acl\":0,\"unread\":0}\n";
    import(&zk, "/copy --no-acl --overwrite --json", &lines).expect(0, says, "");
    zk.prints("getacl /copy", "world:anyone:crw\n");
    expect_refused("import /copy --no-acl --resume x", "--resume");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_removed_before_the_result() {
    let (server, zk) = start().await;
    // It takes longer than the interval between two states of the progress.
    server.on(Op::Create2).nth(1000).delay(Duration::from_millis(500));
    let mut lines = line("/", "null");
    for number in 1..3000 {
        lines += &line(&format!("/{number}"), "null");
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

/// Nodes of the tree: more than the batches that grow step by step.
const NODES: usize = 300;
/// Requests that a command has under way at least, without an answer to any of them.
const AT_ONCE: u64 = 60;
const IMPORTED: &str = "300 nodes imported, 0 of which existed\n";

async fn start() -> (TestServer, Zk) {
    let server = TestServer::start_with(Settings::new().version(Version::V3_9)).await.unwrap();
    let zk = Zk::new(server.connect_string());
    (server, zk)
}

/// Returns the lines of a tree of three levels.
fn lines() -> String {
    let mut lines = String::new();
    for number in 0..NODES {
        let path = match number {
            0 => "/".to_owned(),
            _ if number % 10 == 1 => format!("/{number:03}"),
            _ => format!("/{:03}/{number:03}", (number - 1) / 10 * 10 + 1),
        };
        lines += &line(&path, &format!("\"{number}\""));
    }
    writeln!(lines, "{{\"nodes\":{NODES}}}").unwrap();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn import_and_export_have_many_requests_under_way() {
    let (server, zk) = start().await;
    let silent = server.on(Op::Create2).nth(100).always().never_answer();
    let mut running = zk.start("import /other");
    running.give(lines().as_bytes());
    running.end_input();
    until("one create at a time", || silent.count() >= AT_ONCE);
    silent.cancel();
    drop(running);
    assert_eq!(import(&zk, "/copy", &lines()).code(), Some(0));
    // An answer to a later request would end the connection.
    let silent = [Op::GetData, Op::GetAcl].map(|op| server.on(op).nth(100).always().never_answer());
    let _running = zk.start("export /copy");
    until("one read at a time", || silent.iter().all(|fault| fault.count() >= AT_ONCE));
}

#[tokio::test(flavor = "multi_thread")]
async fn export_of_an_import_is_the_same() {
    let (_server, zk) = start().await;
    let lines = lines();
    assert_eq!(import(&zk, "/copy", &lines).stdout, IMPORTED);
    assert!(zk.ok("export /copy") == lines, "not the same");
    let other = lines.replace("\"data\":\"", "\"data\":\"x").replace("cdrwa", "cdrw");
    let ended = import(&zk, "/copy --overwrite", &other);
    assert_eq!(ended.stdout, "300 nodes imported, 300 of which existed\n", "{ended:?}");
    assert!(zk.ok("export /copy") == other, "not overwritten");
}

/// A lost connection fails all requests that are under way. Children are then created before their parents
/// unless each line waits for the one before. A rejected parent has its children rejected, too.
#[tokio::test(flavor = "multi_thread")]
async fn import_is_completed_over_lost_connections() {
    for is_throttled in [false, true] {
        let (server, zk) = start().await;
        let throttled = server.on(Op::Create2).nth(111);
        let throttled = is_throttled.then(|| throttled.answer(ErrorCode::THROTTLED_OP));
        if !is_throttled {
            for (skip, how) in [(3, Cut::Rst), (25, Cut::Fin), (120, Cut::Rst)] {
                server.on(Op::Create2).nth(skip).by(how).apply_then_drop_reply();
                server.on(Op::Create2).nth(skip + 40).by(how).drop_before_applying();
            }
        }
        let lines = lines();
        let ended = import(&zk, "/copy", &lines);
        assert_eq!(ended.stdout, IMPORTED, "{ended:?}");
        assert!(throttled.is_none_or(|fault| fault.count() == 1));
        assert!(zk.ok("export /copy") == lines, "not the same");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_import_counts_nodes_of_later_lines() {
    let (_server, zk) = start().await;
    zk.ok("create /copy 0");
    zk.ok("create /copy/101 0");
    let says =
        "line 102: /copy/101 exists with other data; see --overwrite; 83 nodes of later lines";
    import(&zk, "/copy", &lines()).expect_failure(1, says);
    let other_root = lines().replace("\"data\":\"0\"", "\"data\":\"1\"");
    let ended = import(&zk, "/copy", &other_root);
    assert!(ended.stderr.ends_with("/copy exists with other data; see --overwrite\n"), "{ended:?}");
    // Each line of a path is compared with the result of the line before.
    zk.ok("create /last a");
    let lines: String =
        ["a", "b", "a", "b", "a", "c", "a"].map(|data| line("/", &format!("\"{data}\""))).concat();
    assert_eq!(import(&zk, "/last --overwrite", &lines).code(), Some(0));
    zk.prints("get /last", "a");
}
