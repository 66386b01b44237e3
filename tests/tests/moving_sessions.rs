//! Tests of sessions that move between clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use zk_recipes::session::{
    Config, CreateMode, ErrorOrigin, Outcome, RetryOn, SessionEnd, SessionEvent,
};
use zk_tests::{connect, ensemble, example, zookeeper};

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
            if let Some(SessionEvent::Expired { cause, .. }) = events.next().await {
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

const TICK_MS: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(8);
/// No session expires while it moves between the clients.
const PATIENT: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(60);
