//! Clients that accept a server without a quorum.

use std::time::Duration;

use zk_session::{Client, Config, CreateMode, ErrorKind, SessionEvent};
use zk_testing::TestServer;

/// Returns a client of two servers, of which it may use one without a quorum.
async fn client_of_both(server: &TestServer) -> Client {
    let config = Config::new("server-1:1,server-2:1").unwrap().seed(1).allow_read_only();
    config.connector(server.clone()).connect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn read_only_client_moves_to_a_server_that_accepts_writes() {
    let server = TestServer::ensemble(5);
    (1..3).for_each(|number| server.make_read_only(number));
    let client = client_of_both(&server).await;
    assert!(client.is_read_only());
    let error = client.create("/n", b"", CreateMode::Persistent).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotReadOnly);
    // It probes the other server meanwhile, which does not accept writes either.
    let minute = Duration::from_secs(60);
    tokio::time::sleep(10 * minute).await; // reason: virtual time
    assert!(client.is_read_only());
    assert_eq!(client.connections_lost(), 0);

    let mut events = client.events();
    let at = client.stats().connected_to.unwrap();
    let other = if at.name() == "server-1" { 2 } else { 1 };
    server.make_writable(other);
    let connected =
        async { while !matches!(events.next().await, Some(SessionEvent::Connected { .. })) {} };
    tokio::time::timeout(10 * minute, connected).await.unwrap();
    assert!(!client.is_read_only());
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
}
