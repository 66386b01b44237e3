//! Tests of clients that do not read their answers, over both transports.

use std::time::Duration;

use bytes::BytesMut;
use proto::{
    DataReply, Decode, FRAME_LEN_MAX_CLIENT, GetData, ReplyHeader, encode_request, split_frame,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_session::CreateMode;
use zk_testing::limits::{READ_REPORT_LEN, RECEIVED_BYTES_MAX, UNREAD_BYTES_MAX};
use zk_testing::{ConnectionId, TestServer};

use crate::in_memory::{client_of, open_session};

const DATA_LEN: usize = 1_000_000;
/// Length of an answer with the data, its header and its Stat.
const ANSWER_LEN: usize = 4 + 16 + 4 + DATA_LEN + 68;
/// Most bytes that a server holds for one client: the limit, and the answer that reaches it.
const HELD_MAX: usize = UNREAD_BYTES_MAX + ANSWER_LEN;

/// Creates a node with much data. Returns a client that reads its answers.
async fn with_big_node(server: &TestServer) -> zk_session::Client {
    let client = client_of(server, 0).await;
    client.create("/big", vec![7; DATA_LEN], CreateMode::Persistent).await.unwrap();
    client
}

fn reads(count: usize) -> BytesMut {
    let mut bytes = BytesMut::new();
    for xid in 1..=count {
        let request = GetData { path: "/big".into(), watch: false };
        encode_request(i32::try_from(xid).unwrap(), &request, &mut bytes);
    }
    bytes
}

/// Reads `count` answers, which must be complete and in order.
async fn read_answers(stream: &mut (impl AsyncRead + Unpin), count: usize) {
    let mut received = BytesMut::new();
    for xid in 1..=count {
        let frame = loop {
            match split_frame(&mut received, FRAME_LEN_MAX_CLIENT).unwrap() {
                Some(frame) => break frame,
                None => assert!(stream.read_buf(&mut received).await.unwrap() > 0, "{xid}"),
            }
        };
        let (header, body) = ReplyHeader::split(&frame).unwrap();
        assert_eq!(header.xid, i32::try_from(xid).unwrap());
        assert_eq!(DataReply::from_frame(&body).unwrap().data.unwrap().len(), DATA_LEN);
    }
}

fn unread_bytes(server: &TestServer, id: ConnectionId) -> usize {
    server.with(|ensemble| ensemble.unread_bytes(id))
}

#[tokio::test(start_paused = true)]
async fn memory_stream_limits_unread_answers() {
    const REQUESTS: usize = 2_000;
    let server = TestServer::in_memory();
    let other = with_big_node(&server).await;
    let mut stream = server.stream(0).unwrap();
    open_session(&mut stream).await;
    stream.write_all(&reads(REQUESTS)).await.unwrap();

    let unread = unread_bytes(&server, stream.id());
    assert!((UNREAD_BYTES_MAX..HELD_MAX).contains(&unread), "{unread}");
    assert_eq!(other.get_data("/big").await.unwrap().data.len(), DATA_LEN);
    read_answers(&mut stream, REQUESTS).await;
    assert!(unread_bytes(&server, stream.id()) < READ_REPORT_LEN);
}

#[tokio::test(start_paused = true)]
async fn memory_stream_write_waits_until_the_client_reads() {
    let server = TestServer::in_memory();
    with_big_node(&server).await;
    let stream = server.stream(0).unwrap();
    let id = stream.id();
    let (mut reader, mut writer) = tokio::io::split(stream);
    // Send the connect request and read its reply through the halves.
    let mut both = tokio::io::join(&mut reader, &mut writer);
    open_session(&mut both).await;

    let request_len = reads(1).len();
    let bytes = reads(4 * RECEIVED_BYTES_MAX / request_len);
    let mut writing = tokio::spawn(async move { writer.write_all(&bytes).await });
    let second = Duration::from_secs(1);
    assert!(timeout(second, &mut writing).await.is_err(), "no room for so many requests");
    assert!(unread_bytes(&server, id) < HELD_MAX);
    read_answers(&mut reader, 100).await;
    assert!(unread_bytes(&server, id) < HELD_MAX);
    server.connections().cut(zk_testing::Cut::Rst);
    assert!(writing.await.unwrap().is_err(), "the end of the connection ends the wait");
}

#[tokio::test]
async fn tcp_connection_limits_unread_answers() {
    const REQUESTS: usize = 100;
    let server = TestServer::start().await.unwrap();
    let other = with_big_node(&server).await;
    let (mut stream, id) = connect_over_tcp(&server).await;
    stream.write_all(&reads(REQUESTS)).await.unwrap();

    held_back(&server, id).await;
    assert_eq!(other.get_data("/big").await.unwrap().data.len(), DATA_LEN);
    assert!(unread_bytes(&server, id) < HELD_MAX);
    read_answers(&mut stream, REQUESTS).await;
}

#[tokio::test]
async fn tcp_disconnect_of_throttled_client_is_noticed() {
    let server = TestServer::start().await.unwrap();
    let other = with_big_node(&server).await;
    let (mut stream, id) = connect_over_tcp(&server).await;
    let requests = 2 * RECEIVED_BYTES_MAX / reads(1).len();
    let bytes = reads(requests);
    // The client writes as much as the server and the kernel accept.
    let writing = tokio::spawn(async move {
        let _ = stream.write_all(&bytes).await;
    });
    held_back(&server, id).await;
    while server.with(|ensemble| ensemble.has_room(id)) {
        tokio::task::yield_now().await;
    }
    writing.abort();
    while server.with(|ensemble| ensemble.connections().contains(&id)) {
        tokio::task::yield_now().await;
    }
    assert!(other.exists("/big").await.unwrap().is_some());
}

/// Opens a session over a socket. Returns the socket and the server's connection id.
async fn connect_over_tcp(server: &TestServer) -> (TcpStream, ConnectionId) {
    let mut stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
    open_session(&mut stream).await;
    let id = server.with(|ensemble| ensemble.connections().pop()).unwrap();
    (stream, id)
}

/// Waits until the server accepts no further request of a connection.
async fn held_back(server: &TestServer, id: ConnectionId) {
    while unread_bytes(server, id) < UNREAD_BYTES_MAX {
        tokio::task::yield_now().await;
    }
}
