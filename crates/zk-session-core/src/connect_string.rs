//! The connect string: `[scheme://]host[:port],[scheme://]host[:port]…[/chroot]`.
//!
//! ```
//! use zk_session_core::ConnectString;
//!
//! let parsed: ConnectString = "zk1,zk2:2182,[::1]:2183/app".parse()?;
//! let hosts: Vec<String> = parsed.hosts().iter().map(ToString::to_string).collect();
//! assert_eq!(hosts, ["zk1:2181", "zk2:2182", "[::1]:2183"]);
//! assert_eq!(parsed.chroot(), "/app");
//! # Ok::<(), zk_session_core::Error>(())
//! ```

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// Port of a host without an explicit port.
const DEFAULT_PORT: u16 = 2181;

/// Transport that the connect string demands for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// None: the connector decides.
    #[default]
    Any,
    /// `tcp://`: plain TCP.
    Tcp,
    /// `tls://`: TLS.
    Tls,
}

impl Transport {
    /// Returns the beginning of a server in the connect string.
    fn scheme(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Tcp => "tcp://",
            Self::Tls => "tls://",
        }
    }
}

/// Host name or address of a server, its client port, and the transport.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Host {
    name: String,
    port: u16,
    transport: Transport,
}

impl Host {
    /// Creates a host from a name or address (an IPv6 address without brackets) and a port.
    #[must_use]
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port, transport: Transport::Any }
    }

    /// Demands a transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Returns the transport that is demanded.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the name or address. An IPv6 address has no brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.transport.scheme())?;
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parsed connect string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectString {
    hosts: Vec<Host>,
    chroot: String,
}

impl ConnectString {
    /// Returns the servers, at least one, in the order of the connect string.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the chroot, the prefix of all paths of the client. It is empty without a chroot.
    #[must_use]
    pub fn chroot(&self) -> &str {
        &self.chroot
    }
}

impl FromStr for ConnectString {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (pieces, chroot) = split(text);
        if chroot.starts_with("//") {
            return Err(invalid(format!(
                "{text:?} has an unknown scheme: write host:port, tls://host:port or \
                 tcp://host:port, separated by commas, and then the chroot"
            )));
        }
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            proto::validate_path(chroot)
                .map_err(|error| invalid(format!("the chroot {chroot:?}: {error}")))?;
        }
        let hosts = pieces
            .into_iter()
            .map(|(transport, piece)| Ok(parse_host(piece)?.with_transport(transport)))
            .collect::<Result<Vec<_>, Error>>()?;
        if hosts.is_empty() {
            return Err(invalid(format!("{text:?} names no server")));
        }
        // A scheme counts for one server. Nobody must send plaintext because of a scheme that is
        // meant for all of them.
        let is_open = |host: &Host| host.transport == Transport::Any;
        if hosts.iter().any(is_open) && !hosts.iter().all(is_open) {
            return Err(invalid(format!(
                "{text:?}: write tls:// or tcp:// before each server, or before none"
            )));
        }
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }
}

/// Splits off the chroot, and the servers with their schemes. Empty pieces are left out.
fn split(text: &str) -> (Vec<(Transport, &str)>, &str) {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let scheme = [Transport::Tcp, Transport::Tls]
            .into_iter()
            .find_map(|it| Some((it, rest.strip_prefix(it.scheme())?)));
        let (transport, server) = scheme.unwrap_or((Transport::Any, rest));
        let end = server.find([',', '/']).unwrap_or(server.len());
        let (piece, behind) = server.split_at(end);
        if !piece.trim().is_empty() || transport != Transport::Any {
            pieces.push((transport, piece.trim()));
        }
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None => return (pieces, behind),
        }
    }
}

fn parse_host(piece: &str) -> Result<Host, Error> {
    if let Some((name, port)) = name_and_port(piece) {
        return Ok(Host::new(name, port));
    }
    Err(invalid(match piece.parse::<Ipv6Addr>() {
        Ok(_) => format!("write the address {piece} as [{piece}] or [{piece}]:port"),
        Err(_) => format!(
            "{piece:?} is not a server; write host, host:port or [v6-address]:port, \
             with a port from 1 to 65535"
        ),
    }))
}

