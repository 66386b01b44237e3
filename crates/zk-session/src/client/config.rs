//! How a client is made.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select;

use super::{Client, Pending, RetryPolicy};
use crate::driver::{Connector, DedicatedThread, DriverThread, Tcp};
use crate::limits::{NEXT_SESSION_PAUSE, NEXT_SESSION_PAUSE_MAX};
use crate::{Host, LeaseAssumptions, SessionCredentials};
use zk_session_core::ConnectString;
use zk_session_core::Settings;
use zk_session_core::{Error, ErrorKind, LossCause};

/// Everything about a client that is decided before it exists.
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
#[derive(Clone, Debug)]
pub struct Config {
    connect_string: ConnectString,
    settings: Settings,
    seed: Option<u128>,
    connect_timeout: Duration,
    credentials: Vec<Credential>,
    dedicated_thread: bool,
    next_session: RetryPolicy,
}

#[derive(Clone)]
struct Credential(String, Bytes);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Credential").field(&self.0).finish_non_exhaustive()
    }
}

impl Config {
    /// The defaults, for the ensemble that the connect string names.
    ///
    /// # Errors
    /// The connect string cannot be understood.
    pub fn new(connect_string: &str) -> Result<Self, Error> {
        let connect_string: ConnectString = connect_string.parse()?;
        let hosts = connect_string.hosts().to_vec();
        Ok(Self {
            connect_string,
            settings: Settings::new(hosts, Duration::from_secs(10)),
            seed: None,
            connect_timeout: Duration::from_secs(10),
            credentials: Vec::new(),
            dedicated_thread: false,
            next_session: RetryPolicy::exponential(NEXT_SESSION_PAUSE, NEXT_SESSION_PAUSE_MAX),
        })
    }

    /// How long a session lives on without a sign of life; 10 s by default. It is
    /// the time after which the lock of a dead holder is free, and the longest
    /// interruption that a live holder survives. The server clamps it to between
    /// 2 and 20 of its ticks, which are 2 s as shipped.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// Sets what the lease of the session assumes about servers and clocks.
    ///
    /// [`connect`](Self::connect) fails with [`ErrorKind::LeaseImpossible`] if a lease could never
    /// be safe or never be valid with these assumptions and the session timeout, as asked for
    /// or as negotiated.
    #[must_use]
    pub fn lease_assumptions(mut self, assumptions: LeaseAssumptions) -> Self {
        self.settings.lease_assumptions = assumptions;
        self
    }

    /// How long [`connect`](Self::connect) waits for the session; 10 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long [`connect`](Self::connect) tries while every server refuses the connection, or its
    /// name cannot be looked up. The default is the
    /// [`connect_timeout`](Self::connect_timeout), for services that start at the same time as their
    /// ensemble. With zero, each server is tried once. Interactive tools may prefer a second.
    ///
    /// `connect` waits for a server that accepts the connection and does not answer. If every server
    /// speaks [another protocol](crate::PeerProtocol), it fails after one attempt at each.
    #[must_use]
    pub fn refused_timeout(mut self, timeout: Duration) -> Self {
        self.settings.refused_timeout = Some(timeout);
        self
    }

    /// The most watches that the session may have; [`WATCHES_MAX`](crate::limits::WATCHES_MAX) by
    /// default, and never more. Beyond it requests that set a watch end with
    /// [`ErrorKind::LimitReached`].
    #[must_use]
    pub fn watches_max(mut self, watches: usize) -> Self {
        self.settings.watches_max = watches;
        self
    }

    /// How long a request waits for its answer; without bound by default, that is
    /// until the session ends. See [`Client::within`] for what happens then, and for a
    /// bound of single requests.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// Whether a server that has lost its quorum may serve this client until another one
    /// is found; false by default.
    ///
    /// [`connect`](Self::connect) is then also content with such a server. There is no
    /// session yet in the meantime: [`Client::session_id`] is 0, writes and `sync` end
    /// with [`ErrorKind::NotReadOnly`], what is read may be out of date by any amount, no
    /// lease holds and no lock can be acquired. The other servers are asked in turn
    /// whether they take writes, with the four-letter word `isro`, and the first that
    /// does gets the session
    /// ([`SessionEvent::Connected`](crate::SessionEvent::Connected)). A session that was
    /// made never goes to a read-only server, which would refuse it.
    #[must_use]
    pub fn allow_read_only(mut self, allow: bool) -> Self {
        self.settings.allow_read_only = allow;
        self
    }

