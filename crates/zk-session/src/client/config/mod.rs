//! Settings of a client.

mod connect;

pub(super) use self::connect::leaves_it_unauthenticated;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_session_core::{ConnectString, Error, Host, LeaseAssumptions, SessionCredentials, Settings};

use super::server_list::Upkeep;
use super::{Client, RetryPolicy, ServerList};
use crate::driver::{Connector, DriverThread, Sasl, Tcp};
use crate::limits::{NEXT_SESSION_PAUSE, NEXT_SESSION_PAUSE_MAX, SASL_REJECTION_TIME};

/// Settings of a client, and the methods that open its session.
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use std::time::Duration;
/// use zk_session::Config;
///
/// let client = Config::new("zk1:2181,zk2:2181,zk3:2181/app")?
///     .session_timeout(Duration::from_secs(6))
///     .connect_timeout(Duration::from_secs(3))
///     .connect()
///     .await?;
/// # drop(client); Ok(())
/// # }
/// ```
///
/// `C` is the [connector](Self::connector) that opens the connections; plain TCP by default.
#[must_use = "nothing is opened before `connect`"]
#[derive(Clone, Debug)]
pub struct Config<C = Tcp> {
    connect_string: ConnectString,
    settings: Settings,
    seed: Option<u128>,
    connect_timeout: Duration,
    credentials: Vec<Credential>,
    sasl: Option<Arc<dyn Sasl>>,
    dedicated_thread: bool,
    next_session: RetryPolicy,
    name: Option<Arc<str>>,
    creates_chroot: bool,
    upkeep: Upkeep,
    connector: C,
}

#[derive(Clone)]
struct Credential(String, Bytes);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Credential").field(&self.0).finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the default settings for the ensemble of a connect string.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidConnectString`](crate::ErrorKind::InvalidConnectString) if the connect
    /// string is invalid.
    pub fn new(connect_string: &str) -> Result<Self, Error> {
        let connect_string: ConnectString = connect_string.parse()?;
        let hosts = connect_string.hosts().to_vec();
        Ok(Self {
            connect_string,
            settings: Settings::new(hosts, Duration::from_secs(10)),
            seed: None,
            connect_timeout: Duration::from_secs(10),
            credentials: Vec::new(),
            sasl: None,
            dedicated_thread: false,
            next_session: RetryPolicy::exponential(NEXT_SESSION_PAUSE, NEXT_SESSION_PAUSE_MAX),
            name: None,
            creates_chroot: false,
            upkeep: Upkeep::default(),
            connector: Tcp,
        })
    }
}

impl<C> Config<C> {
    /// Sets the connector that opens the connections; [`Tcp`] by default. The crate `zk-tls` has one
    /// for TLS. A server of the crate `zk-testing` is one for clients in memory.
    pub fn connector<D: Connector>(self, connector: D) -> Config<D> {
        Config {
            connect_string: self.connect_string,
            settings: self.settings,
            seed: self.seed,
            connect_timeout: self.connect_timeout,
            credentials: self.credentials,
            sasl: self.sasl,
            dedicated_thread: self.dedicated_thread,
            next_session: self.next_session,
            name: self.name,
            creates_chroot: self.creates_chroot,
            upkeep: self.upkeep,
            connector,
        }
    }

    /// Creates the chroot of the connect string when a session opens, if it does not exist.
    ///
    /// Without this setting a missing chroot is an error of each request (`NoNode`), because it is usually
    /// a typing error. The nodes are persistent and open to everyone. Create them yourself to protect them.
    ///
    /// [`connect`](Self::connect) waits until the chroot exists, and fails if the server rejects the
    /// creation. A [`SessionManager`](crate::SessionManager) does the same for each session, and tries again
    /// after a failure. [`open`](Self::open) and [`into_parts`](Self::into_parts) create nothing.
    pub fn create_chroot(mut self) -> Self {
        self.creates_chroot = true;
        self
    }

