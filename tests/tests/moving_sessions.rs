//! Tests of sessions that move between clients, between servers, and from a server without a quorum
//! to one with a quorum.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::{
    Config, CreateMode, DisconnectReason, ErrorKind, ErrorOrigin, Outcome, RetryOn,
    SessionCredentials, SessionEnd, SessionEvent, SessionId, Zxid,
};
use zk_tests::{Settings, connect, ensemble, example, or_skip, poll, zookeeper};

#[tokio::test(flavor = "multi_thread")]
async fn detached_session_is_resumed_by_another_client() {
    let Some(zk) = zookeeper() else { return };
    let first = connect(&zk.connect_string(), TIMEOUT).await;
    let session_id = first.session_id();
    let node = first.create("/handed", b"", CreateMode::Ephemeral).await.unwrap();
    let lock = Mutex::new(&first, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();

    let left = first.detach().unwrap();
    assert!(!guard.is_held(), "whoever is detached holds nothing");
    assert!(first.exists("/").await.is_err());
    // Another process receives the credentials as text.
    let credentials: SessionCredentials = left.to_secret_text().parse().unwrap();
    let config = Config::new(&zk.connect_string()).unwrap().session_timeout(TIMEOUT);
    let second = config.clone().resume(credentials.clone()).connect().await.unwrap();
    assert_eq!(second.session_id(), session_id);
    let stat = second.exists("/handed").await.unwrap().expect("the node has stayed");
    assert_eq!((stat.czxid, stat.ephemeral_owner), (node.stat.czxid, session_id));
    drop((guard, first)); // the drops do not end the session
    assert!(second.exists("/handed").await.unwrap().is_some());

    second.close().await;
    let third = config.resume(credentials).connect().await.unwrap_err();
    assert_eq!(*third.kind(), ErrorKind::SessionEnded(SessionEnd::Expired));
    let observer = connect(&zk.connect_string(), TIMEOUT).await;
    assert_eq!(observer.exists("/handed").await.unwrap(), None);
}

/// Two clients use one session by accident. The session belongs to the server of the latest
/// handshake. The reported outcome of the other client's writes is true, and that client regains
/// the session when it reconnects.
#[tokio::test(flavor = "multi_thread")]
async fn session_used_by_two_clients_reports_true_outcomes() {
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    let address = |index: usize| ensemble.server(index).connect_string();
    let first = connect(&address(0), PATIENT).await;
    let (session_id, credentials) = (first.session_id(), first.session_credentials().unwrap());
    first.create("/moved", b"0", CreateMode::Ephemeral).await.unwrap();
    let config = Config::new(&address(1)).unwrap().session_timeout(PATIENT);
    let second = config.resume(credentials).connect_timeout(LIMIT).connect().await.unwrap();
    assert_eq!(second.session_id(), session_id);

    let mut refused = 0;
    for (n, [owner, other]) in (1..).zip([[&second, &first], [&first, &second], [&second, &first]])
    {
        // A client that writes while the session is elsewhere is rejected or disconnected, and then
        // regains the session.
        let own = format!("{n}a");
        let (mut refusals, mut may_come_late) = (0, false);
        while let Err(error) = owner.set_data("/moved", own.as_bytes(), None).await {
            refusals += 1;
            // A thread of the server may have read this write from a connection that it closes.
            may_come_late |= error.outcome() == Outcome::Unknown;
            assert!(refusals < 100 && error.origin() != ErrorOrigin::Session, "{error}");
        }
        let theirs = format!("{n}b");
        let answer = other.set_data("/moved", theirs.as_bytes(), None).await;
        let reader = if answer.is_ok() { other } else { owner };
        let data = loop {
            match reader.get_data("/moved").await {
                Ok(node) => break node.data,
                Err(error) => assert!(error.retry_on() == RetryOn::SameSession, "{error}"),
            }
        };
        match answer {
            // The other client had already reconnected and regained the session.
            Ok(_) => assert!(data == theirs || may_come_late && data == own, "{data:?}"),
            Err(error) => {
                refused += 1;
                if error.outcome() == Outcome::NotApplied {
                    assert_eq!(data, own);
                }
                println!("round {n}: {refusals} refused, then {error}");
            }
        }
    }
    assert!(refused > 0, "nobody noticed that the session was elsewhere");
    let stat = loop {
        match second.exists("/moved").await {
            Ok(stat) => break stat.expect("the node has stayed"),
            Err(error) => assert!(error.retry_on() == RetryOn::SameSession, "{error}"),
        }
    };
    assert_eq!((stat.ephemeral_owner, first.session_id()), (session_id, session_id));
    // Closing the session at one client ends it for both.
    let mut events = second.events();
    first.close().await;
    let end = async {
        loop {
            if let SessionEvent::Expired { cause, .. } = next(&mut events).await {
                return cause;
            }
        }
    };
    let causes = [SessionEnd::Expired, SessionEnd::ExpiredLocally { paused: None }];
    assert!(causes.contains(&tokio::time::timeout(LIMIT, end).await.expect("it lives on")));
}

/// Uses the example `take_over`.
#[tokio::test(flavor = "multi_thread")]
async fn detached_session_is_resumed_by_another_process() {
    let Some(zk) = zookeeper() else { return };
    let client = connect(&zk.connect_string(), TIMEOUT).await;
    let session_id = client.session_id();
    client.create("/job", b"half done", CreateMode::Ephemeral).await.unwrap();
    let program = example("take_over");
    let left = client.detach().unwrap();
    let mut child = Command::new(program)
        .args([&zk.connect_string(), "/job", "done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = format!("{}\n", left.to_secret_text());
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let ended =
        tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{said}");
    assert_eq!(said, format!("session {session_id} goes on\n/job: half done -> done\n"));
    // The other process has left the session open as well, and the node exists.
    let observer = connect(&zk.connect_string(), TIMEOUT).await;
    let node = observer.get_data("/job").await.unwrap();
    assert_eq!((node.stat.ephemeral_owner, node.data.as_ref()), (session_id, &b"done"[..]));
    let config = Config::new(&zk.connect_string()).unwrap().session_timeout(TIMEOUT);
    let third = config.resume(left).connect().await.unwrap();
    third.close().await;
    assert_eq!(observer.exists("/job").await.unwrap(), None);
}

/// Only the right password resumes a session. A client with a wrong password does not get the
/// session, and the owner keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_is_rejected_and_owner_keeps_session() {
    let Some(zk) = zookeeper() else { return };
    let client = connect(&zk.connect_string(), TIMEOUT).await;
    let session_id = client.session_id();
    client.create("/kept", b"", CreateMode::Ephemeral).await.unwrap();
    let config = Config::new(&zk.connect_string()).unwrap().session_timeout(TIMEOUT);
    for wrong in [vec![7; 16], Vec::new(), vec![0; 99]] {
        let wrong = SessionCredentials::new(session_id, wrong, Zxid::ZERO);
        let error = config.clone().resume(wrong).connect().await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::Expired));
    }
    // A wrong password makes a standalone server close the owner's connection. The owner
    // reconnects.
    let stat = loop {
        match client.exists("/kept").await {
            Ok(stat) => break stat.expect("the node has stayed"),
            Err(error) => assert!(error.retry_on() == RetryOn::SameSession, "{error}"),
        }
    };
    assert_eq!((stat.ephemeral_owner, client.end_reason()), (session_id, None));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn update_servers_moves_session_to_new_server() {
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    let address = |index: usize| ensemble.server(index).connect_string();
    let client = connect(&address(0), TIMEOUT).await;
    let session_id = client.session_id();
    client.create("/moved", b"", CreateMode::Ephemeral).await.unwrap();
    let mut events = client.events();

    client.update_servers(&address(1)).unwrap();
    let suspended = SessionEvent::Suspended { session_id, cause: DisconnectReason::Rebalanced };
    assert_eq!(next(&mut events).await, suspended);
    match next(&mut events).await {
        SessionEvent::Reconnected { session_id: id, host, .. } => {
            assert_eq!((id, host.to_string()), (session_id, address(1)));
        }
        other => panic!("{other:?}"),
    }
    let stat = client.exists("/moved").await.unwrap().expect("the node has stayed");
    assert_eq!(stat.ephemeral_owner, session_id);

    // The server is in the list, and the list has not grown, so the client stays.
    client.update_servers(&address(1)).unwrap();
    client.exists("/moved").await.unwrap();
    assert_eq!(client.stats().connections_lost, 1);
    assert_eq!(client.stats().connected_to.unwrap().to_string(), address(1));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_client_moves_to_majority_after_update_servers() {
    let settings = Settings::default()
        .tick_ms(TICK_MS)
        .jvm_flag("-Dreadonlymode.enabled=true")
        .config("localSessionsEnabled", "true")
        .config("localSessionsUpgradingEnabled", "true");
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    let leader = ensemble.leader().unwrap();
    let alone = ensemble.follower().unwrap();
    let majority = connect(&ensemble.server(leader).connect_string(), TIMEOUT).await;
    majority.create("/n", b"known", CreateMode::Persistent).await.unwrap();
    let reader = connect(&ensemble.server(alone).connect_string(), TIMEOUT).await;
    reader.sync("/n").await.unwrap();
    reader.close().await;

    for other in (0..3).filter(|other| *other != alone) {
        ensemble.cut(alone, other).unwrap();
    }
    let server = ensemble.server(alone);
    let is_read_only = || server.four_letter("isro").ok().filter(|mode| mode.starts_with("ro"));
    poll(LIMIT, is_read_only).expect("the server never noticed that it is alone");
    majority.set_data("/n", b"new", None).await.unwrap();

    // Without `allow_read_only` the server grants no session.
    let config = Config::new(&server.connect_string()).unwrap().session_timeout(TIMEOUT);
    let refused = config.clone().connect_timeout(Duration::from_secs(3)).connect().await;
    assert!(matches!(refused.unwrap_err().kind(), ErrorKind::NoSession(_)));

    let client = config.allow_read_only().connect_timeout(LIMIT).connect().await.unwrap();
    assert!(client.is_read_only());
    assert_eq!((client.session_id(), client.session_credentials()), (SessionId::NONE, None));
    assert_eq!(client.get_data("/n").await.unwrap().data, "known");
    let error = client.set_data("/n", b"", None).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::NotReadOnly, Outcome::NotApplied));
    assert!(Mutex::new(&client, "/lock").unwrap().acquire().await.is_err());

    let mut events = client.events();
    client.update_servers(&ensemble.connect_string()).unwrap();
    let connected = async {
        loop {
            if let SessionEvent::Connected { session_id, .. } = next(&mut events).await {
                return session_id;
            }
        }
    };
    let session_id = tokio::time::timeout(LIMIT, connected).await.expect("never found another");
    assert!(
        session_id != SessionId::NONE
            && client.session_id() == session_id
            && !client.is_read_only()
    );
    assert!(is_read_only().is_some(), "it was still alone");
    assert_eq!(client.get_data("/n").await.unwrap().data, "new");
    client.set_data("/n", b"written", None).await.unwrap();
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();
    client.close().await;
}

async fn next(events: &mut zk_recipes::session::SessionEvents) -> SessionEvent {
    tokio::time::timeout(LIMIT, events.next()).await.expect("no event").expect("no more events")
}

const TICK_MS: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(8);
/// No session expires while it moves between the clients.
const PATIENT: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(60);
