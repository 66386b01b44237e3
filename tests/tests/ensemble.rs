//! Tests of sessions, watches and outcomes while servers of an ensemble of three fail and return.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, Error, EventType, Outcome, RetryOn, SessionEvent};
use zk_tests::{Ensemble, connect, ensemble};

/// The session's connection breaks with the old leader, and the ensemble holds an election.
#[tokio::test(flavor = "multi_thread")]
async fn session_nodes_and_watches_survive_death_of_leader() {
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    let leader = ensemble.leader().unwrap();
    let client = connect_first_to(&ensemble, leader, PATIENT).await;
    let session_id = client.session_id();
    let created = client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let (_, watch) = client.get_data_and_watch("/e").await.unwrap();

    ensemble.server(leader).kill();
    back(&client).await;
    assert_eq!(client.session_id(), session_id);
    let stat = stays(async || client.exists("/e").await).await.expect("the node is gone");
    assert_eq!((stat.czxid, stat.ephemeral_owner), (created.stat.czxid, session_id));

    let other = connect_to_all_but(&ensemble, leader).await;
    other.set_data("/e", b"changed", None).await.unwrap();
    let event = tokio::time::timeout(LIMIT, watch).await.expect("the watch is gone").unwrap();
    assert_eq!(event.event_type, EventType::NODE_DATA_CHANGED);

    // The old leader returns as a follower, without an effect on clients.
    ensemble.server(leader).restart().unwrap();
    assert!(!ensemble.server(leader).is_leader().unwrap());
    client.set_data("/e", b"again", None).await.unwrap();
}

/// Repeats a request as long as only the connection fails.
async fn stays<T>(ask: impl AsyncFn() -> Result<T, Error>) -> T {
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(error) if error.is_no_node() => panic!("{error}"),
            Err(error)
                if error.retry_on() == RetryOn::SameSession
                    || error.outcome() == Outcome::Unknown => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until the session has lost its connection and has a new one.
async fn back(client: &Client) {
    let mut events = client.events();
    let wait = async {
        // `is_connected` shows events from before the subscription.
        while client.is_connected() {
            if let Some(SessionEvent::Suspended { .. } | SessionEvent::Reconnected { .. }) =
                events.next().await
            {
                break;
            }
        }
        while !client.is_connected() {
            assert!(events.next().await.is_some(), "the session is over");
        }
    };
    tokio::time::timeout(LIMIT, wait).await.expect("it does not come back");
}

/// Opens a session to the whole ensemble that begins at the given server.
async fn connect_first_to(ensemble: &Ensemble, server: usize, timeout: Duration) -> Client {
    for _ in 0..DRAWS {
        let client = connect(&ensemble.connect_string(), timeout).await;
        let connections = ensemble.server(server).four_letter("cons").unwrap();
        if connections.contains(&format!("sid={},", client.session_id())) {
            return client;
        }
        client.close().await;
    }
    panic!("{DRAWS} sessions, and none at server {server}");
}

async fn connect_to_all_but(ensemble: &Ensemble, server: usize) -> Client {
    let others = (0..3).filter(|other| *other != server);
    let others: Vec<String> = others.map(|index| ensemble.server(index).connect_string()).collect();
    connect(&others.join(","), TIMEOUT).await
}

const TICK_MS: u32 = 2000;
const TIMEOUT: Duration = Duration::from_secs(12);
/// Outlasts an election on a busy machine. With a shorter timeout the session would expire locally.
const PATIENT: Duration = Duration::from_secs(40);
const LIMIT: Duration = Duration::from_secs(120);
const DRAWS: usize = 60;
