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
async fn session_survives_elections_and_crashes_of_leaders() {
    let server = TestServer::ensemble(3);
    let client = client_of_all(&server).await;
    let mut events = client.events();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    for (leader, is_killed) in [(2, false), (1, true), (0, false), (2, true), (1, true)] {
        let before = server.leader();
        if is_killed {
            server.kill(before);
        }
        assert!(server.elect(leader));
        assert_eq!(server.leader(), leader);
        until_reconnected(&mut events).await;
        assert!(client.exists("/e").await.unwrap().is_some());
        if is_killed {
            server.restart(before);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_of_isolated_leader_follows_its_successor() {
    let server = TestServer::ensemble(3);
    let client = client_of(&server, 0).await;
    assert!(server.isolate_leader(1));
    let error = client.create("/a", b"", CreateMode::Persistent).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    // The client is connected to the old leader again. It closes the connection when it follows.
    let mut events = client.events();
    server.heal(0);
    until_reconnected(&mut events).await;
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
}
