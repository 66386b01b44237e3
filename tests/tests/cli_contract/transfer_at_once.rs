//! Tests of `zk export` and `zk import` with many requests under way together.

use std::fmt::Write as _;

use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Version};
use zk_tests::{Ended, Zk, poll};

use crate::{LIMIT, expect_failure};

/// Nodes of the tree: more than the batches that grow step by step.
const NODES: usize = 300;

/// Requests that a command has under way at least, without an answer to any of them.
const AT_ONCE: u64 = 60;

async fn start() -> (TestServer, Zk) {
    let server = TestServer::start_with(Settings::new().version(Version::V3_9)).await.unwrap();
    let zk = Zk::new(server.connect_string());
    (server, zk)
}

/// Returns the lines of a tree of three levels.
fn lines() -> String {
    let mut lines = String::new();
    let acl = "\"acl\":[\"world:anyone:cdrwa\"]";
    for number in 0..NODES {
        let path = match number {
            0 => "/".to_owned(),
            _ if number % 10 == 1 => format!("/{number:03}"),
            _ => format!("/{:03}/{number:03}", (number - 1) / 10 * 10 + 1),
        };
        writeln!(lines, "{{{acl},\"data\":\"{number}\",\"path\":\"{path}\"}}").unwrap();
    }
    lines + &format!("{{\"nodes\":{NODES}}}\n")
}

fn import(zk: &Zk, lines: &str, options: &[&str]) -> Ended {
    let mut running = zk.start(&[&["import", "/copy"], options].concat());
    running.give(lines.as_bytes());
    running.end_input();
    running.wait(LIMIT)
}

#[tokio::test(flavor = "multi_thread")]
async fn import_has_many_creates_under_way() {
    let (server, zk) = start().await;
    let silent = server.on(Op::Create2).nth(100).always().never_answer();
    let mut running = zk.start(&["import", "/copy"]);
    running.give(lines().as_bytes());
    running.end_input();
    poll(LIMIT, || (silent.count() >= AT_ONCE).then_some(())).expect("one at a time");
}

#[tokio::test(flavor = "multi_thread")]
async fn export_has_many_reads_under_way() {
    let (server, zk) = start().await;
    assert_eq!(import(&zk, &lines(), &[]).code(), Some(0));
    // An answer to a later request would end the connection.
    let silent = [Op::GetData, Op::GetAcl].map(|op| server.on(op).nth(100).always().never_answer());
    let _running = zk.start(&["export", "/copy"]);
    let has_many = || silent.iter().all(|fault| fault.count() >= AT_ONCE);
    poll(LIMIT, || has_many().then_some(())).expect("one at a time");
}

#[tokio::test(flavor = "multi_thread")]
async fn export_of_an_import_is_the_same() {
    let (_server, zk) = start().await;
    let lines = lines();
    assert_eq!(import(&zk, &lines, &[]).stdout, "300 nodes imported, 0 of which existed\n");
    assert!(zk.ok(&["export", "/copy"]) == lines, "not the same");
    let other = lines.replace("\"data\":\"", "\"data\":\"x").replace("cdrwa", "cdrw");
    let ended = import(&zk, &other, &["--overwrite"]);
    assert_eq!(ended.stdout, "300 nodes imported, 300 of which existed\n", "{ended:?}");
    assert!(zk.ok(&["export", "/copy"]) == other, "not overwritten");
}

/// A lost connection fails all requests that are under way. Children are then created before their parents
/// unless each line waits for the one before.
#[tokio::test(flavor = "multi_thread")]
async fn import_is_completed_over_lost_connections() {
    let (server, zk) = start().await;
    for (skip, how) in [(3, Cut::Rst), (25, Cut::Fin), (120, Cut::Rst)] {
        server.on(Op::Create2).nth(skip).by(how).apply_then_drop_reply();
        server.on(Op::Create2).nth(skip + 40).by(how).drop_before_applying();
    }
    let lines = lines();
    let ended = import(&zk, &lines, &[]);
    assert_eq!(ended.stdout, "300 nodes imported, 0 of which existed\n", "{ended:?}");
    assert!(zk.ok(&["export", "/copy"]) == lines, "not the same");
}

/// The children of a node that the server rejects at first are rejected, too.
#[tokio::test(flavor = "multi_thread")]
async fn import_repeats_children_of_a_rejected_parent() {
    let (server, zk) = start().await;
    let throttled = server.on(Op::Create2).nth(111).answer(ErrorCode::THROTTLED_OP);
    let lines = lines();
    let ended = import(&zk, &lines, &[]);
    assert_eq!(ended.stdout, "300 nodes imported, 0 of which existed\n", "{ended:?}");
    assert_eq!(throttled.count(), 1);
    assert!(zk.ok(&["export", "/copy"]) == lines, "not the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_import_counts_nodes_of_later_lines() {
    let (_server, zk) = start().await;
    for path in ["/copy", "/copy/101"] {
        zk.ok(&["create", path, "0"]);
    }
    let ended = import(&zk, &lines(), &[]);
    let says =
        "line 102: /copy/101 exists with other data; see --overwrite; 83 nodes of later lines";
    expect_failure(&ended, 1, says);
    let other_root = lines().replace("\"data\":\"0\"", "\"data\":\"1\"");
    let ended = import(&zk, &other_root, &[]);
    assert!(ended.stderr.ends_with("/copy exists with other data; see --overwrite\n"), "{ended:?}");
}

/// Each line of a path is compared with the result of the line before.
#[tokio::test(flavor = "multi_thread")]
async fn import_takes_the_last_line_of_a_path() {
    let (_server, zk) = start().await;
    zk.ok(&["create", "/copy", "a"]);
    let line =
        |data| format!("{{\"acl\":[\"world:anyone:cdrwa\"],\"data\":\"{data}\",\"path\":\"/\"}}\n");
    let lines: String = ["a", "b", "a", "b", "a", "c", "a"].map(line).concat();
    assert_eq!(import(&zk, &lines, &["--overwrite"]).code(), Some(0));
    assert_eq!(zk.ok(&["get", "/copy"]), "a");
}
