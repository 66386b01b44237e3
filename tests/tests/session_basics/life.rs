//! Tests of the end of sessions: closed or expired, and the events and errors that report it.

use std::time::Duration;

use zk_recipes::session::{
    Client, CreateMode, ErrorKind, Outcome, RetryOn, SessionEnd, SessionEvent, SessionEvents,
    SessionId,
};
use zk_tests::{
    Settings, connect, is_listed, now, open, own_shared_zookeeper, pass, poll, zookeeper_with,
};

use crate::{LIMIT, client};

#[tokio::test(flavor = "multi_thread")]
async fn close_removes_ephemeral_nodes_at_once() {
    let Some(server) = own_shared_zookeeper() else { return };
    let observer = client("close").await.unwrap();
    let client = open(&(server.connect_string() + "/close")).await;
    let session_id = client.session_id();
    let mut events = client.events();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    assert!(is_listed(server, session_id));
    let last = client.create("/last", b"", CreateMode::Ephemeral);
    client.close().await;
    assert_eq!(observer.exists("/e").await.unwrap(), None);
    assert_eq!(observer.exists("/last").await.unwrap(), None);
    last.await.unwrap(); // it was sent before the close, and answered
    assert!(!is_listed(server, session_id));

    assert_eq!(events.next().await, Some(SessionEvent::Closed { session_id }));
    assert_eq!(events.next().await, None);
    let error = client.create("/e", b"", CreateMode::Ephemeral).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::SessionEnded(SessionEnd::Closed));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    client.close().await; // a second call has no effect
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_last_handle_closes_session() {
    let Some(server) = own_shared_zookeeper() else { return };
    let observer = client("drop").await.unwrap();
    let client = open(&(server.connect_string() + "/drop")).await;
    let session_id = client.session_id();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let (_, gone) = observer.get_data_and_watch("/e").await.unwrap();
    drop(client.clone());
    observer.sync("/").await.unwrap();
    assert!(observer.exists("/e").await.unwrap().is_some(), "one handle is left");
    drop(client);
    // The session is closed long before its timeout.
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap().unwrap();
    poll(LIMIT, || (!is_listed(server, session_id)).then_some(())).expect("it lives on");
}

/// The client expires its session without an answer from a server.
#[tokio::test(flavor = "multi_thread")]
async fn session_expires_locally_and_reports_it_once() {
    let Some(server) = zookeeper_with(&Settings::default().tick_ms(250)) else { return };
    let client = connect(&server.connect_string(), TIMEOUT).await;
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let (_, watch) = client.get_data_and_watch("/").await.unwrap();
    let mut events = client.events();
    let session_id = client.session_id();

    server.pause().unwrap();
    let paused_at = now();
    let cause = SessionEnd::ExpiredLocally { paused: None };
    expect_expired(&mut events, session_id, &[cause]).await;
    let took = paused_at.elapsed();
    assert!(took < TIMEOUT * 4 / 3 + ALLOWANCE, "told after {took:?}");
    expect_over(&client, watch, cause).await;

    // The server expires the session as well.
    server.resume().unwrap();
    poll(LIMIT, || (!is_listed(&server, session_id)).then_some(())).expect("it lives on");
    let other = connect(&server.connect_string(), TIMEOUT).await;
    assert_eq!(other.exists("/e").await.unwrap(), None);
}

/// The only thread of the runtime is blocked. The client finds its session expired afterwards.
#[test]
fn blocked_client_reports_expired_session() {
    let Some(server) = zookeeper_with(&Settings::default().tick_ms(250)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&server.connect_string(), TIMEOUT).await;
        client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
        let (_, watch) = client.get_data_and_watch("/").await.unwrap();
        let mut events = client.events();
        let session_id = client.session_id();

        // No task on this thread runs until the server has expired the session.
        let paused_at = now();
        poll(LIMIT, || (!is_listed(&server, session_id)).then_some(())).expect("it lives on");
        // reason: the client's own clock must also reach the timeout, or only the server could
        // report the end.
        pass(paused_at, TIMEOUT);
        let causes = [SessionEnd::Expired, SessionEnd::ExpiredLocally { paused: None }];
        let cause = expect_expired(&mut events, session_id, &causes).await;
        expect_over(&client, watch, cause).await;
    });
}

/// Waits for the end of the session. No event may follow it.
async fn expect_expired(
    events: &mut SessionEvents,
    session_id: SessionId,
    causes: &[SessionEnd],
) -> SessionEnd {
    let end = async {
        loop {
            match events.next().await {
                Some(SessionEvent::Suspended { .. }) => {}
                Some(SessionEvent::Expired { session_id: told, cause }) => {
                    assert_eq!(told, session_id);
                    return cause;
                }
                event => panic!("{event:?}"),
            }
        }
    };
    let cause = tokio::time::timeout(LIMIT, end).await.expect("nothing is told");
    assert!(causes.contains(&cause), "{cause:?}");
    assert_eq!(events.next().await, None);
    cause
}

async fn expect_over(client: &Client, watch: zk_recipes::session::Watch, cause: SessionEnd) {
    let over = ErrorKind::SessionEnded(cause);
    assert_eq!(watch.await.unwrap_err().kind(), &over);
    assert_eq!(client.end_reason(), Some(cause));
    let error = client.exists("/e").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&over, Outcome::NotApplied));
    assert!(error.retry_on() != RetryOn::SameSession);
    client.close().await; // returns at once
}

const TIMEOUT: Duration = Duration::from_secs(1);
/// Time for a machine with other work.
const ALLOWANCE: Duration = Duration::from_secs(1);
