//! Tests of the command when connections break, sessions end, or servers do not answer.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use zk_recipes::session::{Client, CreateMode, SessionId};
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Version};
use zk_tests::{HOLD, Journal, Running, Zk, poll};

use crate::signals::expect_end_by;
use crate::{LIMIT, until};

/// Starts a server in this process that permits short sessions, and returns a command connected to
/// it.
async fn start() -> (TestServer, Zk) {
    start_with(Settings::new().tick_time(Duration::from_millis(200))).await
}

async fn start_with(settings: Settings) -> (TestServer, Zk) {
    let server = TestServer::start_with(settings).await.unwrap();
    let zk = Zk::new(server.connect_string()).session_timeout(Duration::from_secs(4));
    (server, zk)
}

/// Returns a client that changes nodes while a command may not.
async fn operator(server: &TestServer) -> Client {
    Client::connect(&server.connect_string()).await.unwrap()
}

async fn create(client: &Client, path: &str) {
    client.create(path, b"", CreateMode::Persistent).await.unwrap();
}

/// Returns the session that is not `other`'s.
fn session_beside(server: &TestServer, other: &Client) -> SessionId {
    server.with(|ensemble| {
        let mut sessions = ensemble.sessions().map(|session| session.id);
        sessions.find(|id| *id != other.session_id()).expect("no other session")
    })
}

/// Starts a watcher, and waits until it reports that it watches.
fn watching(zk: &Zk, line: &str) -> Running {
    let watcher = zk.start(line);
    watcher.notes("watching");
    watcher
}