/// Parses a server; `None` if it is none. Without a port, and after a bare colon as in Java, the port is
/// the default.
fn name_and_port(piece: &str) -> Option<(&str, u16)> {
    let (name, port) = match piece.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(address, _)| is_v6(address))?,
        None => Some(piece.split_at(piece.find(':').unwrap_or(piece.len())))
            .filter(|(name, _)| is_name(name))?,
    };
    let port = match port {
        "" | ":" => DEFAULT_PORT,
        // Rust accepts a sign before a number.
        port => port.strip_prefix(':').filter(|port| !port.starts_with('+'))?.parse().ok()?,
    };
    (port != 0).then_some((name, port))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == '[' || c == ']' || c.is_whitespace())
}

/// Returns true for an IPv6 address, with or without a zone.
fn is_v6(text: &str) -> bool {
    let address = text.split_once('%').map_or(text, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

fn invalid(why: String) -> Error {
    Error::not_applied(ErrorKind::InvalidConnectString(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        let parsed: ConnectString = text.parse().unwrap();
        parsed.hosts().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ports_default_and_blank_pieces_are_dropped() {
        assert_eq!(hosts("a"), ["a:2181"]);
        assert_eq!(hosts("a:"), ["a:2181"]);
        assert_eq!(hosts(" a:1 ,, b "), ["a:1", "b:2181"]);
        assert_eq!(hosts("[::1]"), ["[::1]:2181"]);
        assert_eq!(hosts("[::1]:"), ["[::1]:2181"]);
        assert_eq!(hosts("[fe80::1%eth0]"), ["[fe80::1%eth0]:2181"]);
        assert_eq!(hosts("[fe80::1]:7,10.0.0.1:8"), ["[fe80::1]:7", "10.0.0.1:8"]);
    }

    #[test]
    fn chroot_starts_at_the_first_slash() {
        let chroot = |text: &str| text.parse::<ConnectString>().unwrap().chroot().to_owned();
        assert_eq!(chroot("a"), "");
        assert_eq!(chroot("a/"), "");
        assert_eq!(chroot("a:1,b/x/y"), "/x/y");
    }

    #[test]
    fn connect_string_with_an_unknown_scheme_is_refused() {
        for text in ["zk://a:1", "http://a:1/b", "tls://a,zk://b"] {
            let error = text.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().contains("has an unknown scheme"), "{error}");
        }
    }

    #[test]
    fn every_server_has_a_transport_or_none_has() {
        let parsed: ConnectString = "tls://a:1, tcp://[::1],tls://b/x/y".parse().unwrap();
        let transports: Vec<_> = parsed.hosts().iter().map(Host::transport).collect();
        assert_eq!(transports, [Transport::Tls, Transport::Tcp, Transport::Tls]);
        assert_eq!(hosts("tls://a:1,tcp://[::1]/x"), ["tls://a:1", "tcp://[::1]:2181"]);
        assert_eq!(parsed.chroot(), "/x/y");
        for text in ["tls://a,b", "a,tcp://b/x"] {
            let error = text.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().contains("before each server"), "{error}");
        }
        for text in ["tls://", "tls:///x", "tls://,a"] {
            assert!(text.parse::<ConnectString>().is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_connect_string_is_rejected() {
        let bad = [
            "",
            ",",
            "/x",
            "a:0",
            "a:99999",
            "a:b",
            "[::1",
            "[]:1",
            "::1",
            "a b",
            "a/x/",
            "a:1:2",
            "[a]:1",
            "[::1]2",
            "a//x",
            "a,b/../c",
            "[10.0.0.1]",
            "a:+1",
            "a[b:1",
            "a]",
            "[::1]:0",
            "[::1] :1",
        ];
        for bad in bad {
            let error = bad.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().starts_with("connect string: "), "{bad}: {error}");
        }
    }
}
