//! Adapter to connect `zk-session` in memory. Copy it into your tests.

use std::future::{Future, ready};
use std::io;
use std::time::Duration;

use zk_session::{Client, Config, Connector, Host};
use zk_testing::{MemoryStream, TestServer};

/// Connector for the hosts `server-0`, `server-1`, … of a test server.
#[derive(Clone)]
pub(crate) struct InMemory(pub(crate) TestServer);

impl Connector for InMemory {
    type Stream = MemoryStream;

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let number = host.name().strip_prefix("server-").and_then(|it| it.parse().ok());
        ready(self.0.stream(number.unwrap_or(0)))
    }
}

/// Connects a client to one server.
pub(crate) async fn client_of(server: &TestServer, number: usize) -> Client {
    Config::new(&format!("server-{number}:1"))
        .unwrap()
        .session_timeout(Duration::from_secs(10))
        .seed(1)
        .connect_with(InMemory(server.clone()))
        .await
        .unwrap()
}
