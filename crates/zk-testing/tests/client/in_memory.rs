//! Clients of servers in memory.

use std::time::Duration;

use zk_session::{Client, Config, SessionEvent, SessionEvents};
use zk_testing::{Cut, TestServer};

/// Starts a server and connects clients to it.
pub(crate) async fn connected<const CLIENTS: usize>() -> (TestServer, [Client; CLIENTS]) {
    let server = TestServer::in_memory();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client_of(&server, 0).await);
    }
    (server, clients.try_into().unwrap())
}

/// Connects a client to one server.
pub(crate) async fn client_of(server: &TestServer, number: usize) -> Client {
    Config::new(&format!("server-{number}:1"))
        .unwrap()
        .session_timeout(Duration::from_secs(10))
        .seed(1)
        .connector(server.clone())
        .connect()
        .await
        .unwrap()
}

pub(crate) async fn until_reconnected(events: &mut SessionEvents) {
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
}

pub(crate) async fn until_suspended(events: &mut SessionEvents) {
    while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
}

/// Cuts all connections and waits until the client has the next one.
pub(crate) async fn cut_and_reconnect(server: &TestServer, client: &Client) {
    let mut events = client.events();
    server.connections().cut(Cut::Rst);
    until_reconnected(&mut events).await;
}
