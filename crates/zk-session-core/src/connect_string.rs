//! The connect string: `host[:port],host[:port]…[/chroot]`.
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

use nom::branch::alt;
use nom::bytes::complete::{take_till1, take_until1};
use nom::character::complete::{char, digit1};
use nom::combinator::{all_consuming, map_res, opt, verify};
use nom::sequence::{delimited, preceded};
use nom::{IResult, Parser};

use crate::error::{Error, ErrorKind};

/// Port of a host without an explicit port.
const DEFAULT_PORT: u16 = 2181;

/// Host name or address of a server, and its client port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    name: String,
    port: u16,
}

impl Host {
    /// Creates a host from a name or address (an IPv6 address without brackets) and a port.
    #[must_use]
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port }
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
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
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
        if text.contains("://") {
            return Err(invalid(format!(
                "{text:?} has a scheme: write host:port[,host:port…][/chroot]"
            )));
        }
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            proto::validate_path(chroot)
                .map_err(|error| invalid(format!("the chroot {chroot:?}: {error}")))?;
        }
        let pieces = servers.split(',').map(str::trim).filter(|piece| !piece.is_empty());
        let hosts = pieces.map(parse_host).collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(invalid(format!("{text:?} names no server")));
        }
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }
}

fn parse_host(piece: &str) -> Result<Host, Error> {
    match all_consuming((name, port)).parse(piece) {
        Ok((_, (name, port))) => Ok(Host::new(name, port)),
        Err(_) if piece.parse::<Ipv6Addr>().is_ok() => {
            Err(invalid(format!("write the address {piece} as [{piece}] or [{piece}]:port")))
        }
        Err(_) => Err(invalid(format!(
            "{piece:?} is not a server; write host, host:port or [v6-address]:port, \
             with a port from 1 to 65535"
        ))),
    }
}

fn name(input: &str) -> IResult<&str, &str> {
    alt((
        delimited(char('['), verify(take_until1("]"), is_v6), char(']')),
        take_till1(|c: char| c == ':' || c == '[' || c == ']' || c.is_whitespace()),
    ))
    .parse(input)
}

/// Returns true for an IPv6 address, with or without a zone.
fn is_v6(text: &str) -> bool {
    let address = text.split_once('%').map_or(text, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

/// Parses an optional port. Without a port, and after a bare colon as in Java, the result is the
/// default port.
fn port(input: &str) -> IResult<&str, u16> {
    let number = map_res(digit1, |digits: &str| match digits.parse::<u16>() {
        Ok(0) | Err(_) => Err("a port is a number from 1 to 65535"),
        Ok(port) => Ok(port),
    });
    opt(preceded(char(':'), opt(number)))
        .map(|port| port.flatten().unwrap_or(DEFAULT_PORT))
        .parse(input)
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
    fn connect_string_with_a_scheme_is_refused() {
        for text in ["zk://a:1", "http://a:1/b"] {
            let error = text.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().contains("has a scheme"), "{error}");
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
        ];
        for bad in bad {
            let error = bad.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().starts_with("connect string: "), "{bad}: {error}");
        }
    }
}
