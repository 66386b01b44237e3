//! Tests of sessions, watches and outcomes while servers of an ensemble of three fail and return.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use tokio::sync::Mutex;
use zk_recipes::session::{
    Client, Config, CreateMode, Error, EventType, Outcome, RetryOn, SessionEvent,
};
use zk_tests::{Ensemble, Settings, connect, ensemble, or_skip};

/// The session's connection breaks with the old leader, and the ensemble holds an election.
#[tokio::test(flavor = "multi_thread")]
async fn session_nodes_and_watches_survive_death_of_leader() {
    let _alone = ONE_AT_A_TIME.lock().await;
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

/// No further byte arrives on the connection, and no end of the stream.
#[tokio::test(flavor = "multi_thread")]
async fn session_leaves_a_paused_server() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    for role in [Ensemble::follower, Ensemble::leader] {
        let server = role(&ensemble).unwrap();
        let client = connect_first_to(&ensemble, server, TIMEOUT).await;
        let session_id = client.session_id();
        client.create("/s", b"", CreateMode::Ephemeral).await.unwrap();

        ensemble.server(server).pause().unwrap();
        back(&client).await;
        assert_eq!(client.session_id(), session_id, "moved in time");
        assert!(stays(async || client.exists("/s").await).await.is_some());
        ensemble.server(server).resume().unwrap();
        client.close().await;
        ensemble.await_serving().unwrap();
    }
}

/// The reported outcome of a write must be true once the ensemble serves again.
#[tokio::test(flavor = "multi_thread")]
async fn write_outcomes_are_true_when_leader_dies() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    let leader = ensemble.leader().unwrap();
    let client = connect_first_to(&ensemble, leader, PATIENT).await;
    let make = |n: usize| client.create(&format!("/n{n}"), b"", CreateMode::Persistent);
    make(0).await.unwrap();
    let asked: Vec<_> = (1..=WRITES).map(make).collect();
    ensemble.server(leader).kill();
    let mut told = Vec::new();
    for answer in asked {
        told.push(answer.await.map(|_| ()));
    }
    back(&client).await;
    stays(async || client.sync("/").await).await;
    for (n, told) in (1..).zip(&told) {
        let there = stays(async || client.exists(&format!("/n{n}")).await).await.is_some();
        match told {
            Ok(()) => assert!(there, "/n{n} was made"),
            Err(error) if error.outcome() == Outcome::NotApplied => {
                assert!(!there, "/n{n} was not made: {error}");
            }
            Err(_) => {} // nobody knows
        }
    }
    println!("{} of {WRITES} answered", told.iter().filter(|told| told.is_ok()).count());
}

/// Without a majority no server can expire a session or grant its locks to another client. The
/// session continues when the majority is back.
#[tokio::test(flavor = "multi_thread")]
async fn session_survives_loss_of_majority() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    let all = ensemble.connect_string();
    let client = connect(&all, PATIENT).await;
    let session_id = client.session_id();
    client.create("/m", b"", CreateMode::Ephemeral).await.unwrap();
    let down = [ensemble.leader().unwrap(), ensemble.follower().unwrap()];
    for server in down {
        ensemble.server(server).kill();
    }
    let waiting = stays(async || client.set_data("/m", b"x", None).await);
    for server in down {
        ensemble.server(server).launch().unwrap();
    }
    let stat = tokio::time::timeout(LIMIT, waiting).await.expect("no answer");
    assert_eq!((stat.ephemeral_owner, client.session_id()), (session_id, session_id));
}

/// In the end, neither the server of the connect string nor the members at the time of the connect run.
#[tokio::test(flavor = "multi_thread")]
async fn session_follows_members_of_a_reconfigured_ensemble() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let settings = Settings::default()
        .tick_ms(TICK_MS)
        .config("reconfigEnabled", "true")
        .jvm_flag("-Dzookeeper.skipACL=yes");
    let Some(ensemble) = or_skip(settings.start_ensemble(4)) else { return };
    let id = |index| ensemble.id(index);
    let admin = connect(&ensemble.connect_string(), PATIENT).await;
    stays(async || admin.reconfig(&[], &[id(2), id(3)], None).await).await;

    let config = Config::new(&ensemble.server(0).connect_string()).unwrap();
    let client = config.session_timeout(PATIENT).follow_members().connect().await.unwrap();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let lines = [ensemble.line(2), ensemble.line(3)];
    let joining: Vec<&str> = lines.iter().map(String::as_str).collect();
    let members = stays(async || admin.reconfig(&joining, &[id(1)], None).await).await.members;
    assert_eq!(members.len(), 3);
    // Behind the change, and so behind the event of the session's watch.
    stays(async || client.sync("/").await).await;
    tokio::time::sleep(FOLLOWED).await; // reason: a session does not show its list of servers

    for gone in [0, 1] {
        ensemble.server(gone).kill();
    }
    back(&client).await;
    assert!(stays(async || client.exists("/e").await).await.is_some());
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

/// Each test runs three servers. Several ensembles at once would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const TICK_MS: u32 = 2000;
const TIMEOUT: Duration = Duration::from_secs(12);
/// Outlasts an election on a busy machine. With a shorter timeout the session would expire locally.
const PATIENT: Duration = Duration::from_secs(40);
/// Far longer than a request for the configuration takes, after the event.
const FOLLOWED: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(120);
const DRAWS: usize = 60;
const WRITES: usize = 2_000;
