//! `zk server`: the in-memory server of `zk-testing`, for development only.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use zk_testing::{Settings, TestServer};

use crate::args::Server;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;

pub(crate) async fn run(server: Server, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let settings = Settings::new()
        .version(server.version)
        .tick_time(Duration::from_millis(server.tick_time.into()))
        .container_check_interval(server.container_check)
        // Nodes get the time of day, and session ids differ from those of earlier runs.
        .wall_clock_ms(wall_clock_ms());
    let servers = TestServer::in_memory_with(settings);
    let address = servers
        .listen_at(0, server.listen)
        .await
        .map_err(|error| Failure::other(format!("cannot listen at {}: {error}", server.listen)))?;

    output.note("in memory, for development only: keeps nothing on disk, not for production");
    output.print([address.to_string()], || json!({ "address": address.to_string() }))?;
    signals.next().await; // the intended end of this command
    Ok(0)
}

#[allow(clippy::disallowed_methods, reason = "the times that nodes get are those of the day")]
fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
