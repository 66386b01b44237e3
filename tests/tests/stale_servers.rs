//! Tests of servers that are behind the session: a server that lags, and servers without the
//! session's data. A session resumes at none of them, and they do not delay its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, DisconnectReason, SessionEnd, SessionEvent};
use zk_tests::{
    Settings, connect, ensemble_in_namespaces, eventually, now, pass, zookeeper, zookeeper_with,
};

/// A follower that is cut off from the leader serves its old data for a while. It rejects a client
/// that has seen newer data until it has caught up.
#[tokio::test(flavor = "multi_thread")]
async fn session_does_not_resume_at_lagging_follower() {
    let Some(ensemble) = ensemble_in_namespaces(TICK_MS) else { return };
    let [leader, lagging] = [ensemble.leader().unwrap(), ensemble.follower().unwrap()];
    let lagging_address = ensemble.server(lagging).connect_string();
    let client = connect(&ensemble.server(leader).connect_string(), PATIENT).await;
    let session_id = client.session_id();
    client.create("/n", b"old", CreateMode::Persistent).await.unwrap();
    client.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    // A client that is connected to the follower does not notice the lag.
    let observer = connect(&lagging_address, PATIENT).await;
    observer.sync("/n").await.unwrap();
    assert_eq!(read(&observer).await, "old");

    ensemble.cut_from_leader(lagging).unwrap();
    client.set_data("/n", b"new", None).await.unwrap();
    let mut events = client.events();
    let handshakes = client.stats().frames_sent;
    client.update_servers(&lagging_address).unwrap();
    let moved = SessionEvent::Suspended { session_id, cause: DisconnectReason::Rebalanced };
    assert_eq!(next(&mut events).await, moved);
    let asked = async || (client.stats().frames_sent >= handshakes + REFUSALS).then_some(());
    eventually(LIMIT, asked).await.expect("it stopped asking");
    assert!(!client.is_connected(), "it was let in by a server that is behind");
    assert_eq!(read(&observer).await, "old", "it served all the while");

    ensemble.heal().unwrap();
    match next(&mut events).await {
        SessionEvent::Reconnected { session_id: id, host, .. } => {
            assert_eq!((id, host.to_string()), (session_id, lagging_address));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(read(&client).await, "new");
    let stat = client.exists("/mine").await.unwrap().expect("the node has stayed");
    assert_eq!(stat.ephemeral_owner, session_id);
    client.close().await;
}

/// Servers without their data are behind every existing session. They close each connection without
/// an answer, and would do so for ever.
#[tokio::test(flavor = "multi_thread")]
async fn session_ends_when_all_servers_lost_their_data() {
    let Some(before) = zookeeper_with(&Settings::default().tick_ms(500)) else { return };
    let Some(wiped) = zookeeper() else { return };
    let client = connect(&before.connect_string(), TIMEOUT).await;
    for n in 0..20 {
        client.create(&format!("/n{n}"), b"", CreateMode::Persistent).await.unwrap();
    }
    let mut events = client.events();
    let (began, session_id) = (now(), client.session_id());
    client.update_servers(&wiped.connect_string()).unwrap();
    let moved = SessionEvent::Suspended { session_id, cause: DisconnectReason::Rebalanced };
    assert_eq!(next(&mut events).await, moved);
    let cause = SessionEnd::ExpiredLocally { paused: None };
    assert_eq!(next(&mut events).await, SessionEvent::Expired { session_id, cause });
    println!("over after {:?} with a timeout of {TIMEOUT:?}", began.elapsed());
    assert!(client.stats().frames_sent < 100, "it hammered: {:?}", client.stats());
    pass(began, TIMEOUT); // waits until the timeout has passed
    // A new session has seen no data yet.
    let anew = connect(&wiped.connect_string(), 4 * TIMEOUT).await;
    assert_eq!(anew.exists("/n1").await.unwrap(), None);
    anew.close().await;
}

async fn read(client: &Client) -> String {
    let data = client.get_data("/n").await.unwrap().data;
    String::from_utf8(data.to_vec()).unwrap()
}

async fn next(events: &mut zk_recipes::session::SessionEvents) -> SessionEvent {
    tokio::time::timeout(LIMIT, events.next()).await.expect("no event").expect("no more events")
}

const TICK_MS: u32 = 2000;
/// Outlasts the time during which the follower lags.
const PATIENT: Duration = Duration::from_secs(40);
const TIMEOUT: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);
/// Handshakes that the lagging server must reject before the test continues.
const REFUSALS: u64 = 3;
