//! Settings of a client.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select;
use zk_session_core::{
    ConnectString, DisconnectReason, Error, ErrorKind, Host, LeaseAssumptions, Operation,
    SessionCredentials, Settings,
};

use super::{Client, Pending, RetryPolicy};
use crate::driver::{
    Connector, DedicatedThread, Driver, DriverThread, Sasl, SessionThread, Shared, Tcp,
};
use crate::entropy::entropy;
use crate::limits::{NEXT_SESSION_PAUSE, NEXT_SESSION_PAUSE_MAX};
use crate::trace;

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
#[must_use = "nothing is opened before `connect`"]
#[derive(Clone, Debug)]
pub struct Config {
    connect_string: ConnectString,
    settings: Settings,
    seed: Option<u128>,
    connect_timeout: Duration,
    credentials: Vec<Credential>,
    sasl: Option<Arc<dyn Sasl>>,
    dedicated_thread: bool,
    next_session: RetryPolicy,
    name: Option<Arc<str>>,
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
    /// [`ErrorKind::InvalidConnectString`] if the connect string is invalid.
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
        })
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
    /// assumptions. [`connect`](Self::connect) then fails with [`ErrorKind::LeaseImpossible`]. It
    /// checks both the requested and the negotiated timeout.
    pub fn lease_assumptions(mut self, assumptions: LeaseAssumptions) -> Self {
        self.settings.lease_assumptions = assumptions;
        self
    }

    /// Sets how long [`connect`](Self::connect) waits for the session; 10 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](Self::connect) tries while every server refuses the connection, its
    /// name cannot be resolved, or it [closes the connection in the TLS
    /// handshake](crate::TlsFailure::ClosedByServer).
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
    /// Requests that would set more watches fail with [`ErrorKind::LimitReached`].
    pub fn watches_max(mut self, watches: usize) -> Self {
        self.settings.watches_max = watches;
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
    /// * Writes and `sync` fail with [`ErrorKind::NotReadOnly`].
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
    pub fn frame_len_max(mut self, len: usize) -> Self {
        self.settings.frame_len_max = len;
        self
    }

    /// Sets the seed of the session's random numbers, for tests that replay a run.
    ///
    /// They decide the order of the hosts, the back-off, and the ids in the names of lock nodes.
    /// Two sessions with the same seed must never use the same ensemble.
    pub fn seed(mut self, seed: u128) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds credentials to present, for example scheme `digest` and `user:password`.
    pub fn auth(mut self, scheme: impl Into<String>, auth: impl Into<Bytes>) -> Self {
        self.credentials.push(Credential(scheme.into(), auth.into()));
        self
    }

    /// Authenticates each connection with SASL, for example [`DigestMd5`](crate::DigestMd5), before
    /// anything else is sent on it.
    ///
    /// A connection that cannot be authenticated is not used:
    ///
    /// * A wrong user or password ends the session, as
    ///   [`SessionEnd::AuthFailed`](crate::SessionEnd::AuthFailed).
    /// * Any other [failure](crate::SaslFailure) ends the connection. A first
    ///   [`connect`](Self::connect) fails with it after one attempt at each server; a session that
    ///   was open before keeps trying.
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
    /// ten seconds.
    pub fn next_session_policy(mut self, policy: RetryPolicy) -> Self {
        self.next_session = policy;
        self
    }

    /// Opens a session over TCP and waits until it is open.
    ///
    /// # Errors
    /// * [`ErrorKind::NoSession`], with the last cause, if no server opens a session in time. If no
    ///   server [is a ZooKeeper server](crate::DisconnectReason::NotZooKeeper), or [SASL
    ///   fails](crate::DisconnectReason::Sasl) at each, it is returned at once.
    /// * [`ErrorKind::SessionEnded`] if a server rejects the credentials or requires other ones, or
    ///   the session to [resume](Self::resume) is over.
    /// * [`ErrorKind::TooLarge`] or [`ErrorKind::LimitReached`] if the credentials cannot be
    ///   presented.
    /// * [`ErrorKind::LeaseImpossible`] if the requested or negotiated session timeout does not fit
    ///   the [assumptions](Self::lease_assumptions) of the lease.
    /// * [`ErrorKind::NoThread`] if the [dedicated thread](Self::dedicated_thread) cannot be
    ///   started.
    ///
    /// # Cancel safety
    /// Dropping the future closes a session that was opened meanwhile. A session to be
    /// [resumed](Self::resume) is not closed, and the caller may try again.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_with(Tcp).await
    }

    /// Opens a session over the connections of the given connector; otherwise like
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect).
    pub async fn connect_with<C: Connector>(self, connector: C) -> Result<Client, Error> {
        let thread = self.thread()?;
        self.connect_on(thread, connector).await
    }

    /// Opens a session on a [dedicated thread](Self::dedicated_thread), and blocks the caller until
    /// it is open. For programs without a runtime.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect).
    ///
    /// # Panics
    /// In a task, or in the `block_on` of a runtime: use [`connect`](Self::connect) there.
    pub fn connect_blocking(self) -> Result<(Client, DedicatedThread), Error> {
        self.connect_blocking_through(Tcp)
    }

    /// Opens a session over the connections of the given connector; otherwise like
    /// [`connect_blocking`](Self::connect_blocking).
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect).
    ///
    /// # Panics
    /// In a task, or in the `block_on` of a runtime.
    pub fn connect_blocking_through<C: Connector>(
        self,
        connector: C,
    ) -> Result<(Client, DedicatedThread), Error> {
        let thread = DriverThread::start().map_err(Error::no_thread)?;
        let client = thread.block_on(self.connect_on(Some(thread.clone()), connector))?;
        Ok((client, DedicatedThread::new(&thread)))
    }

    /// Starts the thread for the sessions of this configuration, if it asks for a dedicated one.
    pub(super) fn thread(&self) -> Result<Option<Arc<DriverThread>>, Error> {
        self.dedicated_thread.then(DriverThread::start).transpose().map_err(Error::no_thread)
    }

    pub(super) async fn connect_on<C: Connector>(
        self,
        thread: Option<Arc<DriverThread>>,
        connector: C,
    ) -> Result<Client, Error> {
        let servers: Vec<String> = self.settings.hosts.iter().map(ToString::to_string).collect();
        let servers = servers.join(",");
        trace::connect(&servers, self.attempt(thread, connector, &servers)).await
    }

    async fn attempt<C: Connector>(
        self,
        thread: Option<Arc<DriverThread>>,
        connector: C,
        servers: &str,
    ) -> Result<Client, Error> {
        let (timeout, resumes) = (self.connect_timeout, self.settings.resume.is_some());
        if let Err(why) = self.settings.lease_assumptions.times(self.settings.session_timeout) {
            let kind = ErrorKind::LeaseImpossible(why);
            return Err(Error::not_applied(kind).on(Operation::Other("connect to"), servers));
        }
        let (client, presented) = self.start(connector, thread.as_ref());
        let attempt = resumes.then(|| TakingOver(&client));
        let mut events = client.events();
        let connected = async {
            // An event before the subscription is not received, but the state of the core shows it.
            while !client.shared.lock().is_established() {
                if let Some(end) = client.end_reason() {
                    return Err(ErrorKind::SessionEnded(end));
                }
                events.next().await;
            }
            if let Some(why) = client.shared.lock().lease_impossible() {
                return Err(ErrorKind::LeaseImpossible(why));
            }
            for answer in presented {
                match answer.await.map_err(|error| error.kind().clone()) {
                    Err(kind) if leaves_it_unauthenticated(&kind) => return Err(kind),
                    _ => {}
                }
            }
            Ok(())
        };
        let refused = async { Err(ErrorKind::NoSession(client.shared.refused().await)) };
        let outcome = async { select(pin!(connected), pin!(refused)).await.factor_first().0 };
        let kind = match tokio::time::timeout(timeout, outcome).await {
            Ok(Ok(())) => {
                std::mem::forget(attempt);
                return Ok(client);
            }
            Ok(Err(kind)) => kind,
            Err(_) => {
                let cause =
                    client.shared.lock().last_disconnect().unwrap_or(DisconnectReason::IdleTimeout);
                ErrorKind::NoSession(cause)
            }
        };
        drop(attempt);
        Err(Error::not_applied(kind).on(Operation::Other("connect to"), servers))
    }

    /// Starts to open a session and returns at once. Requests wait in the client until it is open.
    ///
    /// # Errors
    /// [`ErrorKind::NoThread`] if the [dedicated thread](Self::dedicated_thread) cannot be started.
    ///
    /// # Panics
    /// Outside of a tokio runtime, unless the session has a dedicated thread.
    pub fn open_through<C: Connector>(self, connector: C) -> Result<Client, Error> {
        let thread = self.thread()?;
        // Rejected credentials end the session. Only `connect` reports credentials that cannot be
        // presented.
        Ok(self.start(connector, thread.as_ref()).0)
    }

    /// Starts to open a session, and returns its driver as a future for the caller to run;
    /// otherwise like [`open_through`](Self::open_through).
    ///
    /// The driver moves the bytes. The caller can run it on another runtime, at another priority,
    /// or, in a simulation, not at all for a while. It completes when the session has ended.
    /// Dropping it ends the client. It needs tokio's clock.
    pub fn into_parts<C: Connector>(
        self,
        connector: C,
    ) -> (Client, impl Future<Output = ()> + Send + 'static) {
        let (shared, driver) = self.prepare(connector);
        (self.client(shared, None).0, driver)
    }

    pub(super) fn next_session(&self) -> RetryPolicy {
        self.next_session
    }

    /// Returns the settings of the session with this number after the first: a new session at
    /// these servers, opened in at most `left`.
    pub(super) fn for_next(&self, nth: u32, hosts: Vec<Host>, left: Duration) -> Self {
        let mut next = self.clone();
        next.settings.resume = None;
        next.settings.hosts = hosts;
        next.connect_timeout = self.connect_timeout.min(left);
        // Two sessions with the same seed must never use the same ensemble.
        next.seed = self.seed.map(|seed| seed.wrapping_add(u128::from(nth) << 96));
        next
    }

    /// Starts to open a session that the thread drives, or else the caller's runtime. Also returns
    /// the replies to the credentials.
    fn start<C: Connector>(
        self,
        connector: C,
        thread: Option<&Arc<DriverThread>>,
    ) -> (Client, Vec<Pending<()>>) {
        let (shared, driver) = self.prepare(connector);
        let driver = driver.closing_on_drop();
        let thread = match thread {
            Some(thread) => Some(thread.drive(driver)),
            None => {
                tokio::spawn(driver);
                None
            }
        };
        self.client(shared, thread)
    }

    fn prepare<C: Connector>(&self, connector: C) -> (Arc<Shared>, Driver<C>) {
        let seed = self.seed.unwrap_or_else(entropy);
        let mut settings = self.settings.clone();
        settings.seed = seed;
        let shared = Shared::new(settings, self.connect_string.chroot(), self.name.clone());
        let driver = Driver::new(shared.clone(), connector, self.sasl.clone());
        (shared, driver)
    }

    /// Returns a handle to the session, and the replies to its credentials.
    fn client(
        self,
        shared: Arc<Shared>,
        thread: Option<SessionThread>,
    ) -> (Client, Vec<Pending<()>>) {
        let client = Client::new(shared, thread);
        let present = |Credential(scheme, auth)| client.add_auth(&scheme, auth);
        let answers = self.credentials.into_iter().map(present).collect();
        (client, answers)
    }
}

impl Client {
    /// Opens a session with the default settings; see [`Config`] for all settings.
    ///
    /// # Errors
    /// Returns the errors of [`Config::new`] and [`Config::connect`].
    pub async fn connect(connect_string: &str) -> Result<Self, Error> {
        Config::new(connect_string)?.connect().await
    }
}

/// Attempt to resume an existing session. Dropping it detaches the client, so that a failed or
/// cancelled attempt does not close the session with its nodes and locks.
struct TakingOver<'a>(&'a Client);

impl Drop for TakingOver<'_> {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// Returns true for errors that leave the session without the credentials. After any other error
/// the session is as usable as before.
fn leaves_it_unauthenticated(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::SessionEnded(_) | ErrorKind::TooLarge { .. } | ErrorKind::LimitReached(_)
    )
}
