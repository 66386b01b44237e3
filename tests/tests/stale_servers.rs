//! A test of a server that is behind the session.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, DisconnectReason, SessionEvent};
use zk_tests::{connect, ensemble_in_namespaces, eventually};

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
const LIMIT: Duration = Duration::from_secs(60);
/// Handshakes that the lagging server must reject before the test continues.
const REFUSALS: u64 = 3;