    /// Asks this list for the servers. Those of the connect string are the fallback: the session uses them
    /// until the list has named at least one server.
    ///
    /// The list is asked when a session opens, and by a [`SessionManager`](crate::SessionManager) for each
    /// next session. It is asked again when the session has had no server for a [part of its
    /// timeout](crate::limits::DISCOVERY_AFTER_PART), and then at pauses that double. An answer replaces the
    /// list of servers like [`Client::update_servers`]; the last one counts.
    ///
    /// An answer is not used if it is empty, an error, or later than
    /// [`DISCOVERY_TIMEOUT`](crate::limits::DISCOVERY_TIMEOUT), and if a session that was opened over TLS
    /// would leave TLS at one of the servers. It is reported as
    /// [`DisconnectReason::NoServerList`](crate::DisconnectReason::NoServerList) while no server can be
    /// reached, and to `tracing`.
    ///
    /// [`connect`](Self::connect) waits for the first answer, for half of its time limit at most.
    /// [`open`](Self::open) and [`into_parts`](Self::into_parts) begin with the servers of the connect
    /// string, and move if the answer lacks the server.
    pub fn discover(mut self, list: impl ServerList) -> Self {
        self.upkeep.list = Some(Arc::new(list));
        self
    }

    /// Follows the members of the ensemble: after each connect, and whenever the ensemble is reconfigured,
    /// the session takes the servers of `/zookeeper/config`, as [`Client::update_servers_from`] does.
    ///
    /// Off by default. The configuration has the addresses by which the ensemble knows its servers, and
    /// clients behind a proxy, in another network or outside of a cluster may not reach them. With the first
    /// configuration that it reads, the session stays at its server and keeps that in the list.
    ///
    /// The servers stay as they are if a member of the configuration has no address for clients of this
    /// kind, or only that of all interfaces (`0.0.0.0`), or if the configuration is no newer than the one
    /// before. With TLS, only addresses for clients with TLS count: servers before 3.10 have none. The
    /// session stops to follow if the servers do not show the configuration: without the permission to read
    /// it, or before 3.5. All this is reported to `tracing` alone.
    ///
    /// It costs a request for each connection, and one of the [watches](Self::max_watches).
    pub fn follow_members(mut self) -> Self {
        self.upkeep.follows_members = true;
        self
    }

    /// Sets the session timeout; 10 s by default.
    ///
    /// The server expires a session that stays silent for this long. A lock of a dead holder
    /// becomes free after this time, and a live holder survives a shorter interruption. The server
    /// clamps the timeout to between 2 and 20 of its ticks. A tick is 2 s in the configuration that
    /// ZooKeeper ships.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// Sets the assumptions of the session's lease about servers and clocks.
    ///
    /// With some session timeouts a lease could never be safe or never be valid under these
    /// assumptions. [`connect`](Self::connect) then fails with
    /// [`ErrorKind::LeaseImpossible`](crate::ErrorKind::LeaseImpossible). It checks both the
    /// requested and the negotiated timeout.
    pub fn lease_assumptions(mut self, assumptions: LeaseAssumptions) -> Self {
        self.settings.lease_assumptions = assumptions;
        self
    }

    /// Sets how long [`connect`](Self::connect) waits for the session; 10 s by default.
    ///
    /// It is also the limit of each attempt of a [`SessionManager`](crate::SessionManager) at the next
    /// session. With [`sasl`](Self::sasl), that limit is at least twice
    /// [`SASL_REJECTION_TIME`](crate::limits::SASL_REJECTION_TIME).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](Self::connect) keeps trying while no server is usable: each refuses
    /// the connection, has an unknown name, or closes it in the [TLS
    /// handshake](crate::TlsFailure::ClosedByServer) or in the [SASL
    /// exchange](crate::SaslFailure::ClosedByServer).
    ///
    /// The default is the [`connect_timeout`](Self::connect_timeout), for services that start at
    /// the same time as their ensemble. With zero, each server is tried once. Interactive tools may
    /// prefer a second.
    ///
    /// `connect` waits for a server that accepts the connection and does not answer. If every
    /// server speaks [another protocol](crate::PeerProtocol), it fails after one attempt at each
    /// server.
    pub fn refused_timeout(mut self, timeout: Duration) -> Self {
        self.settings.refused_timeout = Some(timeout);
        self
    }

