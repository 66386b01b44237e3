//! Logs of the requests of a session.

use std::time::Duration;

use zk_session::{Config, CreateMode};
use zk_testing::{Cut, Op, TestServer};

#[tokio::test(start_paused = true)]
async fn request_log_has_the_operations_of_one_session() {
    let server = TestServer::in_memory();
    let connect = || Config::new("server-0:1").unwrap().connector(server.clone()).connect();
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    let log = server.log_requests(one.session_id());
    one.create("/a", b"", CreateMode::Persistent).await.unwrap();
    other.create("/b", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(one.get_data("/a").await.unwrap().stat.version, 0);
    assert_eq!(log.take(), [Op::Create2, Op::GetData]);
    assert_eq!(log.take(), []);
}

#[tokio::test(start_paused = true)]
async fn request_log_omits_heartbeats_and_has_dropped_requests() {
    let server = TestServer::in_memory();
    let config = Config::new("server-0:1").unwrap().connector(server.clone());
    let client = config.connect().await.unwrap();
    let pings = server.on(Op::Ping).always().delay(Duration::ZERO);
    let log = server.log_requests(client.session_id());
    // reason: virtual time, in which the client sends pings
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(pings.count() > 0);
    assert_eq!(log.take(), []);
    server.on(Op::Delete).by(Cut::Fin).drop_before_applying();
    client.delete("/a", None).await.unwrap_err();
    assert_eq!(log.take(), [Op::Delete]);
}
