//! Tests of the client against a real server: operations, watches, and the life of a session.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod auth;
mod every_operation;
mod life;
mod operations;
mod relay;
mod restart;
mod streams;
mod watch_fuzz;
mod watches;

use std::time::Duration;

use zk_recipes::session::{Client, CreateMode};
use zk_tests::{open, own_shared_zookeeper, shared_zookeeper};

/// Opens a session on the shared server, below a chroot of the calling test.
async fn client(chroot: &str) -> Option<Client> {
    let server = shared_zookeeper()?;
    let chroot = format!("/{chroot}");
    let outside = open(&server.connect_string()).await;
    outside.create(&chroot, b"", CreateMode::Persistent).await.unwrap();
    outside.close().await;
    Some(open(&(server.connect_string() + &chroot)).await)
}

/// Opens a session like [`client`], if the server was started by the tests.
async fn own_client(chroot: &str) -> Option<Client> {
    own_shared_zookeeper()?;
    client(chroot).await
}

/// Limit for steps that take milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);
