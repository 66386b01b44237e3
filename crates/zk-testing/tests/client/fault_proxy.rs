//! Tests of the fault proxy.

use std::io::ErrorKind;
use std::time::Duration;

use crate::in_memory::until_reconnected;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_session::{Client, CreateMode};
use zk_testing::{Cut, Direction, FaultProxy, TestServer};

/// Opens a stream through a proxy. Returns the proxy and both ends of the stream.
async fn pair() -> (FaultProxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::in_front_of(listener.local_addr().unwrap()).await.unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (proxy, client, server)
}

#[tokio::test]
async fn proxy_cuts_after_a_byte_in_either_direction() {
    for (how, end) in [(Cut::Fin, Ok(0)), (Cut::Rst, Err(ErrorKind::ConnectionReset))] {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (proxy, client, server) = pair().await;
            let (mut from, mut to) = match direction {
                Direction::ToServer => (client, server),
                Direction::ToClient => (server, client),
            };
            proxy.cut_after(direction, 5, how);
            from.write_all(b"abc").await.unwrap();
            let mut bytes = [0; 3];
            to.read_exact(&mut bytes).await.unwrap();
            from.write_all(b"defg").await.unwrap();
            if how == Cut::Fin {
                let mut rest = Vec::new();
                to.read_to_end(&mut rest).await.unwrap();
                assert_eq!(rest, b"de");
            } else {
                // A reset may overtake the bytes before it.
                let error = to.read_to_end(&mut Vec::new()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            }
            assert_eq!(from.read(&mut [0; 1]).await.map_err(|error| error.kind()), end);
        }
    }
}

#[tokio::test]
async fn proxy_keeps_sockets_open_after_silent_cut() {
    let (proxy, mut client, mut server) = pair().await;
    proxy.cut_after(Direction::ToServer, 1, Cut::Silence);
    client.write_all(b"ab").await.unwrap();
    assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 1);
    server.write_all(b"c").await.unwrap();
    let silence = Duration::from_millis(50);
    assert!(tokio::time::timeout(silence, client.read(&mut [0; 1])).await.is_err());
    drop(proxy);
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0, "it ends with the proxy");
}

#[tokio::test]
async fn proxy_stalls_splits_coalesces_and_heals() {
    let (proxy, mut client, mut server) = pair().await;
    proxy.stall();
    client.write_all(b"abcdef").await.unwrap();
    let silence = Duration::from_millis(50);
    assert!(tokio::time::timeout(silence, server.read(&mut [0; 1])).await.is_err());
    proxy.split(Direction::ToServer, 2);
    proxy.resume();
    let mut bytes = [0; 6];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"abcdef");

    proxy.heal();
    proxy.coalesce(Direction::ToServer, Duration::from_millis(100));
    proxy.delay(Direction::ToServer, Duration::from_millis(10));
    client.write_all(b"ab").await.unwrap();
    tokio::task::yield_now().await;
    client.write_all(b"cd").await.unwrap();
    assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 4);
}

#[tokio::test]
async fn proxy_refuses_connects_until_accept_connects() {
    let server = TestServer::start().await.unwrap();
    let proxy = FaultProxy::in_front_of(server.addresses()[0]).await.unwrap();
    proxy.refuse_connects();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(stream.read(&mut [0; 1]).await.is_err());
    proxy.accept_connects();
    Client::connect(&proxy.address().to_string()).await.unwrap();
}

#[tokio::test]
async fn client_reconnects_after_every_cut() {
    let server = TestServer::start().await.unwrap();
    let proxy = FaultProxy::in_front_of(server.addresses()[0]).await.unwrap();
    let client = Client::connect(&proxy.address().to_string()).await.unwrap();
    let mut events = client.events();
    for how in [Cut::Fin, Cut::Rst] {
        proxy.cut_all(how);
        until_reconnected(&mut events).await;
    }
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(server.with(|ensemble| ensemble.sessions().count()), 1);
}
