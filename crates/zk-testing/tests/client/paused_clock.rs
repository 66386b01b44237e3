//! Tests of sessions and locks over hours of virtual time, in memory with a paused clock.

use std::time::Duration;

use tokio::time::Instant;
use zk_recipes::Mutex;
use zk_session::{CreateMode, SessionEvent};
use zk_testing::{Settings, TestServer};

use crate::in_memory::client_of;

#[tokio::test(start_paused = true)]
async fn client_keeps_its_session_for_an_hour() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    // reason: an hour of virtual time must pass for the session
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(server.with(|truth| truth.tree().contains("/e")));
    assert_eq!(server.with(|truth| truth.sessions().count()), 1);
}

#[tokio::test(start_paused = true)]
async fn mutex_passes_to_next_waiter_when_holder_session_expires() {
    let server = TestServer::in_memory();
    let (first, second) = (client_of(&server, 0).await, client_of(&server, 0).await);
    let held = Mutex::new(&first, "/locks/a").unwrap().acquire().await.unwrap();
    let token = held.token().unwrap();
    let waiting = tokio::spawn(async move {
        let lock = Mutex::new(&second, "/locks/a").unwrap();
        (lock.acquire().await.unwrap(), second)
    });
    while server.with(|truth| truth.tree().node("/locks/a").unwrap().stat().num_children) < 2 {
        tokio::task::yield_now().await;
    }
    assert!(server.expire(first.session_id()));
    let (next, _second) = waiting.await.unwrap();
    assert!(next.token().unwrap() > token);
    held.lost().await;
    assert!(!held.is_held());
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lock_on_cut_follower_is_lost_before_leader_deletes_node() {
    let settings = Settings::new().servers(3).sync_limit(20);
    let server = TestServer::in_memory_with(settings);
    let client = client_of(&server, 1).await;
    let guard = Mutex::new(&client, "/locks/a").unwrap().acquire().await.unwrap();
    let node = guard.node().to_owned();
    server.cut_from_leader(1);
    guard.lost().await;
    assert!(!guard.is_held());
    let lost_at = now();
    assert!(server.with(|truth| truth.tree().contains(&node)), "still there, at the leader");
    while server.with(|truth| truth.tree().contains(&node)) {
        // reason: virtual time must pass for the leader to expire the session
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(now() > lost_at);
}

#[tokio::test(start_paused = true)]
async fn client_reconnects_after_server_was_stopped() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let mut events = client.events();
    server.stall(0);
    while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
    server.resume(0);
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which the test has stopped")]
fn now() -> Instant {
    Instant::now()
}
