//! Tests of recipes that we share with Java services that use Curator, on a real server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod barrier_groups;
mod caches;
mod counters;
mod discovery;
mod downgrades;
mod elections;
mod fleet;
mod locks;
mod nodes;
mod script;
mod semaphores;
mod surroundings;

use std::time::Duration;

use zk_recipes::session::{Client, Config, SessionManager};
use zk_tests::{Curator, LIMIT, connect, open, shared_zookeeper};

/// After this time, the nodes of a killed process are gone.
const SHORT: Duration = Duration::from_secs(4);
/// Longer than any test takes by accident.
const LONG: Duration = Duration::from_secs(20);

fn address() -> Option<String> {
    Some(shared_zookeeper()?.connect_string())
}

/// Returns a client of ours, and Curator's locks.
async fn both() -> Option<(Client, Curator)> {
    let address = address()?;
    let curator = Curator::start(&address, LONG, &[])?;
    Some((open(&address).await, curator))
}

/// Returns a client of ours, and another program of Curator's.
async fn both_with(program: &str) -> Option<(Client, Curator)> {
    let address = address()?;
    let curator = Curator::with_program(program, &address, SHORT)?;
    Some((connect(&address, SHORT).await, curator))
}

async fn sessions(address: &str) -> SessionManager {
    let config = Config::new(address).unwrap().session_timeout(SHORT).connect_timeout(LIMIT);
    SessionManager::connect(config).await.unwrap()
}
