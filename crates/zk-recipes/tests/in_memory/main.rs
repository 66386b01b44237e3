//! The recipes on the in-process server, in memory, under a stopped clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod guard;
mod mutex_cost;
mod shared_value;
mod wire;

use std::future::{Future, ready};
use std::io;
use std::time::Duration;

use zk_recipes::session::{Client, Config, Connector, Host};
use zk_testing::{MemoryStream, TestServer};

/// The session timeout of the clients.
pub(crate) const T: Duration = Duration::from_secs(10);

/// Connects to the only server.
#[derive(Clone)]
pub(crate) struct InMemory(pub(crate) TestServer);

impl Connector for InMemory {
    type Stream = MemoryStream;

    fn connect(&self, _: &Host) -> impl Future<Output = io::Result<MemoryStream>> + Send + 'static {
        ready(self.0.stream(0))
    }
}

pub(crate) fn config(seed: u128) -> Config {
    Config::new("server:1").unwrap().session_timeout(T).seed(seed)
}

pub(crate) async fn client(server: &TestServer, seed: u128) -> Client {
    config(seed).connect_through(InMemory(server.clone())).await.unwrap()
}