    /// Names the client for people. The recipes write the name into the nodes of its locks, so that
    /// tools can show the holder. The default is the name of the program.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the maximum number of watches of the session; at most
    /// [`WATCHES_MAX`](crate::limits::WATCHES_MAX), which is the default.
    ///
    /// Requests that would set more watches fail with
    /// [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached). A watch counts from the reply on, so
    /// requests that are sent together can exceed the maximum by their number.
    pub fn max_watches(mut self, watches: usize) -> Self {
        self.settings.max_watches = watches;
        self
    }

    /// Sets how long a request waits for its reply.
    ///
    /// By default it waits until the session ends. See [`Client::with_timeout`] for the effect of the
    /// timeout, and for a timeout of single requests.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// Allows a server without a quorum to serve this client until another server is found.
    ///
    /// [`connect`](Self::connect) then also succeeds with such a read-only server. While the client
    /// is connected to it:
    ///
    /// * There is no session yet, and [`Client::session_id`] is
    ///   [`SessionId::NONE`](crate::SessionId::NONE).
    /// * Writes and `sync` fail with [`ErrorKind::NotReadOnly`](crate::ErrorKind::NotReadOnly).
    /// * Reads may return data that is out of date by any amount.
    /// * No lease is valid, and no lock can be acquired.
    ///
    /// Meanwhile the client sends the four-letter word `isro` to the other servers in turn. It
    /// opens the session at the first server that accepts writes
    /// ([`SessionEvent::Connected`](crate::SessionEvent::Connected)). An existing session never
    /// connects to a read-only server, which would refuse it.
    pub fn allow_read_only(mut self) -> Self {
        self.settings.allow_read_only = true;
        self
    }

    /// Resumes an existing session instead of opening a new one.
    ///
    /// For example, a process can resume the session of the process that it replaces, with its
    /// ephemeral nodes. The new client does not get the watches, the authentication and the pending
    /// clean-up of the previous one, which loses its connection.
    ///
    /// Its requests are counted from a random number. Servers tell writes of one session apart by their
    /// numbers alone, and would take a late write of the previous client for one of the new client.
    ///
    /// If the session is over, [`connect`](Self::connect) fails with
    /// [`SessionEnd::Expired`](crate::SessionEnd::Expired). If no server can be reached in time,
    /// the session is not closed, and the caller may try again.
    pub fn resume(mut self, session: SessionCredentials) -> Self {
        self.settings.resume = Some(session);
        self
    }

