//! Clients of servers in memory.

use std::time::Duration;

use bytes::BytesMut;
use proto::{ConnectRequest, encode_record};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zk_session::{Client, Config, SessionEvent, SessionEvents};
use zk_testing::{Cut, SessionId, TestServer, Zxid};

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

/// Opens a session on a new connection.
pub(crate) async fn open_session(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let mut bytes = BytesMut::new();
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session_id: SessionId::NONE,
        password: vec![0; 16].into(),
        read_only: Some(false),
    };
    encode_record(&request, &mut bytes);
    stream.write_all(&bytes).await.unwrap();
    stream.read_exact(&mut [0; 41]).await.unwrap();
}
