//! Tests of the bytes of in-memory connections.

use std::io::ErrorKind;

use bytes::BytesMut;
use proto::{Ping, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zk_testing::{Cut, MemoryStream, Op, TestServer};

use crate::in_memory::open_session;

async fn connected(server: &TestServer) -> MemoryStream {
    let mut stream = server.stream(0).unwrap();
    open_session(&mut stream).await;
    stream
}

fn ping() -> BytesMut {
    let mut bytes = BytesMut::new();
    encode_request(-2, &Ping, &mut bytes);
    bytes
}

#[tokio::test(start_paused = true)]
async fn memory_stream_reads_pieces_as_sent() {
    let server = TestServer::in_memory();
    let mut stream = connected(&server).await;
    server.next_reply_to(Op::Ping).split(7);
    stream.write_all(&ping()).await.unwrap();
    for expected in [7, 7, 6] {
        assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), expected);
    }
    // A read that is too small leaves the rest for the next one.
    stream.write_all(&ping()).await.unwrap();
    assert_eq!(stream.read(&mut [0; 15]).await.unwrap(), 15);
    assert_eq!(stream.read(&mut [0; 15]).await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn memory_stream_ends_with_requested_cut() {
    for (how, read) in [(Cut::Fin, Ok(0)), (Cut::Rst, Err(ErrorKind::ConnectionReset))] {
        let server = TestServer::in_memory();
        let mut stream = connected(&server).await;
        server.next_reply_to(Op::Ping).cut_after(3, how);
        stream.write_all(&ping()).await.unwrap();
        assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 3, "what was sent before arrives");
        assert_eq!(stream.read(&mut [0; 100]).await.map_err(|error| error.kind()), read);
        assert!(stream.write_all(&ping()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn memory_stream_transfers_nothing_after_silent_cut() {
    let server = TestServer::in_memory();
    let mut stream = connected(&server).await;
    server.connections().cut(Cut::Silence);
    stream.write_all(&ping()).await.unwrap();
    let minute = std::time::Duration::from_secs(60);
    let read = tokio::time::timeout(minute, stream.read(&mut [0; 1])).await;
    assert!(read.is_err(), "neither bytes nor an end");
    assert_eq!(server.with(|ensemble| ensemble.sessions().count()), 0, "it has expired");
}

#[tokio::test(start_paused = true)]
async fn memory_stream_is_refused_until_accept_connects() {
    let server = TestServer::in_memory();
    server.refuse_connects(0);
    assert_eq!(server.stream(0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(server.stream(1).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    server.accept_connects(0);
    server.close_on_connect(0);
    assert_eq!(server.stream(0).unwrap().read(&mut [0; 1]).await.unwrap(), 0);
    server.accept_connects(0);
    connected(&server).await;
}

#[tokio::test(start_paused = true)]
async fn memory_stream_disconnects_when_dropped() {
    let server = TestServer::in_memory();
    let stream = connected(&server).await;
    assert_eq!(server.connections().count(), 1);
    drop(stream);
    assert_eq!(server.connections().count(), 0);
    assert_eq!(server.with(|ensemble| ensemble.sessions().count()), 1, "the session lives on");
}
