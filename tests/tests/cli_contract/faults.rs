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
use crate::{LIMIT, expect_failure};

#[tokio::test(flavor = "multi_thread")]
async fn read_is_retried_when_its_answer_is_lost() {
    let (server, zk) = start().await;
    zk.ok(&["create", "/a", "x"]);
    let reads: [(&[&str], Op, &str); 4] = [
        (&["get", "/a"], Op::GetData, "x"),
        (&["exists", "/a"], Op::Exists, "true\n"),
        (&["stat", "/a"], Op::Exists, "czxid"),
        (&["ls", "/"], Op::GetChildren2, "a\nzookeeper\n"),
    ];
    for (arguments, op, says) in reads {
        let before = server.on(op).times(2).by(Cut::Rst).drop_before_applying();
        let after = server.on(op).apply_then_drop_reply();
        assert!(zk.ok(arguments).contains(says), "{arguments:?}");
        assert_eq!((before.count(), after.count()), (2, 1), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_was_not_applied_is_retried_in_next_session() {
    let (server, zk) = start().await;
    let steps: [(&[&str], Op); 5] = [
        (&["create", "/a", "x", "--sequential"], Op::Create2),
        (&["set", "/", "x"], Op::SetData),
        (&["get", "/"], Op::GetData),
        (&["participants", "/"], Op::GetChildren2),
        (&["delete", "/a0000000000"], Op::Delete),
    ];
    for (arguments, op) in steps {
        let over = server.on(op).answer(ErrorCode::SESSION_EXPIRED);
        zk.ok(arguments);
        assert_eq!(over.count(), 1, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_write_is_retried_but_write_of_unknown_outcome_not() {
    let (server, zk) = start().await;
    server.on(Op::Create2).times(2).answer(ErrorCode::THROTTLED_OP);
    assert_eq!(zk.ok(&["create", "/a-", "--sequential"]), "/a-0000000000\n");
    server.on(Op::Create2).apply_then_drop_reply();
    let ended = zk.run(&["create", "/a-", "--sequential"]);
    expect_failure(&ended, 69, "may have been applied");
    assert_eq!(zk.ok(&["ls", "/"]).matches("a-").count(), 2);

    server.on(Op::SetData).apply_then_drop_reply();
    expect_failure(&zk.run(&["set", "/a-0000000000", "x"]), 69, "may have been applied");
    assert!(zk.ok(&["stat", "/a-0000000000"]).contains("\nversion = 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_delete_survives_lost_answers_and_reports_count() {
    let (server, zk) = start().await;
    let make = || {
        for path in ["/t/a/c", "/t/b"] {
            zk.ok(&["create", path, "--parents"]);
        }
    };
    make();
    let lost = [
        server.on(Op::Delete).nth(2).apply_then_drop_reply(),
        server.on(Op::Delete).nth(4).apply_then_drop_reply(),
        server.on(Op::GetChildren2).apply_then_drop_reply(),
    ];
    zk.ok(&["delete", "/t", "--recursive"]);
    assert!(lost.iter().all(|fault| fault.count() == 1));
    assert_eq!(zk.ok(&["ls", "/"]), "zookeeper\n");

    make();
    // The first request finds that /t has children. The second and third delete /t/b and /t/a/c.
    server.on(Op::Delete).nth(4).answer(ErrorCode::NO_AUTH);
    let ended = zk.run(&["delete", "/t", "--recursive"]);
    expect_failure(&ended, 1, "NoAuth (-102); of what is below, 2 deleted");

    make();
    // The server rejects the first of the deletes that are sent at once, and applies the others.
    server.on(Op::Delete).nth(2).answer(ErrorCode::NO_AUTH);
    let ended = zk.run(&["delete", "/t", "--recursive", "--json"]);
    let said: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert!(said["error"].as_str().unwrap().contains("of what is below, 2 deleted"), "{said}");
    assert_eq!((&said["code"], &said["may_be_applied"]), (&"NoAuth".into(), &true.into()));
    assert_eq!(zk.ok(&["ls", "/t", "-R"]), "/t\n/t/b\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn import_goes_on_after_lost_answers() {
    let (server, zk) = start().await;
    zk.ok(&["create", "/to"]);
    let import = || {
        let node =
            |path, data| json!({ "path": path, "data": data, "acl": ["world:anyone:cdrwa"] });
        let mut running = zk.start(&["import", "/to", "--overwrite"]);
        running.give(format!("{}\n{}\n", node("/", "x"), node("/a", "y")).as_bytes());
        running.end_input();
        running.wait(LIMIT)
    };
    let lost = [
        server.on(Op::Create2).nth(2).apply_then_drop_reply(),
        server.on(Op::SetData).apply_then_drop_reply(),
    ];
    let ended = import();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(lost.iter().all(|fault| fault.count() == 1));
    assert_eq!(ended.stdout, "2 nodes imported, 1 of which existed\n");
    assert_eq!((zk.ok(&["get", "/to"]), zk.ok(&["get", "/to/a"])), ("x".into(), "y".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_survives_lost_connections() {
    let (server, zk) = start().await;
    zk.ok(&["create", "/a"]);
    for op in [Op::Exists, Op::GetChildren2] {
        server.on(op).drop_before_applying();
    }
    let watcher = watching(&zk);
    let mut expected = String::new();
    // The watch has fired. The request that would set it again is lost.
    for op in [Op::Exists, Op::GetChildren2] {
        for cut in [Cut::Fin, Cut::Rst] {
            let lost = server.on(op).by(cut).drop_before_applying();
            zk.ok(&["set", "/a", "x"]);
            expected += "NodeDataChanged /a\n";
            says(&watcher, &expected);
            assert_eq!(lost.count(), 1, "{op:?} {cut:?}");
        }
    }
    zk.ok(&["delete", "/a"]);
    says(&watcher, &(expected + "NodeDeleted /a\n"));
    watcher.signal("TERM");
    assert_eq!(watcher.wait(LIMIT).code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_reports_changes_made_while_disconnected() {
    let (server, zk) = start().await;
    let other = Client::connect(&server.connect_string()).await.unwrap();
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let watcher = watching(&zk);
    let mut expected = String::new();
    for again in [false, true] {
        let lost = server.on(Op::Exists).drop_before_applying();
        server.refuse_connects(0);
        other.set_data("/a", b"x", None).await.unwrap();
        poll(LIMIT, || (lost.count() == 1).then_some(())).expect("the watch did not fire");
        other.delete("/a", None).await.unwrap();
        expected += "NodeDataChanged /a\nNodeDeleted /a\n";
        if again {
            other.create("/a", b"", CreateMode::Persistent).await.unwrap();
            expected += "NodeCreated /a\n";
        }
        server.accept_connects(0);
        says(&watcher, &expected);
        if !again {
            other.create("/a", b"", CreateMode::Persistent).await.unwrap();
            expected += "NodeCreated /a\n";
            says(&watcher, &expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_continues_in_a_new_session() {
    let (server, zk) = start().await;
    let other = Client::connect(&server.connect_string()).await.unwrap();
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let watcher = watching(&zk);
    let session = session_beside(&server, &other);
    server.refuse_connects(0);
    assert!(server.expire(session));
    other.create("/a/b", b"", CreateMode::Persistent).await.unwrap();
    other.set_data("/a", b"x", None).await.unwrap();
    server.accept_connects(0);
    let mut expected = "NodeDataChanged /a\nNodeChildrenChanged /a\n".to_owned();
    says(&watcher, &expected);
    assert!(watcher.stderr().contains("the session had ended"), "{}", watcher.stderr());
    other.delete("/a/b", None).await.unwrap();
    expected += "NodeChildrenChanged /a\n";
    says(&watcher, &expected);
    watcher.signal("INT");
    assert_eq!(watcher.wait(LIMIT).code(), Some(0));
}

/// After a lost connection and after the end of the session, the lines lead from the old state to the
/// new one. Nodes that did not change meanwhile have none.
#[tokio::test(flavor = "multi_thread")]
async fn recursive_watcher_reports_changes_made_meanwhile() {
    let settings = Settings::new().version(Version::V3_9);
    let server = TestServer::start_with(settings).await.unwrap();
    let zk = Zk::new(server.connect_string());
    let other = Client::connect(&server.connect_string()).await.unwrap();
    for path in ["/a", "/a/gone", "/a/same", "/a/set", "/a/again"] {
        other.create(path, b"", CreateMode::Persistent).await.unwrap();
    }
    let watcher = zk.start(&["watch", "/a", "--recursive"]);
    poll(LIMIT, || watcher.stderr().contains("watching").then_some(())).expect("not watching");
    other.set_data("/a/same", b"1", None).await.unwrap();
    let mut expected = "NodeDataChanged /a/same\n".to_owned();
    says(&watcher, &expected);
    for expires in [false, true] {
        server.refuse_connects(0);
        let session = session_beside(&server, &other);
        if expires {
            assert!(server.expire(session));
        } else {
            server.connection_of(session).cut(Cut::Rst);
        }
        other.set_data("/a/set", b"x", None).await.unwrap();
        other.delete("/a/again", None).await.unwrap();
        other.create("/a/again", b"", CreateMode::Persistent).await.unwrap();
        let (from, to) = if expires { ("/a/new", "/a/gone") } else { ("/a/gone", "/a/new") };
        other.delete(from, None).await.unwrap();
        other.create(to, b"", CreateMode::Persistent).await.unwrap();
        server.accept_connects(0);
        expected += &format!("NodeDeleted {from}\nNodeDeleted /a/again\nNodeCreated /a/again\n");
        expected += &format!("NodeCreated {to}\nNodeDataChanged /a/set\n");
        says(&watcher, &expected);
    }
    assert!(watcher.stderr().contains("the session had ended"), "{}", watcher.stderr());
}

/// Connections succeed, and the reads after an event are not answered.
#[tokio::test(flavor = "multi_thread")]
async fn watcher_outlasts_a_stalled_ensemble() {
    let mut watchers = Vec::new();
    for (option, op) in [(&[][..], Op::Exists), (&["-R"], Op::GetData)] {
        let (server, zk) = start().await;
        zk.ok(&["create", "/a"]);
        let watcher = zk.start(&[&["watch", "/a", "--data"], option].concat());
        poll(LIMIT, || watcher.stderr().contains("watching").then_some(())).expect("not watching");
        let stalled = server.on(op).always().never_answer();
        zk.ok(&["set", "/a", "x"]);
        watchers.push((server, watcher, stalled));
    }
    for (_server, watcher, stalled) in watchers {
        // The client repeats the read on a new connection each 4 s. A new command would fail after
        // 10 s.
        poll(LIMIT, || (stalled.count() >= 5).then_some(())).expect("it is not repeated");
        stalled.cancel();
        // The command may print one event twice.
        let told =
            poll(LIMIT, || Some(watcher.stdout()).filter(|text| text.ends_with('\n'))).unwrap();
        assert!(told.starts_with("NodeDataChanged /a\tx\n"), "{told}");
        watcher.signal("TERM");
        assert_eq!(watcher.wait(LIMIT).code(), Some(0));
    }
}

/// Events of nodes that the client may not read arrive from servers before 3.9.2, and after a read of
/// all nodes.
#[tokio::test(flavor = "multi_thread")]
async fn watcher_goes_on_after_data_that_it_may_not_read() {
    let (server, zk) = start().await;
    zk.ok(&["create", "/a"]);
    let watcher = zk.start(&["watch", "/a", "--recursive", "--data"]);
    poll(LIMIT, || watcher.stderr().contains("watching").then_some(())).expect("not watching");
    server.on(Op::GetData).answer(ErrorCode::NO_AUTH);
    zk.ok(&["set", "/a", "secret"]);
    let mut expected = "NodeDataChanged /a\n".to_owned();
    says(&watcher, &expected);
    zk.ok(&["set", "/a", "open"]);
    expected += "NodeDataChanged /a\topen\n";
    says(&watcher, &expected);
}

/// A server without a majority answers reads. The limit of silence, 10 s here, does not end the wait.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_wait_for_a_majority() {
    let (server, zk) = start().await;
    let zk = zk.option("--retry", "5");
    zk.ok(&["create", "/a"]);
    server.make_read_only(0);
    let waits = zk.start(&["--read-only", "barrier", "/b"]);
    let queues = zk.start(&["--read-only", "lock", "/l", "--", "echo", "leads"]);
    for waiter in [&waits, &queues] {
        let told = || waiter.stderr().contains("lost the majority; waiting").then_some(());
        poll(LIMIT, told).unwrap_or_else(|| panic!("not told: {}", waiter.stderr()));
    }
    for line in [
        &["barrier", "/b", "--timeout", "0.5"][..],
        &["lock", "/l", "--timeout", "0.5", "--", "true"],
    ] {
        let late = zk.clone().run(&[&["--read-only"], line].concat());
        assert_eq!(late.code(), Some(69), "{late:?}");
        assert!(late.stderr.contains("no server with a majority"), "{late:?}");
    }
    // Each of the two reads once a second.
    let reads = server.on(Op::Exists).always().delay(Duration::ZERO);
    poll(2 * LIMIT, || (reads.count() > 24).then_some(())).expect("no reads");
    server.make_writable(0);
    let [waited, led] = [waits, queues].map(|waiter| waiter.wait(LIMIT));
    assert_eq!(waited.code(), Some(0), "{waited:?}");
    assert_eq!((led.code(), &*led.stdout), (Some(0), "leads\n"), "{led:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_tells_that_its_session_has_ended() {
    let (server, zk) = start().await;
    zk.ok(&["barrier", "/b", "--set"]);
    let other = Client::connect(&server.connect_string()).await.unwrap();
    let waits = zk.option("--retry", "1").start(&["--verbose", "barrier", "/b"]);
    poll(LIMIT, || waits.stderr().contains("session 0x").then_some(())).expect("no session");
    server.refuse_connects(0);
    assert!(server.expire(session_beside(&server, &other)));
    let ended = waits.wait(LIMIT);
    let last = ended.stderr.lines().last().unwrap();
    let says = "zk: the session has ended, and no other one is open: connect to 127.0.0.1:";
    assert!(ended.code() == Some(69) && last.starts_with(says), "{ended:?}");
}

/// The servers are gone for longer than the session timeout.
#[tokio::test(flavor = "multi_thread")]
async fn lost_sessions_are_told_before_the_servers_are_back() {
    let (server, zk) = start().await;
    for path in ["/a", "/services/web"] {
        zk.ok(&["create", path, "--parents"]);
    }
    let command = ["--", "sh", "-c", "echo runs; exec cat"];
    let lost = "the session has ended; waiting for another one\n";
    let again = "the session had ended; watching";
    let mut running = [
        (&["watch", "/a"][..], lost, again),
        (&["watch", "/a", "-R"], lost, again),
        (&["discover", "web", "--watch"], lost, again),
        (
            &[&["register", "/r"], &command[..]].concat(),
            "zk: /r: the node was lost; creating it again\n",
            "zk: /r: registered again\n",
        ),
    ]
    .map(|(line, lost, again)| (zk.start(line), lost, again));
    let says = |command: &Running, text: &str| {
        poll(LIMIT, || (command.stderr() + &command.stdout()).contains(text).then_some(()))
            .unwrap_or_else(|| panic!("no {text}: {}", command.stderr()));
    };
    for (command, ..) in &running[..3] {
        says(command, "watching");
    }
    says(&running[3].0, "runs");
    server.refuse_connects(0);
    server
        .with(|ensemble| ensemble.sessions().map(|session| session.id).collect::<Vec<_>>())
        .into_iter()
        .for_each(|session| server.connection_of(session).cut(Cut::Rst));
    for (command, lost, _) in &running {
        says(command, lost);
        assert_eq!(command.stderr().matches(lost).count(), 1, "{}", command.stderr());
    }
    server.accept_connects(0);
    for (command, _, again) in &mut running {
        says(command, again);
        assert_eq!(command.stderr().matches(*again).count(), 1, "{}", command.stderr());
        command.end_input();
        command.signal("TERM");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn candidate_leads_again_after_a_long_outage() {
    let (server, zk) = start().await;
    let journal = Journal::new();
    let other = Client::connect(&server.connect_string()).await.unwrap();
    let held = zk.clone().journal(&journal).option("--retry", "1");
    let mut candidate = held.start(&["elect", "/e", "--", "sh", "-c", HOLD]);
    poll(LIMIT, || journal.entered().pop()).expect("nobody leads");
    server.refuse_connects(0);
    assert!(server.expire(session_beside(&server, &other)));
    poll(LIMIT, || candidate.stderr().contains("standing again").then_some(())).expect("no loss");
    // A command that begins now gives up before the candidate does.
    expect_failure(&zk.clone().option("--retry", "2").run(&["exists", "/"]), 69, "");
    assert!(!candidate.has_ended(), "{}", candidate.stderr());
    server.accept_connects(0);
    poll(LIMIT, || (journal.entered().len() == 2).then_some(())).expect("it does not lead again");
    candidate.end_input();
    assert_eq!(candidate.wait(LIMIT).code(), Some(0));
}

/// The servers keep the session for longer than the outage. A candidate that opened another one had to
/// wait behind its own old node.
#[tokio::test(flavor = "multi_thread")]
async fn candidate_keeps_the_session_that_outlives_an_outage() {
    let settings = Settings::new().tick_time(Duration::from_millis(500));
    let server = TestServer::start_with(settings).await.unwrap();
    let journal = Journal::new();
    let other = Client::connect(&server.connect_string()).await.unwrap();
    let held = Zk::new(server.connect_string()).session_timeout(Duration::from_secs(10));
    let held = held.journal(&journal);
    let mut candidate = held.start(&["elect", "/e", "--", "sh", "-c", HOLD]);
    poll(LIMIT, || journal.entered().pop()).expect("nobody leads");
    let session = session_beside(&server, &other);
    server.refuse_connects(0);
    server.connection_of(session).cut(Cut::Rst);
    poll(LIMIT, || candidate.stderr().contains("standing again").then_some(())).expect("no loss");
    server.accept_connects(0);
    poll(LIMIT, || (journal.entered().len() == 2).then_some(())).expect("it does not lead again");
    assert_eq!(session_beside(&server, &other), session);
    assert_eq!(other.get_children("/e").await.unwrap().names.len(), 1, "the old node is gone");
    candidate.end_input();
    assert_eq!(candidate.wait(LIMIT).code(), Some(0));
}

/// Returns the session that is not `other`'s.
fn session_beside(server: &TestServer, other: &Client) -> SessionId {
    server.with(|ensemble| {
        let mut sessions = ensemble.sessions().map(|session| session.id);
        sessions.find(|id| *id != other.session_id()).expect("no other session")
    })
}

/// Handshakes succeed, but no request is answered. Examples are a stopped process behind a load
/// balancer, and a server with a dead disk.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_fails_when_server_answers_only_handshakes() {
    let (healthy, zk) = start().await;
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    let mut waiter = zk.lock("/l", HOLD);
    let queued = || zk.ok(&["participants", "/l"]).lines().count() == 2;
    poll(LIMIT, || queued().then_some(())).expect("it does not queue");

    let (server, silent) = start().await;
    server.on_any_request().always().never_answer();
    let lines: [&[&str]; 22] = [
        &["lock", "/l", "--", "true"],
        &["lock", "/l", "--timeout", "0", "--", "true"],
        &["lock", "/l", "--timeout", "2", "--", "true"],
        &["lock", "/l", "--timeout", "100", "--", "true"],
        &["lock", "/l", "--read", "--timeout", "0", "--", "true"],
        &["lock", "/l", "--no-reentrant", "--timeout", "0", "--", "true"],
        &["semaphore", "/s", "--permits", "2", "--", "true"],
        &["semaphore", "/s", "--permits", "2", "--timeout", "0", "--", "true"],
        &["multilock", "/a", "/b", "--", "true"],
        &["multilock", "/a", "/b", "--timeout", "0", "--", "true"],
        &["participants", "/l"],
        &["participants", "/l", "--semaphore"],
        &["revoke", "/l/x"],
        &["get", "/l"],
        &["set", "/l", "x"],
        &["delete", "/l", "--recursive"],
        &["create", "/l/x", "--parents"],
        &["counter", "/c"],
        &["counter", "/c", "--add", "1"],
        &["barrier", "/b", "--set"],
        &["barrier", "/b", "--timeout", "2"],
        &["discover", "web", "--watch"],
    ];
    let running: Vec<Running> = lines.iter().map(|line| silent.start(line)).collect();
    let watcher = silent.start(&["watch", "/l"]);
    for (line, running) in lines.iter().zip(running) {
        let ended = running.wait(2 * LIMIT);
        assert_eq!(ended.code(), Some(69), "{line:?}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{line:?}: {ended:?}");
    }
    expect_failure(&watcher.wait(2 * LIMIT), 69, "/l");

    // The other waiter has waited for its lock for just as long, without any fault.
    assert!(!waiter.has_ended());
    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    poll(LIMIT, || (journal.entered().len() == 2).then_some(())).expect("it is not let in");
    waiter.end_input();
    assert_eq!(waiter.wait(LIMIT).code(), Some(0));
    drop(healthy);
}

/// One request is never answered. Requests before and after it are answered, and so are pings.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_request_is_retried_on_another_connection() {
    let lock = &["lock", "/l", "--", "true"][..];
    let all = &["multilock", "/a", "/b", "--", "true"][..];
    let some = &["semaphore", "/s", "--permits", "2", "--", "true"][..];
    let mut running = Vec::new();
    for (line, op) in [
        (lock, Op::Create2),
        (lock, Op::GetChildren2),
        (lock, Op::Delete),
        (all, Op::Create2),
        (some, Op::GetChildren2),
        (&["participants", "/l"], Op::GetChildren2),
    ] {
        let (server, zk) = start().await;
        zk.ok(&["create", "/l"]);
        let lost = server.on(op).never_answer();
        running.push((line, op, lost, zk.start(line)));
    }
    for (line, op, lost, running) in running {
        let ended = running.wait(2 * LIMIT);
        assert_eq!((ended.code(), lost.count()), (Some(0), 1), "{line:?} {op:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_lock_times_out_when_server_stops_answering() {
    let (server, zk) = start().await;
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let _holder = zk.lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    let waiter = zk.start(&["lock", "/l", "--timeout", "5", "--", "true"]);
    let queued = || zk.ok(&["participants", "/l"]).lines().count() == 2;
    poll(LIMIT, || queued().then_some(())).expect("it does not queue");
    server.on_any_request().always().never_answer();
    expect_failure(&waiter.wait(LIMIT), 75, "not acquired in time");
}

/// Nobody's session ends, so no server ever deletes it.
#[tokio::test(flavor = "multi_thread")]
async fn persistent_node_in_a_queue_is_named_as_one_that_stays() {
    let (_server, zk) = start().await;
    zk.ok(&["create", "--parents", "/l/lock-0000000000"]);
    let waited = zk.run(&["lock", "/l", "--timeout", "1", "--", "true"]);
    expect_failure(&waited, 75, "/l/lock-0000000000 is persistent and stays until zk delete");
    zk.ok(&["delete", "/l/lock-0000000000"]);
    zk.ok(&["lock", "/l", "--timeout", "1", "--", "true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_status_is_kept_when_release_is_impossible() {
    let script = "echo in; cat >/dev/null; exit 7";
    let locks: [&[&str]; 3] = [
        &["lock", "/l"],
        &["semaphore", "/s", "--permits", "3", "--take", "2"],
        &["multilock", "/a", "/b", "/c"],
    ];
    // No lock can be released any more: the nodes are deleted when the session expires.
    let stop: fn(&TestServer) = |server| server.stall(0);
    let silence: fn(&TestServer) = |server| drop(server.on_any_request().always().never_answer());
    let mut holders = Vec::new();
    for (lock, end) in locks.iter().flat_map(|lock| [(lock, stop), (lock, silence)]) {
        let (server, zk) = start().await;
        let mut line = lock.to_vec();
        line.extend(["--", "sh", "-c", script]);
        let mut holder = zk.start(&line);
        poll(LIMIT, || (holder.stdout() == "in\n").then_some(())).expect("nobody got in");
        end(&server);
        holder.end_input();
        holders.push((lock, holder, server));
    }
    for (lock, holder, _server) in holders {
        let ended = holder.wait(2 * LIMIT);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(7), ""), "{lock:?}");
    }
}

/// Otherwise nobody could have the lock until the server expires the session.
#[tokio::test(flavor = "multi_thread")]
async fn holder_that_lost_its_lock_in_an_outage_deletes_its_node() {
    let locks: [&[&str]; 3] = [
        &["lock", "/l"],
        &["semaphore", "/s", "--permits", "3", "--take", "2"],
        &["multilock", "/a", "/b", "/c"],
    ];
    for interrupted in [false, true] {
        let (server, zk) = start().await;
        let command = ["--", "sh", "-c", "echo in; cat"];
        let holders = locks.map(|lock| zk.start(&[lock, &command].concat()));
        for holder in &holders {
            poll(LIMIT, || (holder.stdout() == "in\n").then_some(())).expect("nobody got in");
        }
        server.refuse_connects(0);
        server.connections().cut(Cut::Rst);
        for holder in &holders {
            let waits = || holder.stderr().contains("waiting for a server").then_some(());
            poll(LIMIT, waits).unwrap_or_else(|| panic!("{}", holder.stderr()));
        }
        if interrupted {
            holders.iter().for_each(|holder| holder.signal("INT"));
        } else {
            server.accept_connects(0);
        }
        for holder in holders {
            let ended = holder.wait(LIMIT);
            assert_eq!(ended.code(), Some(74), "{ended:?}");
            assert!(ended.stderr.contains("the lock was lost"), "{ended:?}");
        }
        server.accept_connects(0);
        if !interrupted {
            // No node is left, though no session has expired.
            assert_eq!(zk.ok(&["ls", "/l"]) + &zk.ok(&["ls", "/a"]), "");
            assert!(!zk.ok(&["tree", "/s"]).contains("lease-"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_holder_reports_how_long_it_did_not_run() {
    let (_server, zk) = start().await;
    let journal = Journal::new();
    let holder = zk.clone().journal(&journal).lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    holder.signal("STOP");
    zk.ok(&["lock", "/l", "--", "true"]); // once the session has expired
    holder.signal("CONT");
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{ended:?}");
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
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    drop(holder.stdin.take());
    let ended = poll(LIMIT, || holder.try_wait().unwrap()).expect("it does not end");
    assert!(ended.success(), "{ended:?}");
    assert_eq!(zk.ok(&["ls", "/l"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_end_at_once_are_reopened_with_pauses() {
    let (server, zk) = start().await;
    let ended = server.on(Op::Create2).always().answer(ErrorCode::SESSION_EXPIRED);
    let refused = zk.run(&["lock", "/l", "--timeout", "3", "--", "true"]);
    expect_failure(&refused, 69, "");
    // The pauses double from 50 ms to one second, and each may be shortened by half.
    assert!((2..=10).contains(&ended.count()), "{} sessions in 3 s", ended.count());
}

#[test]
fn watcher_can_be_interrupted_before_it_connects() {
    for line in [["watch", "/a"], ["top", "/a"]] {
        for (signal, number) in [("INT", 2), ("TERM", 15)] {
            let silent = TcpListener::bind("127.0.0.1:0").unwrap();
            let watcher = Zk::new(silent.local_addr().unwrap().to_string()).start(&line);
            let _connection = silent.accept().unwrap();
            watcher.signal(signal);
            let ended = watcher.wait(LIMIT);
            expect_end_by(&ended, number);
            assert_eq!(ended.stderr, "zk: interrupted\n");
        }
    }
}

/// Starts a server in this process that permits short sessions, and returns a command connected to
/// it.
async fn start() -> (TestServer, Zk) {
    let settings = Settings::new().tick_time(Duration::from_millis(200));
    let server = TestServer::start_with(settings).await.unwrap();
    let zk = Zk::new(server.connect_string()).session_timeout(Duration::from_secs(4));
    (server, zk)
}

/// Starts a watcher of `/a`, and waits until it reports that it watches.
fn watching(zk: &Zk) -> Running {
    let watcher = zk.start(&["watch", "/a"]);
    poll(LIMIT, || watcher.stderr().contains("watching").then_some(()))
        .unwrap_or_else(|| panic!("not watching: {}", watcher.stderr()));
    watcher
}

/// Waits until the watcher has printed `expected`, and fails if it has printed anything else.
fn says(watcher: &Running, expected: &str) {
    let told = || watcher.stdout().len() >= expected.len();
    let told = poll(LIMIT, || told().then_some(()));
    let (stdout, stderr) = (watcher.stdout(), watcher.stderr());
    assert!(told.is_some() && stdout == expected, "{stdout}instead of\n{expected}{stderr}");
}
