//! Tests of sessions over hours of virtual time, in memory with a paused clock.

use std::time::Duration;

use zk_session::{CreateMode, SessionEvent};
use zk_testing::TestServer;

use crate::in_memory::client_of;

#[tokio::test(start_paused = true)]
async fn client_keeps_its_session_for_an_hour() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    // reason: an hour of virtual time must pass for the session
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(server.with(|ensemble| ensemble.tree().contains("/e")));
    assert_eq!(server.with(|ensemble| ensemble.sessions().count()), 1);
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
