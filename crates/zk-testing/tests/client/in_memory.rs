//! Clients of servers in memory.

use std::time::Duration;

use zk_session::{Client, Config};
use zk_testing::TestServer;

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