    /// Sets how long [`Client::close`] may take; 2 s by default, at least
    /// [`CLOSE_TIMEOUT_MIN`](crate::limits::CLOSE_TIMEOUT_MIN).
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.close_timeout = timeout;
        self
    }

    /// Sets the longest frame accepted from a server, in bytes; 16 MiB by default.
    ///
    /// `jute.maxbuffer` of the servers limits requests and not replies: a list of children, for example,
    /// may be longer.
    pub fn max_frame_len(mut self, len: usize) -> Self {
        self.settings.max_frame_len = len;
        self
    }

    /// Sets the longest frame of a request, in bytes; 1,048,575 by default, as that of the servers.
    ///
    /// A longer request fails with [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge). For servers with
    /// another `jute.maxbuffer`, set the same value. A server closes the connection over a request that
    /// exceeds it, without an answer, and the requests sent with it fail too.
    pub fn max_request_len(mut self, len: usize) -> Self {
        self.settings.max_request_len = len;
        self
    }

    /// Sets the bytes of paths in one request that re-registers watches, for simulations. The default is
    /// also the maximum.
    #[doc(hidden)]
    pub fn rearm_chunk_bytes(mut self, bytes: usize) -> Self {
        self.settings.rearm_chunk_bytes = bytes;
        self
    }

    /// Sets the seed of the session's random numbers, for tests that replay a run.
    ///
    /// They decide the order of the hosts, the back-off, and the ids in the names of lock nodes.
    /// Two sessions with the same seed must never use the same ensemble: their ids are equal, so the
    /// clean-up of one can delete the nodes of the other. Production code sets no seed.
    pub fn seed(mut self, seed: u128) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds credentials to present, for example scheme `digest` and `user:password`.
    pub fn auth(mut self, scheme: impl Into<String>, auth: impl AsRef<[u8]>) -> Self {
        self.credentials.push(Credential(scheme.into(), Bytes::copy_from_slice(auth.as_ref())));
        self
    }

    /// Authenticates each connection with SASL, for example [`DigestMd5`](crate::DigestMd5), before
    /// anything else is sent on it.
    ///
    /// A connection that cannot be authenticated is not used:
    ///
    /// * A user or password that every server rejects ends the session, as
    ///   [`SessionEnd::AuthFailed`](crate::SessionEnd::AuthFailed). The client does not wait for a
    ///   server that is unreachable.
    /// * Any other [failure](crate::SaslFailure) ends the connection. A first
    ///   [`connect`](Self::connect) fails with it after one attempt at each server, except for a
    ///   close. A session that was open before keeps trying.
    /// * If every server closes
    ///   [`SASL_CLOSES_MAX`](crate::limits::SASL_CLOSES_MAX) connections in a row after the proof,
    ///   over at least [`SASL_REJECTION_TIME`](crate::limits::SASL_REJECTION_TIME), they count as a
    ///   rejection of the user or password. The client waits for a server that is unreachable.
    pub fn sasl(mut self, sasl: impl Sasl) -> Self {
        self.sasl = Some(Arc::new(sasl));
        self
    }

    /// Runs the session on a dedicated thread instead of the runtime in which it is opened.
    ///
    /// On a dedicated thread the session sends its heartbeats and detects a lost lock even while
    /// the caller blocks its runtime. The caller needs no runtime at all: see
    /// [`connect_blocking`](Self::connect_blocking). Dropping the last [`Client`] waits up to [a
    /// tenth of a second](crate::limits::CLOSE_ON_DROP_WAIT) for the server to close the session,
    /// so that a program that ends right afterwards leaves no lock behind. The cost is the thread,
    /// and a switch between threads for each reply.
    pub fn dedicated_thread(mut self) -> Self {
        self.dedicated_thread = true;
        self
    }

    /// Sets when a [`SessionManager`](crate::SessionManager) retries to open the next session.
    ///
    /// By default it retries without end, with pauses that double from a tenth of a second up to
    /// ten seconds. [`RetryPolicy::until_session_end`] has these pauses here too: no session is open
    /// that could end the attempts.
    pub fn next_session_policy(mut self, policy: RetryPolicy) -> Self {
        self.next_session = policy.for_next_session();
        self
    }

    pub(super) fn next_session(&self) -> RetryPolicy {
        self.next_session
    }

    /// Starts the thread for the sessions of this configuration, if it asks for a dedicated one.
    pub(super) fn thread(&self) -> Result<Option<Arc<DriverThread>>, Error> {
        self.dedicated_thread.then(DriverThread::start).transpose().map_err(Error::no_thread)
    }
}

impl<C: Clone> Config<C> {
    pub(super) fn resume_nothing(&mut self) {
        self.settings.resume = None;
    }

    /// Returns the settings of the attempt with this number, the first of which is 0, to open a new session
    /// at these servers in at most `left`.
    pub(super) fn for_next(&self, nth: u32, hosts: Vec<Host>, left: Duration) -> Self {
        let mut next = self.clone();
        next.settings.hosts = hosts;
        next.connect_timeout = self.connect_timeout.min(left);
        if self.sasl.is_some() {
            // Old servers reject credentials by closes, and a shorter attempt cannot detect that.
            next.connect_timeout = self.connect_timeout.max(2 * SASL_REJECTION_TIME).min(left);
            next.settings.refused_timeout = None;
        }
        // Two sessions with the same seed must never use the same ensemble.
        next.seed = self.seed.map(|seed| seed.wrapping_add(u128::from(nth) << 96));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sessions with the same seed would choose the same ids for their lock nodes.
    #[test]
    fn next_session_has_another_seed() -> Result<(), Error> {
        let first = Config::new("a")?.seed(7);
        let seed = |nth| first.for_next(nth, Vec::new(), Duration::ZERO).seed;
        let seeds = [first.seed, seed(1), seed(2)];
        assert!(seeds.iter().all(Option::is_some), "{seeds:?}");
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2], "{seeds:?}");
        Ok(())
    }
}
