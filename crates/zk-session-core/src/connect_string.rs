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
use std::hash::{Hash, Hasher};
use std::net::{Ipv6Addr, SocketAddr};
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
///
/// Equality leaves out the [rank](Self::rank), which does not tell servers apart.
#[derive(Clone)]
pub struct Host {
    name: String,
    port: u16,
    transport: Transport,
    addresses: Vec<SocketAddr>,
    rank: u16,
}

impl Host {
    /// Creates a host from a name or address (an IPv6 address without brackets) and a port.
    #[must_use]
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port, transport: Transport::Any, addresses: Vec::new(), rank: 0 }
    }

    /// Demands a transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the addresses to connect to, in the order in which they are tried.
    #[must_use]
    pub fn with_addresses(mut self, addresses: Vec<SocketAddr>) -> Self {
        self.addresses = addresses;
        self
    }

    /// Sets the rank, 0 by default. The session tries servers of a lower rank first, and those of one rank
    /// in a random order. It stays at a server that works, whatever its rank.
    ///
    /// The trait `ServerList` of the crate `zk-session` may rank its
    /// servers to prefer some of them, for example those in the client's own availability zone.
    #[must_use]
    pub fn with_rank(mut self, rank: u16) -> Self {
        self.rank = rank;
        self
    }

    /// Returns the rank.
    #[must_use]
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// Returns the addresses to connect to, in the order in which they are tried. A host of a connect
    /// string has none: its name is to be resolved.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
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

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.port, self.transport, &self.addresses)
            == (&other.name, other.port, other.transport, &other.addresses)
    }
}

impl Eq for Host {}

impl Hash for Host {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.port, self.transport, &self.addresses).hash(state);
    }
}

