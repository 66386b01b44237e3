//! ZooKeeper's four-letter commands: one short command per TCP connection, with a reply in text.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::Error;

/// Sends the four-letter `command`, for example `srvr`, to the server at `address` and returns the reply.
///
/// # Errors
/// If the server does not accept the connection or does not reply within two seconds. This happens while the
/// server is killed, paused or disconnected.
pub fn four_letter(address: SocketAddr, command: &str) -> Result<String, Error> {
    let doing = || format!("asking {address} for `{command}`");
    let mut stream =
        TcpStream::connect_timeout(&address, ANSWER_LIMIT).map_err(Error::io(doing()))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(Error::io(doing()))?;
    stream.write_all(command.as_bytes()).map_err(Error::io(doing()))?;
    // No bytes follow. An error is harmless, as the server may have closed already.
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(Error::io(doing()))?;
    Ok(answer)
}

/// Status of a serving server, from its reply to `srvr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The version, for example `3.8.0`.
    pub version: String,
    /// The server's mode.
    pub mode: Mode,
}

/// Mode of a serving server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// A single server.
    Standalone,
    /// The server that orders the writes of an ensemble.
    Leader,
    /// A voting server of an ensemble that follows the leader.
    Follower,
    /// A server of an ensemble that has no vote.
    Observer,
    /// A server without a quorum that answers reads.
    ReadOnly,
}

impl Mode {
    /// Returns ZooKeeper's name for the mode.
    pub fn as_str(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("unknown", |(word, _)| word)
    }
}

impl Status {
    /// Returns the release: the first two numbers of the version.
    pub fn release(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Parses the reply to `srvr`. Returns `None` if the server is up but does not serve, for example without
    /// a quorum.
    pub fn parse(srvr: &str) -> Option<Self> {
        let version = value(srvr, "Zookeeper version: ")?;
        let end = version.find(['-', ',']).unwrap_or(version.len());
        let word = value(srvr, "Mode: ")?;
        let (_, mode) = MODES.iter().find(|(name, _)| *name == word)?;
        Some(Self { version: version[..end].to_owned(), mode: *mode })
    }
}

fn value<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(label)).map(str::trim)
}

const MODES: [(&str, Mode); 5] = [
    ("standalone", Mode::Standalone),
    ("leader", Mode::Leader),
    ("follower", Mode::Follower),
    ("observer", Mode::Observer),
    ("read-only", Mode::ReadOnly),
];

/// Long enough for a loaded machine, and short compared with the deadlines that include several commands.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_serving_server_has_version_and_mode() {
        let srvr = "Zookeeper version: 3.8.0-5a02a05, built on 2022\nLatency min/avg/max: 0/0.0/0\n\
                    Zxid: 0x0\nMode: follower\nNode count: 5\n";
        let status = Status::parse(srvr).unwrap();
        assert_eq!(status, Status { version: "3.8.0".to_owned(), mode: Mode::Follower });
        assert_eq!(status.mode.as_str(), "follower");
        assert_eq!(status.release(), (3, 8));
    }

    #[test]
    fn status_is_none_without_a_quorum() {
        let answer = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(Status::parse(answer), None);
    }
}