/// Waits until the watcher has printed `expected`, and fails if it has printed anything else.
fn says(watcher: &Running, expected: &str) {
    let told = poll(LIMIT, || (watcher.stdout().len() >= expected.len()).then_some(()));
    assert!(told.is_some() && watcher.stdout() == expected, "{watcher}instead of\n{expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn read_is_retried_when_its_answer_is_lost() {
    let (server, zk) = start().await;
    zk.ok("create /a x");
    for (line, op, says) in [
        ("get /a", Op::GetData, "x"),
        ("exists /a", Op::Exists, "true\n"),
        ("stat /a", Op::Exists, "czxid"),
        ("ls /", Op::GetChildren2, "a\nzookeeper\n"),
    ] {
        let before = server.on(op).times(2).by(Cut::Rst).drop_before_applying();
        let after = server.on(op).apply_then_drop_reply();
        assert!(zk.ok(line).contains(says), "{line}");
        assert_eq!((before.count(), after.count()), (2, 1), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_was_not_applied_is_retried_in_next_session() {
    let (server, zk) = start().await;
    for (line, op) in [
        ("create /a x --sequential", Op::Create2),
        ("set / x", Op::SetData),
        ("get /", Op::GetData),
        ("participants /", Op::GetChildren2),
        ("delete /a0000000000", Op::Delete),
    ] {
        let over = server.on(op).answer(ErrorCode::SESSION_EXPIRED);
        zk.ok(line);
        assert_eq!(over.count(), 1, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_write_is_retried_but_write_of_unknown_outcome_not() {
    let (server, zk) = start().await;
    server.on(Op::Create2).times(2).answer(ErrorCode::THROTTLED_OP);
    zk.prints("create /a- --sequential", "/a-0000000000\n");
    server.on(Op::Create2).apply_then_drop_reply();
    zk.fails("create /a- --sequential", 69, "may have been applied");
    assert_eq!(zk.ok("ls /").matches("a-").count(), 2);

    server.on(Op::SetData).apply_then_drop_reply();
    zk.fails("set /a-0000000000 x", 69, "may have been applied");
    assert!(zk.ok("stat /a-0000000000").contains("\nversion = 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_delete_survives_lost_answers_and_reports_count() {
    let (server, zk) = start().await;
    let make = || {
        zk.ok("create /t/a/c --parents");
        zk.ok("create /t/b --parents");
    };
    make();
    let lost = [
        server.on(Op::Delete).nth(2).apply_then_drop_reply(),
        server.on(Op::Delete).nth(4).apply_then_drop_reply(),
        server.on(Op::GetChildren2).apply_then_drop_reply(),
    ];
    zk.ok("delete /t --recursive");
    assert!(lost.iter().all(|fault| fault.count() == 1));
    zk.prints("ls /", "zookeeper\n");

    make();
    // The first request finds that /t has children. The second and third delete /t/b and /t/a/c.
    server.on(Op::Delete).nth(4).answer(ErrorCode::NO_AUTH);
    zk.fails("delete /t --recursive", 1, "NoAuth (-102); of what is below, 2 deleted");

    make();
    // The server rejects the first of the deletes that are sent at once, and applies the others.
    server.on(Op::Delete).nth(2).answer(ErrorCode::NO_AUTH);
    let ended = zk.run("delete /t --recursive --json");
    let said: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert!(said["error"].as_str().unwrap().contains("of what is below, 2 deleted"), "{said}");
    assert_eq!((&said["code"], &said["may_be_applied"]), (&"NoAuth".into(), &true.into()));
    zk.prints("ls /t -R", "/t\n/t/b\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn import_goes_on_after_lost_answers() {
    let (server, zk) = start().await;
    zk.ok("create /to");
    let node = |path, data| json!({ "path": path, "data": data, "acl": ["world:anyone:cdrwa"] });
    let lost = [
        server.on(Op::Create2).nth(2).apply_then_drop_reply(),
        server.on(Op::SetData).apply_then_drop_reply(),
    ];
    let lines = format!("{}\n{}\n", node("/", "x"), node("/a", "y"));
    let ended = zk.run_with("import /to --overwrite", lines);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(lost.iter().all(|fault| fault.count() == 1));
    assert_eq!(ended.stdout, "2 nodes imported, 1 of which existed\n");
    zk.prints("get /to", "x");
    zk.prints("get /to/a", "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_survives_lost_connections() {
    let (server, zk) = start().await;
    zk.ok("create /a");
    for op in [Op::Exists, Op::GetChildren2] {
        server.on(op).drop_before_applying();
    }
    let watcher = watching(&zk, "watch /a");
    let mut expected = String::new();
    // The watch has fired. The request that would set it again is lost.
    for op in [Op::Exists, Op::GetChildren2] {
        for cut in [Cut::Fin, Cut::Rst] {
            let lost = server.on(op).by(cut).drop_before_applying();
            zk.ok("set /a x");
            expected += "NodeDataChanged /a\n";
            says(&watcher, &expected);
            assert_eq!(lost.count(), 1, "{op:?} {cut:?}");
        }
    }
    zk.ok("delete /a");
    says(&watcher, &(expected + "NodeDeleted /a\n"));
    watcher.signal("TERM");
    watcher.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_reports_changes_made_while_disconnected() {
    let (server, zk) = start().await;
    let other = operator(&server).await;
    create(&other, "/a").await;
    let watcher = watching(&zk, "watch /a");
    let mut expected = String::new();
    for again in [false, true] {
        let lost = server.on(Op::Exists).drop_before_applying();
        server.refuse_connects(0);
        other.set_data("/a", b"x", None).await.unwrap();
        until("the watch did not fire", || lost.count() == 1);
        other.delete("/a", None).await.unwrap();
        expected += "NodeDataChanged /a\nNodeDeleted /a\n";
        if again {
            create(&other, "/a").await;
            expected += "NodeCreated /a\n";
        }
        server.accept_connects(0);
        says(&watcher, &expected);
        if !again {
            create(&other, "/a").await;
            expected += "NodeCreated /a\n";
            says(&watcher, &expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_continues_in_a_new_session() {
    let (server, zk) = start().await;
    let other = operator(&server).await;
    create(&other, "/a").await;
    let watcher = watching(&zk, "watch /a");
    let session = session_beside(&server, &other);
    server.refuse_connects(0);
    assert!(server.expire(session));
    create(&other, "/a/b").await;
    other.set_data("/a", b"x", None).await.unwrap();
    server.accept_connects(0);
    let mut expected = "NodeDataChanged /a\nNodeChildrenChanged /a\n".to_owned();
    says(&watcher, &expected);
    watcher.notes("the session had ended");
    other.delete("/a/b", None).await.unwrap();
    expected += "NodeChildrenChanged /a\n";
    says(&watcher, &expected);
    watcher.signal("INT");
    watcher.ends(0);
}

/// After a lost connection and after the end of the session, the lines lead from the old state to the
/// new one. Nodes that did not change meanwhile have none.
#[tokio::test(flavor = "multi_thread")]
async fn recursive_watcher_reports_changes_made_meanwhile() {
    let (server, zk) = start_with(Settings::new().version(Version::V3_9)).await;
    let other = operator(&server).await;
    for path in ["/a", "/a/gone", "/a/same", "/a/set", "/a/again"] {
        create(&other, path).await;
    }
    let watcher = watching(&zk, "watch /a --recursive");
    other.set_data("/a/same", b"1", None).await.unwrap();
    let mut expected = "NodeDataChanged /a/same\n".to_owned();
    says(&watcher, &expected);
    for (expires, from, to) in [(false, "/a/gone", "/a/new"), (true, "/a/new", "/a/gone")] {
        server.refuse_connects(0);
        let session = session_beside(&server, &other);
        if expires {
            assert!(server.expire(session));
        } else {
            server.connection_of(session).cut(Cut::Rst);
        }
        other.set_data("/a/set", b"x", None).await.unwrap();
        other.delete("/a/again", None).await.unwrap();
        create(&other, "/a/again").await;
        other.delete(from, None).await.unwrap();
        create(&other, to).await;
        server.accept_connects(0);
        expected += &format!("NodeDeleted {from}\nNodeDeleted /a/again\nNodeCreated /a/again\n");
        expected += &format!("NodeCreated {to}\nNodeDataChanged /a/set\n");
        says(&watcher, &expected);
    }
    watcher.notes("the session had ended");
}

/// Connections succeed, and the reads after an event are not answered.
#[tokio::test(flavor = "multi_thread")]
async fn watcher_outlasts_a_stalled_ensemble() {
    let mut watchers = Vec::new();
    for (option, op) in [("", Op::Exists), ("-R", Op::GetData)] {
        let (server, zk) = start().await;
        zk.ok("create /a");
        let watcher = watching(&zk, &format!("watch /a --data {option}"));
        let stalled = server.on(op).always().never_answer();
        zk.ok("set /a x");
        watchers.push((server, watcher, stalled));
    }
    for (_server, watcher, stalled) in watchers {
        // The client repeats the read on a new connection each 4 s. A new command would fail after
        // 10 s.
        until("it is not repeated", || stalled.count() >= 5);
        stalled.cancel();
        // The command may print one event twice.
        watcher.says("\n");
        assert!(watcher.stdout().starts_with("NodeDataChanged /a\tx\n"), "{watcher}");
        watcher.signal("TERM");
        watcher.ends(0);
    }
}

/// Events of nodes that the client may not read arrive from servers before 3.9.2, and after a read of
/// all nodes.
#[tokio::test(flavor = "multi_thread")]
async fn watcher_goes_on_after_data_that_it_may_not_read() {
    let (server, zk) = start().await;
    zk.ok("create /a");
    let watcher = watching(&zk, "watch /a --recursive --data");
    server.on(Op::GetData).answer(ErrorCode::NO_AUTH);
    zk.ok("set /a secret");
    says(&watcher, "NodeDataChanged /a\n");
    zk.ok("set /a open");
    says(&watcher, "NodeDataChanged /a\nNodeDataChanged /a\topen\n");
}

/// A server without a majority answers reads. The limit of silence, 10 s here, does not end the wait.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_wait_for_a_majority() {
    let (server, zk) = start().await;
    let zk = zk.option("--retry", "5").flag("--read-only");
    zk.ok("create /a");
    server.make_read_only(0);
    let waits = zk.start("barrier /b");
    let queues = zk.start("lock /l -- echo leads");
    for waiter in [&waits, &queues] {
        waiter.notes("lost the majority; waiting");
    }
    for line in ["barrier /b --timeout 0.5", "lock /l --timeout 0.5 -- true"] {
        zk.gives(line, 69, "", "no server with a majority");
    }
    // Each of the two reads once a second.
    let reads = server.on(Op::Exists).always().delay(Duration::ZERO);
    poll(2 * LIMIT, || (reads.count() > 24).then_some(())).expect("no reads");
    server.make_writable(0);
    waits.ends(0);
    assert_eq!(queues.ends(0).stdout, "leads\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_tells_that_its_session_has_ended() {
    let (server, zk) = start().await;
    zk.ok("barrier /b --set");
    let other = operator(&server).await;
    let waits = zk.option("--retry", "1").start("--verbose barrier /b");
    waits.notes("session 0x");
    server.refuse_connects(0);
    assert!(server.expire(session_beside(&server, &other)));
    let ended = waits.ends(69);
    let says = "zk: the session has ended, and no other one is open: connect to 127.0.0.1:";
    assert!(ended.stderr.lines().last().unwrap().starts_with(says), "{ended:?}");
}

/// The servers are gone for longer than the session timeout.
#[tokio::test(flavor = "multi_thread")]
async fn lost_sessions_are_told_before_the_servers_are_back() {
    let (server, zk) = start().await;
    zk.ok("create /a");
    zk.ok("create /services/web --parents");
    let lost = "the session has ended; waiting for another one\n";
    let again = "the session had ended; watching";
    let kept =
        (zk.hold("register /r"), "the node was lost; creating it again\n", "registered again\n");
    let watchers = ["watch /a", "watch /a -R", "discover web --watch"];
    let running: Vec<_> =
        watchers.map(|line| (watching(&zk, line), lost, again)).into_iter().chain([kept]).collect();
    server.refuse_connects(0);
    server
        .with(|ensemble| ensemble.sessions().map(|session| session.id).collect::<Vec<_>>())
        .into_iter()
        .for_each(|session| server.connection_of(session).cut(Cut::Rst));
    for (command, lost, _) in &running {
        command.notes(lost);
        assert_eq!(command.stderr().matches(lost).count(), 1, "{command}");
    }
    server.accept_connects(0);
    for (command, _, again) in &running {
        command.notes(again);
        assert_eq!(command.stderr().matches(*again).count(), 1, "{command}");
    }
}

/// The servers keep the session for longer than the outage, or not. A candidate that opened another session
/// needlessly had to wait behind its own old node.
#[tokio::test(flavor = "multi_thread")]
async fn candidate_leads_again_after_an_outage() {
    for expires in [true, false] {
        let tick = Duration::from_millis(if expires { 200 } else { 500 });
        let (server, zk) = start_with(Settings::new().tick_time(tick)).await;
        let journal = Journal::new();
        let other = operator(&server).await;
        let held = if expires {
            zk.clone().option("--retry", "1")
        } else {
            Zk::new(server.connect_string()).session_timeout(Duration::from_secs(10))
        };
        let mut candidate = held.journal(&journal).start(&["elect", "/e", "--", "sh", "-c", HOLD]);
        until("nobody leads", || !journal.entered().is_empty());
        let session = session_beside(&server, &other);
        server.refuse_connects(0);
        if expires {
            assert!(server.expire(session));
        } else {
            server.connection_of(session).cut(Cut::Rst);
        }
        candidate.notes("standing again");
        if expires {
            // A command that begins now gives up before the candidate does.
            zk.clone().option("--retry", "2").fails("exists /", 69, "");
            assert!(!candidate.has_ended(), "{candidate}");
        }
        server.accept_connects(0);
        until("it does not lead again", || journal.entered().len() == 2);
        if !expires {
            assert_eq!(session_beside(&server, &other), session);
            let nodes = other.get_children("/e").await.unwrap().names.len();
            assert_eq!(nodes, 1, "the old node is gone");
        }
        candidate.finish();
    }
}

/// Handshakes succeed, but no request is answered. Examples are a stopped process behind a load
/// balancer, and a server with a dead disk.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_fails_when_server_answers_only_handshakes() {
    let (_healthy, zk) = start().await;
    let holder = zk.hold("lock /l");
    let mut waiter = zk.start("lock /l -- echo in");
    until("it does not queue", || zk.ok("participants /l").lines().count() == 2);

    let (server, silent) = start().await;
    server.on_any_request().always().never_answer();
    let lines = [
        "lock /l -- true",
        "lock /l --timeout 0 -- true",
        "lock /l --timeout 2 -- true",
        "lock /l --timeout 100 -- true",
        "lock /l --read --timeout 0 -- true",
        "lock /l --no-reentrant --timeout 0 -- true",
        "semaphore /s --permits 2 -- true",
        "semaphore /s --permits 2 --timeout 0 -- true",
        "multilock /a /b -- true",
        "multilock /a /b --timeout 0 -- true",
        "participants /l",
        "participants /l --semaphore",
        "revoke /l/x",
        "get /l",
        "set /l x",
        "delete /l --recursive",
        "create /l/x --parents",
        "counter /c",
        "counter /c --add 1",
        "barrier /b --set",
        "barrier /b --timeout 2",
        "discover web --watch",
    ];
    let running = lines.map(|line| (line, silent.start(line)));
    let watcher = silent.start("watch /l");
    for (line, running) in running {
        let ended = running.wait(2 * LIMIT);
        assert_eq!(ended.code(), Some(69), "{line}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{line}: {ended:?}");
    }
    watcher.wait(2 * LIMIT).expect_failure(69, "/l");

    // The other waiter has waited for its lock for just as long, without any fault.
    assert!(!waiter.has_ended());
    holder.finish();
    assert_eq!(waiter.ends(0).stdout, "in\n");
}

/// One request is never answered. Requests before and after it are answered, and so are pings.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_request_is_retried_on_another_connection() {
    let mut running = Vec::new();
    for (line, op) in [
        ("lock /l -- true", Op::Create2),
        ("lock /l -- true", Op::GetChildren2),
        ("lock /l -- true", Op::Delete),
        ("multilock /a /b -- true", Op::Create2),
        ("semaphore /s --permits 2 -- true", Op::GetChildren2),
        ("participants /l", Op::GetChildren2),
    ] {
        let (server, zk) = start().await;
        zk.ok("create /l");
        let lost = server.on(op).never_answer();
        running.push((line, op, lost, zk.start(line)));
    }
    for (line, op, lost, running) in running {
        let ended = running.wait(2 * LIMIT);
        assert_eq!((ended.code(), lost.count()), (Some(0), 1), "{line} {op:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_lock_times_out_when_server_stops_answering() {
    let (server, zk) = start().await;
    let _holder = zk.hold("lock /l");
    let waiter = zk.start("lock /l --timeout 5 -- true");
    until("it does not queue", || zk.ok("participants /l").lines().count() == 2);
    server.on_any_request().always().never_answer();
    waiter.wait(LIMIT).expect_failure(75, "not acquired in time");
}

/// Nobody's session ends, so no server ever deletes it.
#[tokio::test(flavor = "multi_thread")]
async fn persistent_node_in_a_queue_is_named_as_one_that_stays() {
    let (_server, zk) = start().await;
    zk.ok("create --parents /l/lock-0000000000");
    let says = "/l/lock-0000000000 is persistent and stays until zk delete";
    zk.fails("lock /l --timeout 1 -- true", 75, says);
    zk.ok("delete /l/lock-0000000000");
    zk.ok("lock /l --timeout 1 -- true");
}

const LOCKS: [&str; 3] = ["lock /l", "semaphore /s --permits 3 --take 2", "multilock /a /b /c"];

#[tokio::test(flavor = "multi_thread")]
async fn exit_status_is_kept_when_release_is_impossible() {
    // No lock can be released any more: the nodes are deleted when the session expires.
    let stop: fn(&TestServer) = |server| server.stall(0);
    let silence: fn(&TestServer) = |server| drop(server.on_any_request().always().never_answer());
    let mut holders = Vec::new();
    for (lock, end) in LOCKS.iter().flat_map(|lock| [(lock, stop), (lock, silence)]) {
        let (server, zk) = start().await;
        let mut holder = zk.script(lock, "echo in; cat >/dev/null; exit 7", "in\n");
        end(&server);
        holder.end_input();
        holders.push((lock, holder, server));
    }
    for (lock, holder, _server) in holders {
        let ended = holder.wait(2 * LIMIT);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(7), ""), "{lock}");
    }
}

/// Otherwise nobody could have the lock until the server expires the session.
#[tokio::test(flavor = "multi_thread")]
async fn holder_that_lost_its_lock_in_an_outage_deletes_its_node() {
    for interrupted in [false, true] {
        let (server, zk) = start().await;
        let holders = LOCKS.map(|lock| zk.hold(lock));
        server.refuse_connects(0);
        server.connections().cut(Cut::Rst);
        holders.iter().for_each(|holder| holder.notes("waiting for a server"));
        if interrupted {
            holders.iter().for_each(|holder| holder.signal("INT"));
        } else {
            server.accept_connects(0);
        }
        for holder in holders {
            let ended = holder.ends(74);
            assert!(ended.stderr.contains("the lock was lost"), "{ended:?}");
        }
        server.accept_connects(0);
        if !interrupted {
            // No node is left, though no session has expired.
            assert_eq!(zk.ok("ls /l") + &zk.ok("ls /a"), "");
            assert!(!zk.ok("tree /s").contains("lease-"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_holder_reports_how_long_it_did_not_run() {
    let (_server, zk) = start().await;
    let holder = zk.hold("lock /l");
    holder.signal("STOP");
    zk.ok("lock /l -- true"); // once the session has expired
    holder.signal("CONT");
    let ended = holder.ends(74);
    assert!(ended.stderr.contains("this process did not run for "), "{ended:?}");
}

/// A pager that was stopped, or a terminal after ctrl-S.
#[tokio::test(flavor = "multi_thread")]
async fn verbose_lock_needs_no_reader_of_standard_error() {
    let (_server, zk) = start().await;
    let journal = Journal::new();
    let (mut stderr, _unread) = UnixStream::pair().unwrap();
    stderr.set_nonblocking(true).unwrap();
    while stderr.write(&[b'x'; 1024]).is_ok() {}
    stderr.set_nonblocking(false).unwrap();
    let script = format!("exec zk --session-timeout 4 --verbose lock /l -- sh -c '{HOLD}'");
    let mut holder = zk.shell(&script);
    holder.stdin(Stdio::piped()).stderr(OwnedFd::from(stderr)).env("JOURNAL", journal.path());
    let mut holder = holder.spawn().unwrap();
    until("nobody got in", || journal.entered().len() == 1);
    drop(holder.stdin.take());
    let ended = poll(LIMIT, || holder.try_wait().unwrap()).expect("it does not end");
    assert!(ended.success(), "{ended:?}");
    zk.prints("ls /l", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_end_at_once_are_reopened_with_pauses() {
    let (server, zk) = start().await;
    let ended = server.on(Op::Create2).always().answer(ErrorCode::SESSION_EXPIRED);
    zk.fails("lock /l --timeout 3 -- true", 69, "");
    // The pauses double from 50 ms to one second, and each may be shortened by half.
    assert!((2..=10).contains(&ended.count()), "{} sessions in 3 s", ended.count());
}

#[test]
fn watcher_can_be_interrupted_before_it_connects() {
    for line in ["watch /a", "top /a"] {
        for (signal, number) in [("INT", 2), ("TERM", 15)] {
            let silent = TcpListener::bind("127.0.0.1:0").unwrap();
            let watcher = Zk::new(silent.local_addr().unwrap().to_string()).start(line);
            let _connection = silent.accept().unwrap();
            watcher.signal(signal);
            let ended = watcher.wait(LIMIT);
            expect_end_by(&ended, number);
            assert_eq!(ended.stderr, "zk: interrupted\n");
        }
    }
}
