//! ZooKeeper's four-letter commands: one short question per TCP connection, answered in text.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::Error;

/// Asks the server at `address` the four-letter `command`, for example `srvr`.
///
/// # Errors
/// If the server does not accept the connection or does not answer within two seconds, as when it
/// is dead, paused or cut off.
pub fn four_letter(address: SocketAddr, command: &str) -> Result<String, Error> {
    let doing = || format!("asking {address} for `{command}`");
    let mut stream =
        TcpStream::connect_timeout(&address, ANSWER_LIMIT).map_err(Error::io(doing()))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(Error::io(doing()))?;
    stream.write_all(command.as_bytes()).map_err(Error::io(doing()))?;
    // Nothing follows; harmless if the server has closed already.
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(Error::io(doing()))?;
    Ok(answer)
}

/// What a serving server says of itself under `srvr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// For example `3.8.0`.
    pub version: String,
    /// The part the server plays.
    pub mode: Mode,
}

/// The part a serving server plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// One server by itself.
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
    /// Returns ZooKeeper's own word for the mode.
    pub fn as_str(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("unknown", |(word, _)| word)
    }
}

impl Status {
    /// Reads the answer to `srvr`; `None` if the server is up but not serving, as while it has no
    /// quorum.
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

/// Long for a loaded machine, short against the deadlines that are built from several questions.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serving_server_tells_version_and_mode() {
        let srvr = "Zookeeper version: 3.8.0-5a02a05, built on 2022\nLatency min/avg/max: 0/0.0/0\n\
                    Zxid: 0x0\nMode: follower\nNode count: 5\n";
        let status = Status::parse(srvr).unwrap();
        assert_eq!(status, Status { version: "3.8.0".to_owned(), mode: Mode::Follower });
        assert_eq!(status.mode.as_str(), "follower");
    }

    #[test]
    fn a_server_without_quorum_has_no_status() {
        let answer = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(Status::parse(answer), None);
    }
}
