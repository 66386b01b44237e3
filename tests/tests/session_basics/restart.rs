//! Tests of a session whose server is killed and restarted.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::{CreateMode, ErrorKind, Outcome, RetryOn, SessionEvent};
use zk_tests::{connect, now, shared_zookeeper, zookeeper};

use crate::LIMIT;
use crate::relay::Relay;

#[tokio::test(flavor = "multi_thread")]
async fn session_and_nodes_survive_server_restart() {
    let Some(server) = zookeeper() else { return };
    let client = connect(&server.connect_string(), TIMEOUT).await;
    let session_id = client.session_id();
    let created = client.create("/e", b"x", CreateMode::Ephemeral).await.unwrap();
    for _ in 0..ROUNDS {
        let mut events = client.events();
        server.kill();
        // This request waits for a server and is not lost.
        let waiting = tokio::spawn(client.exists("/e"));
        server.restart().unwrap();

        let event = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
        let Some(SessionEvent::Suspended { session_id: suspended, .. }) = event else {
            panic!("{event:?}");
        };
        let event = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
        let Some(SessionEvent::Reconnected { session_id: resumed, timeout, .. }) = event else {
            panic!("{event:?}");
        };
        assert_eq!((suspended, resumed, timeout), (session_id, session_id, TIMEOUT));
        match waiting.await.unwrap() {
            Ok(stat) => assert_eq!(stat.unwrap().czxid, created.stat.czxid),
            // The request was sent before the client noticed the loss. A read changes no data.
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::ConnectionLost(_)), "{error}");
                assert_eq!(
                    (error.outcome(), error.retry_on()),
                    (Outcome::NotApplied, RetryOn::SameSession)
                );
            }
        }
        let stat = client.exists("/e").await.unwrap().unwrap();
        assert_eq!((stat.czxid, stat.ephemeral_owner), (created.stat.czxid, session_id));
    }
}

/// ZooKeeper 3.8 accepts connections before it serves, and fails to close them. A handshake on such
/// a connection is never answered. One of them must cost neither the session nor a lock.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_handshake_costs_no_session() {
    let Some(server) = shared_zookeeper() else { return };
    let relay = Relay::start(server.address());
    let client = connect(&server.connect_string_through(relay.address()), SHORT).await;
    let session_id = client.session_id();
    let guard = Mutex::new(&client, "/unanswered").unwrap().acquire().await.unwrap();
    let mut events = client.events();
    let cut_at = now();
    relay.cut_and_swallow(1);
    loop {
        match tokio::time::timeout(2 * SHORT, events.next()).await.expect("no news") {
            Some(SessionEvent::Suspended { .. }) => {}
            Some(SessionEvent::Reconnected { session_id: resumed, .. }) => {
                assert_eq!(resumed, session_id);
                break;
            }
            event => panic!("{event:?} {:?} after the cut", cut_at.elapsed()),
        }
    }
    assert_eq!(relay.left_to_swallow(), 0);
    println!("reconnected {} ms after the cut", cut_at.elapsed().as_millis());
    guard.check().await.unwrap();
    guard.release().await.unwrap();
}

/// Some writes that the dying server received are applied, and some are not. The outcome that the
/// client reports for each write must be true.
#[tokio::test(flavor = "multi_thread")]
async fn write_outcomes_are_true_when_server_restarts() {
    let Some(server) = zookeeper().map(Arc::new) else { return };
    let client = connect(&server.connect_string(), TIMEOUT).await;
    let mut writes = Vec::new();
    let mut write = |number: usize| {
        let path = format!("/n{number}");
        let write = client.create(&path, b"", CreateMode::Persistent);
        writes.push((path, write));
    };
    (0..WRITES / 4).for_each(&mut write);
    client.sync("/").await.unwrap();
    // The server dies somewhere in the second quarter, or soon after it.
    let killed = tokio::task::spawn_blocking({
        let server = Arc::clone(&server);
        move || server.kill()
    });
    (WRITES / 4..WRITES / 2).for_each(&mut write);
    killed.await.unwrap();
    (WRITES / 2..WRITES).for_each(&mut write);
    server.restart().unwrap();
    let (mut applied, mut not_applied, mut unknown) = (0, 0, 0);
    for (path, write) in writes {
        let result = tokio::time::timeout(LIMIT, write).await.expect("an answer to every request");
        let exists = client.exists(&path).await.unwrap().is_some();
        match result.map_err(|error| error.outcome()) {
            Ok(_) => {
                assert!(exists, "{path} was said to exist");
                applied += 1;
            }
            Err(Outcome::NotApplied) => {
                assert!(!exists, "{path} was said not to exist");
                not_applied += 1;
            }
            Err(Outcome::Unknown) => unknown += 1,
            Err(Outcome::Applied) => panic!("{path}: an answer that cannot be understood"),
        }
    }
    println!("{applied} applied, {not_applied} not, {unknown} unknown");
}

/// Far longer than a restart takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Long enough to connect twice.
const SHORT: Duration = Duration::from_secs(6);
const ROUNDS: usize = 2;
const WRITES: usize = 2000;
