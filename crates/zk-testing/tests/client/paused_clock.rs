//! Tests of sessions over hours of virtual time, in memory with a paused clock.

use std::time::Duration;

use zk_session::CreateMode;

use crate::in_memory::{connected, until_reconnected, until_suspended};

#[tokio::test(start_paused = true)]
async fn client_keeps_its_session_for_an_hour() {
    let (server, [client]) = connected().await;
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    // reason: an hour of virtual time must pass for the session
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(server.with(|ensemble| ensemble.tree().contains("/e")));
    assert_eq!(server.with(|ensemble| ensemble.sessions().count()), 1);
}

#[tokio::test(start_paused = true)]
async fn client_reconnects_after_server_was_stopped() {
    let (server, [client]) = connected().await;
    let mut events = client.events();
    server.stall(0);
    until_suspended(&mut events).await;
    server.resume(0);
    until_reconnected(&mut events).await;
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
}
