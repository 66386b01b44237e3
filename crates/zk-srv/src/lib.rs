//! Servers of a ZooKeeper ensemble from DNS SRV records.
//!
//! The connect string `srv://_zookeeper._tcp.example.com/chroot` stands for the servers of the records of
//! that name. [`config`] takes it, and other connect strings as well. `dns-srv://`, as the Java client from
//! 3.10 on writes it (ZOOKEEPER-4956), means the same.
//!
//! ```no_run
//! # async fn example() -> Result<(), zk_session::Error> {
//! let client = zk_srv::config("srv://_zookeeper._tcp.example.com/app")?.connect().await?;
//! # drop(client); Ok(())
//! # }
//! ```
//!
//! * The session asks for the records when [`Config::discover`] says so: when a session opens, and when no
//!   server could be reached for a while. An answer is kept for the shortest TTL of its records, an hour at
//!   most, and is not asked for again before.
//! * Servers of a lower priority are tried first, and those of one priority in a random order that follows
//!   the weights (RFC 2782). If all priorities and weights are equal, the session spreads its load like that
//!   of any connect string.
//! * A record whose target is `.` means that there is no service: the question fails.
//! * The names of the targets are looked up like those of a connect string, and with TLS, certificates are
//!   checked against them. DNS answers are not authenticated: who can forge them chooses the servers. With
//!   TLS, such a server still needs a certificate that the client trusts.
//!
//! # Why not a resolver crate
//! One question, one type of record, and one parser of an answer are a few hundred lines. In November 2026,
//! `hickory-resolver` 0.25 with its smallest features meant 86 packages in the tree, some with procedural
//! macros, half a minute of building, and 0.65 MB in a program that is built for size. This crate adds no
//! package to `zk-session`. The price:
//!
//! * The name servers are those of `/etc/resolv.conf`, read for each question. Elsewhere, and for other
//!   ports, set [`Srv::name_servers`].
//! * The name is absolute: the `search` domains and the other options of that file do not apply.
//! * An answer of more than 512 bytes is asked for again over TCP (no EDNS). Nothing is validated by DNSSEC.
//!
//! A question has a random id, comes from a random port, and takes only an answer to the same question from
//! the server that was asked. The parser has a fuzz target (`srv` in the folder `fuzz`).

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod message;
mod order;
mod resolver;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use zk_session::{Config, Error, ErrorKind, Host, ServerList, ServerListing};

use self::message::Name;

#[doc(hidden)]
pub mod fuzz {
    //! The parser, for its fuzz target.

    pub use crate::message::{Answer, Name, Record, Response, parse};
    pub use crate::order::ranked;
}

/// Returns the default settings for the ensemble of a connect string, which may begin with `srv://` or
/// `dns-srv://`.
///
/// The host of the connect string is then the name of the records, on port 2181. Nothing has an address of
/// that name, usually: it is what errors show until the records are found.
///
/// # Errors
/// [`ErrorKind::InvalidConnectString`] if the connect string is invalid.
pub fn config(connect_string: &str) -> Result<Config, Error> {
    match Srv::of(connect_string)? {
        Some((srv, fallback)) => Ok(Config::new(&fallback)?.discover(srv)),
        None => Config::new(connect_string),
    }
}

/// The servers of the SRV records of a name. Clones share the answer.
#[derive(Clone, Debug)]
pub struct Srv {
    name: Name,
    /// Those of the system if it is empty.
    name_servers: Vec<SocketAddr>,
    answer: Arc<Mutex<Option<Kept>>>,
}

/// An answer, until it is too old.
#[derive(Debug)]
struct Kept {
    servers: Vec<Host>,
    until: Instant,
}

impl Srv {
    /// Returns the list of servers of this absolute name, for example `_zookeeper._tcp.example.com`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidConnectString`] if it is no name of DNS records.
    pub fn new(name: &str) -> Result<Self, Error> {
        let Some(name) = Name::parse(name) else {
            let why = format!("{name:?} is not a name of DNS records");
            return Err(Error::not_applied(ErrorKind::InvalidConnectString(why)));
        };
        Ok(Self { name, name_servers: Vec::new(), answer: Arc::default() })
    }

    /// Returns the list of servers of a connect string with `srv://` or `dns-srv://`, and the connect
    /// string to begin with, which has the name of the records in place of servers. Returns `None` for other
    /// connect strings.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidConnectString`] if the name of the records is invalid. The chroot is not checked.
    pub fn of(connect_string: &str) -> Result<Option<(Self, String)>, Error> {
        let text = connect_string.trim_start();
        let Some(rest) = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) else {
            return Ok(None);
        };
        let name = rest.split('/').next().unwrap_or_default();
        Ok(Some((Self::new(name)?, rest.to_owned())))
    }

    /// Asks these name servers, in this order, instead of those of the system.
    #[must_use]
    pub fn name_servers(mut self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.name_servers = servers.into_iter().collect();
        self
    }

    /// Returns the servers, in the order in which to try them.
    ///
    /// # Errors
    /// * The kind `NotFound`: there is no such name, it has no SRV records, or they say that there is no
    ///   service.
    /// * The kind `TimedOut`: no name server answered in time.
    /// * The kind `InvalidData`: the answer cannot be parsed.
    /// * Any other: the last name server could not be reached, or answered with an error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the question.
    pub fn lookup(&self) -> impl Future<Output = io::Result<Vec<Host>>> + Send + use<> {
        let Self { name, name_servers, answer } = self.clone();
        async move {
            // Sessions that ask at the same time wait for one answer.
            let mut kept = answer.lock().await;
            if let Some(kept) = kept.as_ref().filter(|kept| now() < kept.until) {
                return Ok(kept.servers.clone());
            }
            let found = resolver::ask(&name, &name_servers).await;
            let found =
                found.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
            let servers = order::ranked(found.records, resolver::random);
            let until = now() + found.ttl.min(TTL_MAX);
            *kept = Some(Kept { servers: servers.clone(), until });
            Ok(servers)
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this is a driver, of questions to name servers")]
fn now() -> Instant {
    Instant::now()
}

impl ServerList for Srv {
    fn servers(&self) -> ServerListing {
        Box::pin(self.lookup())
    }
}

const SCHEMES: [&str; 2] = ["srv://", "dns-srv://"];

/// Longest time for which an answer is kept. A record with a TTL of years would outlive every ensemble.
const TTL_MAX: Duration = Duration::from_secs(3600);
