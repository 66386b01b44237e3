//! `zk server`: the in-memory server of `zk-testing`, for development only.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::UNIX_EPOCH;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use zk_testing::{Settings, TestServer, Version};

use crate::prelude::{ClapArgs, Duration, Failure, Output, Result, json};
use crate::sessions::wall_clock;
use crate::signals::Signals;
use crate::time_arg::seconds;

/// The `server` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
NOT FOR PRODUCTION: it keeps nothing on disk and replicates nothing. When it ends, so does all that \
was in it, and clients that were connected to it have to open new sessions, as if the data of a \
ZooKeeper had been wiped. Every client can use it, and nobody has to log in. It speaks no TLS.

The address it listens at goes to standard output, in a line of its own, once it can be connected to. \
It answers the four-letter words: echo srvr | nc 127.0.0.1 2181

--connect, --session-timeout and the options for secured ensembles have no meaning here. SIGINT and \
SIGTERM end it, with status 0.

Examples:
  zk server --listen 127.0.0.1:0 --version 3.9
  zk server --profile keeper-26.6

ClickHouse Keeper and RaftKeeper are imitated from their sources, and were not compared with real \
ones.")]
pub(crate) struct Server {
    /// The address and port to listen on; port 0 chooses a free one.
    ///
    /// An address of this machine, or a name of it such as localhost. IPv6 addresses
    /// go in brackets. 0.0.0.0 accepts other machines.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:2181",
        value_parser = address
    )]
    pub(crate) listen: SocketAddr,

    /// The unit of time, 2000 by default: sessions may last 2 to 20 of them, and end at a multiple.
    ///
    /// For Keeper and RaftKeeper, 500 by default: sessions end at a multiple of it.
    #[arg(
        long,
        value_name = "MS",
        value_parser = clap::value_parser!(u32).range(1..=3_600_000)
    )]
    pub(crate) tick_time: Option<u32>,

    /// The release of ZooKeeper to behave like: 3.8 is a 3.8.0, 3.9 a 3.9.5.
    #[arg(long, value_name = "X.Y", default_value = "3.8", value_parser = server_version())]
    pub(crate) version: Version,

    /// The server to behave like, instead of a release of ZooKeeper.
    ///
    /// Besides ZooKeeper, this can be ClickHouse Keeper or RaftKeeper.
    #[arg(
        long,
        value_name = "SERVER",
        conflicts_with = "version",
        value_parser = profile()
    )]
    pub(crate) profile: Option<Version>,

    /// How often empty containers and expired TTL nodes are deleted.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = interval)]
    pub(crate) container_check: Duration,
}

pub(crate) async fn run(server: &Server, output: Output) -> Result<u8> {
    let mut signals = Signals::new()?;
    let mut settings = Settings::new()
        .version(server.profile.unwrap_or(server.version))
        .container_check_interval(server.container_check)
        // Nodes get the time of day, and session ids differ from those of earlier runs.
        .wall_clock_ms(wall_clock_ms());
    if let Some(ms) = server.tick_time {
        settings = settings.tick_time(Duration::from_millis(ms.into()));
    }
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

fn wall_clock_ms() -> i64 {
    let since = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let addresses: Vec<_> = text.to_socket_addrs().map_err(|error| error.to_string())?.collect();
    // Clients resolve `localhost` to 127.0.0.1 far more often than to ::1.
    let address = addresses.iter().find(|address| address.is_ipv4()).or_else(|| addresses.first());
    address.copied().ok_or_else(|| "that name has no address".to_owned())
}

fn server_version() -> impl TypedValueParser<Value = Version> {
    PossibleValuesParser::new(["3.8", "3.9"]).map(|text| match text.as_str() {
        "3.9" => Version::V3_9,
        _ => Version::V3_8,
    })
}

fn profile() -> impl TypedValueParser<Value = Version> {
    PossibleValuesParser::new(Version::ALL.map(Version::name)).map(|name| {
        let named = Version::ALL.into_iter().find(|version| version.name() == name);
        named.unwrap_or_default()
    })
}

/// Parses an interval between repeated events. The server counts in milliseconds.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    if interval < Duration::from_millis(1) {
        return Err("at least 0.001 seconds must pass between two checks".to_owned());
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        server: Server,
    }

    fn parsed(line: &str) -> Result<Server, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.server)
    }

    #[test]
    fn profile_names_any_server_and_excludes_version() {
        for version in Version::ALL {
            let server = parsed(&format!("zk --profile {}", version.name())).unwrap();
            assert_eq!((server.profile, server.tick_time), (Some(version), None));
        }
        assert_eq!(parsed("zk").unwrap().profile, None);
        assert!(parsed("zk --profile 3.7").is_err());
        assert!(parsed("zk --profile 3.9 --version 3.9").is_err());
    }
}