    /// Takes over a session instead of making one: that of a process that was replaced,
    /// for example, with its ephemeral nodes. Watches and authentication do not come
    /// along, nor does clean-up that was under way; whoever had the session before loses
    /// its connection.
    ///
    /// If the session is over, [`connect`](Self::connect) fails with
    /// [`SessionEnd::Expired`](crate::SessionEnd::Expired). If no server could be reached
    /// in time the session is left alone, and it may be tried again.
    #[must_use]
    pub fn resume(mut self, session: SessionCredentials) -> Self {
        self.settings.resume = Some(session);
        self
    }

    /// How long [`Client::close`] may take; 2 s by default, and never less than
    /// [`CLOSE_TIMEOUT_MIN`](crate::limits::CLOSE_TIMEOUT_MIN).
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.close_timeout = timeout;
        self
    }

    /// The longest frame accepted from a server, in bytes; 16 MiB by default.
    #[must_use]
    pub fn frame_len_max(mut self, len: usize) -> Self {
        self.settings.frame_len_max = len;
        self
    }

    /// Where the session's random numbers come from: the order of the hosts,
    /// back-off, the ids in the names of lock nodes. Only for tests that are to
    /// be replayed; two sessions of one seed must never meet on one ensemble.
    #[must_use]
    pub fn seed(mut self, seed: u128) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Credentials to present, for example scheme `digest` and `user:password`.
    #[must_use]
    pub fn auth(mut self, scheme: impl Into<String>, auth: impl Into<Bytes>) -> Self {
        self.credentials.push(Credential(scheme.into(), auth.into()));
        self
    }

    /// Whether the session is driven on a thread of its own; false by default, which drives it on
    /// the runtime in which the session is opened.
    ///
    /// With a thread of its own the session sends its heartbeats and notices a lost lock while the
    /// caller blocks its runtime, and no runtime is needed:
    /// [`connect_blocking`](Self::connect_blocking). Dropping the last [`Client`] waits up to
    /// [a tenth of a second](crate::limits::CLOSE_ON_DROP_WAIT) for the server to close the session,
    /// so that a program that ends right afterwards leaves no lock behind. It costs the thread, and
    /// a switch between threads for each answer.
    #[must_use]
    pub fn dedicated_thread(mut self, is_dedicated: bool) -> Self {
        self.dedicated_thread = is_dedicated;
        self
    }

    /// When a [`SessionManager`](crate::SessionManager) tries again to open the next session; by
    /// default without end, with pauses that double from a tenth of a second up to ten seconds.
    #[must_use]
    pub fn next_session_policy(mut self, policy: RetryPolicy) -> Self {
        self.next_session = policy;
        self
    }

    /// Opens a session over TCP and waits until it is there.
    ///
    /// # Errors
    /// [`ErrorKind::NoSession`] with the last cause if no server gave a session in
    /// time, or at once if none of them [is a ZooKeeper server](crate::LossCause::NotZooKeeper),
    /// [`ErrorKind::SessionEnded`] if one refused the credentials,
    /// [`ErrorKind::TooLarge`] or [`ErrorKind::LimitReached`] if they cannot be presented,
    /// [`ErrorKind::LeaseImpossible`] if the session timeout, as asked for or as negotiated, does not
    /// fit the [assumptions](Self::lease_assumptions) of the lease, [`ErrorKind::NoThread`] if the
    /// [thread](Self::dedicated_thread) cannot be started.
    ///
    /// # Cancel safety
    /// Dropping the future closes the session that may have been made; one that was to be
    /// [taken over](Self::resume) is left alone, and may be tried again.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_through(Tcp).await
    }

    /// As [`connect`](Self::connect), over connections of the caller's making.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_through<C: Connector>(self, connector: C) -> Result<Client, Error> {
        let thread = self.thread()?;
        self.connect_on(thread, connector).await
    }

    /// Opens a session on a [thread of its own](Self::dedicated_thread) and blocks the caller until
    /// it is there, for programs without a runtime.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// In a task, or in the `block_on` of a runtime: use [`connect`](Self::connect) there.
    pub fn connect_blocking(self) -> Result<(Client, DedicatedThread), Error> {
        self.connect_blocking_through(Tcp)
    }

    /// As [`connect_blocking`](Self::connect_blocking), over connections of the caller's making.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
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

    /// The thread for the sessions of this configuration, if they are to have one.
    pub(super) fn thread(&self) -> Result<Option<Arc<DriverThread>>, Error> {
        self.dedicated_thread.then(DriverThread::start).transpose().map_err(Error::no_thread)
    }

    pub(super) async fn connect_on<C: Connector>(
        self,
        thread: Option<Arc<DriverThread>>,
        connector: C,
    ) -> Result<Client, Error> {
        let (timeout, resumes) = (self.connect_timeout, self.settings.resume.is_some());
        let servers: Vec<String> = self.settings.hosts.iter().map(ToString::to_string).collect();
        if let Err(why) = self.settings.lease_assumptions.times(self.settings.session_timeout) {
            let kind = ErrorKind::LeaseImpossible(why);
            return Err(Error::not_applied(kind).on("connect to", servers.join(",")));
        }
        let (client, presented) = self.start(connector, thread.as_ref());
        let attempt = resumes.then(|| TakingOver(&client));
        let mut events = client.events();
        let connected = async {
            // Whoever was faster than the subscription has left its mark on the core.
            while !client.shared().lock().is_established() {
                if let Some(end) = client.ended() {
                    return Err(ErrorKind::SessionEnded(end));
                }
                events.next().await;
            }
            if let Some(why) = client.shared().lock().lease_impossible() {
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
        let refused = async { Err(ErrorKind::NoSession(client.shared().refused().await)) };
        let outcome = async { select(pin!(connected), pin!(refused)).await.factor_first().0 };
        let kind = match tokio::time::timeout(timeout, outcome).await {
            Ok(Ok(())) => {
                std::mem::forget(attempt);
                return Ok(client);
            }
            Ok(Err(kind)) => kind,
            Err(_) => {
                let cause = client.shared().lock().last_loss().unwrap_or(LossCause::Silent);
                ErrorKind::NoSession(cause)
            }
        };
        drop(attempt);
        Err(Error::not_applied(kind).on("connect to", servers.join(",")))
    }

    /// Starts to open a session and does not wait: requests wait in the client.
    ///
    /// # Errors
    /// [`ErrorKind::NoThread`] if the [thread](Self::dedicated_thread) cannot be started.
    ///
    /// # Panics
    /// Outside of a tokio runtime, unless the session has a thread of its own.
    pub fn open_through<C: Connector>(self, connector: C) -> Result<Client, Error> {
        let thread = self.thread()?;
        // Credentials that are refused end the session; those that cannot be presented are
        // only told of by `connect`.
        Ok(self.start(connector, thread.as_ref()).0)
    }

    /// As [`open_through`](Self::open_through), but leaves it to the caller to run the
    /// future that moves the bytes: on a runtime of its own, at its own priority, or,
    /// in a simulation, not at all for a while. It is done when the session has ended;
    /// dropping it is the end of the client. It needs tokio's clock.
    pub fn open_undriven<C: Connector>(
        mut self,
        connector: C,
    ) -> (Client, impl Future<Output = ()> + Send + 'static) {
        self.settings.seed = self.seed.unwrap_or_else(entropy);
        let (client, driver) = Client::new(self.settings, self.connect_string.chroot(), connector);
        for Credential(scheme, auth) in self.credentials {
            drop(client.add_auth(&scheme, auth)); // as in `open_through`
        }
        (client, driver)
    }

    pub(super) fn next_session(&self) -> RetryPolicy {
        self.next_session
    }

    /// With at most so much time to connect.
    pub(super) fn connect_within(mut self, left: Duration) -> Self {
        self.connect_timeout = self.connect_timeout.min(left);
        self
    }

    /// For a new session.
    pub(super) fn without_session(mut self) -> Self {
        self.settings.resume = None;
        self
    }

    /// At these servers instead of those of the connect string.
    pub(super) fn at(mut self, hosts: Vec<Host>) -> Self {
        self.settings.hosts = hosts;
        self
    }

    /// For one more session: two of one seed must never meet on one ensemble.
    pub(super) fn reseeded(mut self, nth: u32) -> Self {
        self.seed = self.seed.map(|seed| seed.wrapping_add(u128::from(nth) << 96));
        self
    }

    fn start<C: Connector>(
        self,
        connector: C,
        thread: Option<&Arc<DriverThread>>,
    ) -> (Client, Vec<Pending<()>>) {
        let mut settings = self.settings;
        settings.seed = self.seed.unwrap_or_else(entropy);
        let client = Client::start(settings, self.connect_string.chroot(), connector, thread);
        let credentials = self.credentials.into_iter();
        let answers =
            credentials.map(|Credential(scheme, auth)| client.add_auth(&scheme, auth)).collect();
        (client, answers)
    }
}

/// An attempt at a session that is there already, with its nodes and locks: it is not closed
/// because the attempt fails, or is given up.
struct TakingOver<'a>(&'a Client);

impl Drop for TakingOver<'_> {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// Credentials that the server answers in some other way leave the session as it is.
fn leaves_it_unauthenticated(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::SessionEnded(_) | ErrorKind::TooLarge { .. } | ErrorKind::LimitReached(_)
    )
}

/// 128 bits nobody else draws: the standard library seeds its hash maps from the
/// operating system, once per thread, and the process id tells a forked child.
fn entropy() -> u128 {
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        u128::from(hasher.finish())
    };
    (half() << 64) | half()
}
