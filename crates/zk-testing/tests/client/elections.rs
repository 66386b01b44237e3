//! Tests of a client through elections and crashes.

use zk_session::{Client, Config, CreateMode, Outcome};
use zk_testing::TestServer;

use crate::in_memory::{client_of, until_reconnected};

/// Connects a client that knows all three servers of an ensemble.
async fn client_of_all(server: &TestServer) -> Client {
    let config = Config::new("server-0:1,server-1:1,server-2:1").unwrap();
    config.seed(1).connector(server.clone()).connect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn session_survives_an_election() {
    let server = TestServer::ensemble(3);
    let client = client_of_all(&server).await;
    let mut events = client.events();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    for leader in [2, 1, 0] {
        assert!(server.elect(leader));
        assert_eq!(server.leader(), leader);
        until_reconnected(&mut events).await;
        assert!(client.exists("/e").await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn session_survives_crash_of_every_server_in_turn() {
    let server = TestServer::ensemble(3);
    let client = client_of_all(&server).await;
    let mut events = client.events();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    for number in 0..3 {
        let successor = (number + 1) % 3;
        server.kill(number);
        assert!(server.elect(successor));
        until_reconnected(&mut events).await;
        assert!(client.exists("/e").await.unwrap().is_some());
        server.restart(number);
    }
}

#[tokio::test(start_paused = true)]
async fn isolated_leader_answers_syncs_but_no_writes() {
    let server = TestServer::ensemble(3);
    let client = client_of(&server, 0).await;
    assert!(server.isolate_leader(1));
    client.sync("/").await.unwrap();
    let error = client.create("/a", b"", CreateMode::Persistent).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(server.with(|ensemble| !ensemble.tree().contains("/a")));
    // The client is connected to the old leader again. It closes the connection when it follows.
    let mut events = client.events();
    server.heal(0);
    until_reconnected(&mut events).await;
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
}