/// Parses `host`, `host:port` or `[v6-address]:port`, without a scheme.
impl FromStr for Host {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse_host(text)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.transport.scheme())?;
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
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
                "{} has an unknown scheme: write host:port, tls://host:port or \
                 tcp://host:port, separated by commas, and then the chroot",
                shown(text)
            )));
        }
        let chroot = parse_chroot(chroot)?;
        let hosts = pieces
            .into_iter()
            .map(|(transport, piece)| Ok(parse_host(piece)?.with_transport(transport)))
            .collect::<Result<Vec<_>, Error>>()
            .map_err(|error| {
                if text.contains('@') {
                    // A password with a comma or a slash is in several pieces.
                    has_user(text)
                } else {
                    error
                }
            })?;
        if hosts.is_empty() {
            return Err(invalid(format!("{} names no server", shown(text))));
        }
        // A scheme counts for one server. Nobody must send plaintext because of a scheme that is
        // meant for all of them.
        let is_open = |host: &Host| host.transport == Transport::Any;
        if hosts.iter().any(is_open) && !hosts.iter().all(is_open) {
            return Err(invalid(format!(
                "{}: write tls:// or tcp:// before each server, or before none",
                shown(text)
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
            .find_map(|transport| Some((transport, rest.strip_prefix(transport.scheme())?)));
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

fn parse_chroot(chroot: &str) -> Result<&str, Error> {
    if matches!(chroot, "" | "/") {
        return Ok("");
    }
    // Java takes all of this for the path of a node.
    if chroot.contains(',') {
        return Err(invalid(format!(
            "the chroot {}: write one chroot for all servers, behind the last one, and without a comma",
            shown(chroot)
        )));
    }
    proto::validate_path(chroot)
        .map_err(|error| invalid(format!("the chroot {}: {error}", shown(chroot))))?;
    Ok(chroot)
}

fn parse_host(piece: &str) -> Result<Host, Error> {
    if let Some((name, port)) = name_and_port(piece) {
        return Ok(Host::new(name, port));
    }
    let before_port = piece.rsplit_once(':').filter(|(address, _)| is_v6(address));
    Err(invalid(match (is_v6(piece), before_port) {
        (true, Some((address, port))) => {
            format!(
                "{piece} is ambiguous: write [{address}]:{port}, or [{piece}] for the default port"
            )
        }
        (true, None) => format!("write the address {piece} as [{piece}] or [{piece}]:port"),
        (false, Some((address, port))) => format!("write {piece} as [{address}]:{port}"),
        (false, None) if piece.contains('@') => return Err(has_user(piece)),
        (false, None) => format!(
            "{piece:?} is not a server; write host, host:port or [v6-address]:port, \
             with a port from 1 to 65535, and separate servers with commas"
        ),
    }))
}

fn has_user(text: &str) -> Error {
    invalid(format!(
        "{} is not a server: write host:port without a user and a password",
        shown(text)
    ))
}

/// Returns a text as errors print it. A user may have written a password in front of an `@`.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("\"…@{}\"", rest.escape_debug()),
        None => format!("{text:?}"),
    }
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

/// Returns true for the characters of host names and IPv4 addresses. The underscore is none of them, but
/// names of containers have it.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// Returns true for an IPv6 address, with or without a zone.
fn is_v6(text: &str) -> bool {
    let (address, is_zone_valid) = match text.split_once('%') {
        Some((address, zone)) => (address, is_name(zone)),
        None => (text, true),
    };
    is_zone_valid && address.parse::<Ipv6Addr>().is_ok()
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

    fn told(text: &str) -> String {
        text.parse::<ConnectString>().unwrap_err().to_string()
    }

    #[test]
    fn wrong_address_and_second_chroot_are_explained() {
        assert!(told("fe80::1:abcd").contains("write [fe80::1]:abcd, or [fe80::1:abcd]"));
        assert!(told("::1:2181").contains("write [::1]:2181, or [::1:2181] for the default port"));
        assert!(
            told("fe80::1%eth0:2181").contains("write fe80::1%eth0:2181 as [fe80::1%eth0]:2181")
        );
        assert!(told("::").contains("write the address :: as [::]"));
        assert!(told("a:b").contains("\"a:b\" is not a server; write host, host:port"));
        let second = told("h1:1/app,h2:2/app");
        assert!(second.contains("the chroot \"/app,h2:2/app\": write one chroot"), "{second}");
    }

    /// A reader of the log must not learn a password.
    #[test]
    fn error_hides_what_stands_before_an_at_sign() {
        for text in [
            "user:hunter2@zk1:2181",
            "zk0,user:hunter2@zk1:2181/app",
            "zk://user:hunter2@zk1/app",
            "tls://user:hunter2@zk1,zk2",
            "user:hunter2@",
            "user:hunter2@zk1,zk2//app",
            "zk1/app@hunter2@x,zk2/app",
            "user:hunter2,more@zk1",
            "user:hunter2/more@zk1:2181",
            "user:hunter2:x,y@zk1",
        ] {
            let error = text.parse::<ConnectString>().unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn host_is_parsed_without_a_scheme() {
        assert_eq!("a:1".parse::<Host>().unwrap(), Host::new("a", 1));
        assert_eq!("[::1]:1".parse::<Host>().unwrap(), Host::new("::1", 1));
        for text in ["tcp://a:1", "tls://a", "a,b", "a/x", "", ";a"] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_connect_string_is_rejected() {
        let short = ["", ",", "/x", "a:0", "a:99999", "a:b", "[::1", "[]:1", "::1", "a b", "a/x/"];
        let odd =
            ["a:1:2", "[a]:1", "[::1]2", "a//x", "a:+1", "a[b:1", "a]", "[::1]:0", "[::1] :1"];
        let foreign = ["zk1;zk2", "user@zk1", "zk1?x=1", "zk1#x", "zk\u{200b}1", "zk1\u{202e}"];
        let long = ["zk\u{e9}", "zk1\0", "[fe80::1%e;h]", "[10.0.0.1]", "a,b/../c"];
        let bad = short.into_iter().chain(odd).chain(foreign).chain(long);
        for bad in bad {
            let error = bad.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().starts_with("connect string: "), "{bad}: {error}");
        }
    }
}
