//! Tests over TCP on loopback.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_session::{Client, CreateMode};
use zk_testing::{Cut, Op, Settings, TestServer};

use crate::in_memory::client_of;

#[tokio::test]
async fn tcp_and_memory_clients_see_same_tree() {
    let server = TestServer::start_with(Settings::new().servers(3)).await.unwrap();
    assert_eq!(server.addresses().len(), 3);
    let over_tcp = Client::connect(&server.connect_string()).await.unwrap();
    let in_memory = client_of(&server, 2).await;
    over_tcp.create("/a", b"1", CreateMode::Persistent).await.unwrap();
    assert_eq!(in_memory.get_data("/a").await.unwrap().data, &b"1"[..]);
}

#[tokio::test]
async fn four_letter_word_is_answered_before_end_of_stream() {
    let server = TestServer::start().await.unwrap();
    let mut stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
    stream.write_all(b"ruok").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "imok");
}

#[tokio::test]
async fn tcp_connection_ends_with_requested_fin_or_rst() {
    let server = TestServer::start().await.unwrap();
    server.on_connect().by(Cut::Rst).drop_before_applying();
    server.on_connect().drop_before_applying();
    let mut ends = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
        let mut request = vec![0, 0, 0, 45];
        request.resize(49, 0);
        stream.write_all(&request).await.unwrap();
        ends.push(stream.read(&mut [0; 1]).await.map_err(|error| error.kind()));
    }
    assert_eq!(ends, [Err(std::io::ErrorKind::ConnectionReset), Ok(0)]);
}

#[tokio::test]
async fn server_ends_with_its_last_handle() {
    let server = TestServer::start().await.unwrap();
    let address = server.addresses()[0];
    let mut stream = TcpStream::connect(address).await.unwrap();
    let clone = server.clone();
    drop(server);
    clone.on(Op::Create).never_answer();
    drop(clone);
    let _ = stream.read(&mut [0; 1]).await;
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
