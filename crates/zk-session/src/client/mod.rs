//! The typed client: what an application holds in its hands.

mod config;
mod events;
mod lease;
mod multi;
mod multi_read;
mod new_node;
mod operations;
mod pending;
mod retry;
mod retry_policy;
mod session_manager;
mod watch_stream;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use self::config::Config;
pub use self::events::SessionEvents;
pub use self::lease::{Belief, LeaseClaim, LeaseLoss};
pub use self::multi::{Multi, MultiOutcome};
pub use self::multi_read::{MultiRead, ReadOutcome};
pub use self::new_node::{NewNode, Parents};
pub use self::operations::{Children, Created, EnsembleConfig, Member, NodeAcl, NodeData};
pub use self::pending::{Pending, PendingWatch, Watch, WatchedEvent};
pub use self::retry::Retry;
pub use self::retry_policy::RetryPolicy;
pub use self::session_manager::{SessionChange, SessionChanges, SessionManager};
pub use self::watch_stream::{PendingStream, WatchNews, WatchStream};

use tokio::task::AbortHandle;

use crate::driver::{
    Connector, DedicatedThread, Driver, DriverThread, SessionThread, Shared, now, timer,
};
use crate::limits::CLOSE_ON_DROP_WAIT;
use crate::{SessionCredentials, SessionEnd};
use zk_session_core::ConnectString;
use zk_session_core::{Error, ErrorKind};
use zk_session_core::{Settings, Stats, TIMEOUT_MAX};

/// A handle on one session. Cheap to clone; the session is closed when the last
/// clone, and everything that holds one, is gone.
///
/// Every operation **sends its request when it is called**, not when the returned
/// future is first polled. Requests are answered in the order in which they were
/// made, and a watch event is told before the answer that shows its effect.
///
/// A client is bound to its session: after it has expired every operation fails,
/// and a new client has to be made; a [`SessionManager`] does that. It is on purpose: a session
/// that is silently replaced takes the locks along that it held.
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use zk_session::{Client, CreateMode};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// client.create("/greeting", b"hello", CreateMode::Ephemeral).await?;
/// let node = client.get_data("/greeting").await?;
/// assert_eq!(node.data.as_deref(), Some(&b"hello"[..]));
/// client.close().await;
/// # Ok(())
/// # }
/// ```
///
/// # Retries
/// [`Error::retry_on`] says where a failed call can be repeated:
///
/// ```no_run
/// # use std::time::Duration;
/// use zk_session::{CreateMode, Error, RetryOn, SessionManager};
///
/// async fn register(sessions: &SessionManager) -> Result<(), Error> {
///     loop {
///         let client = sessions.open_client().await?;
///         let error = match client.create("/here", b"", CreateMode::Ephemeral).await {
///             Ok(_) => return Ok(()),
///             Err(error) => error,
///         };
///         match error.retry_on() {
///             RetryOn::SameSession => tokio::time::sleep(Duration::from_millis(100)).await,
///             RetryOn::NewSession => drop(client.wait_for_end().await),
///             RetryOn::Never => return Err(error),
///         }
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// Keeps the session open. A [weak](Self::weak) handle has none.
    open: Option<Arc<OpenSession>>,
    /// How long the requests of this handle wait, if not as long as others.
    within: Option<Duration>,
    /// What stands before the paths of this handle; empty, or a path.
    chroot: Arc<str>,
}

/// Closes the session when the last handle on it is dropped.
struct OpenSession {
    shared: Arc<Shared>,
    /// Where the driver runs, if on a thread of its own.
    thread: Option<SessionThread>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let is_connected = {
            let mut session = self.shared.lock();
            session.close(now());
            session.is_connected()
        };
        self.shared.wake();
        if let Some(thread) = &mut self.thread
            && is_connected
        {
            thread.wait_for_driver(CLOSE_ON_DROP_WAIT);
        }
    }
}

impl Client {
    /// Opens a session with all defaults; see [`Config`] for what can be chosen.
    ///
    /// # Errors
    /// As [`Config::new`] and [`Config::connect`].
    pub async fn connect(connect_string: &str) -> Result<Self, Error> {
        Config::new(connect_string)?.connect().await
    }

    /// Starts a session: on the given thread, else on the runtime of the caller.
    pub(crate) fn start<C: Connector>(
        settings: Settings,
        chroot: &str,
        connector: C,
        thread: Option<&Arc<DriverThread>>,
    ) -> Self {
        let (shared, driver) = undriven(settings, chroot, connector);
        let driver = driver.closing_on_drop();
        let thread = match thread {
            Some(thread) => Some(thread.drive(driver)),
            None => {
                tokio::spawn(driver);
                None
            }
        };
        Self::open(shared, thread)
    }

    /// A client, and what has to run for it to get anywhere.
    pub(crate) fn new<C: Connector>(
        settings: Settings,
        chroot: &str,
        connector: C,
    ) -> (Self, Driver<C>) {
        let (shared, driver) = undriven(settings, chroot, connector);
        (Self::open(shared, None), driver)
    }

    fn open(shared: Arc<Shared>, thread: Option<SessionThread>) -> Self {
        let chroot = shared.chroot().clone();
        let open = Arc::new(OpenSession { shared: shared.clone(), thread });
        Self { shared, open: Some(open), within: None, chroot }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns a handle that does not keep the session open: the session is closed when the last
    /// other handle is dropped, and requests of this one fail from then on. For tasks that work on
    /// behalf of a handle and end after it.
    #[must_use]
    pub fn weak(&self) -> Self {
        Self { open: None, ..self.clone() }
    }

    /// Returns the [thread](Config::dedicated_thread) that drives the session; `None` if a runtime of
    /// the caller's does, and for a [weak](Self::weak) handle.
    #[must_use]
    pub fn dedicated_thread(&self) -> Option<DedicatedThread> {
        let thread = self.open.as_ref()?.thread.as_ref()?;
        Some(DedicatedThread::new(thread.thread()))
    }

    /// The session's id; 0 before the first handshake.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.shared().lock().session_id()
    }

    /// The session timeout as negotiated; as asked for before the first handshake.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.shared().lock().session_timeout()
    }

    /// True while there is a connection and requests flow.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared().lock().is_connected()
    }

    /// True while the connection is to a server without a quorum; see
    /// [`Config::allow_read_only`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.shared().lock().is_read_only()
    }

    /// How the session ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<SessionEnd> {
        self.shared().lock().ended()
    }

    /// Waits until the session has ended, and returns how. The future does not keep the session
    /// open.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn wait_for_end(&self) -> impl Future<Output = SessionEnd> + Send + use<> {
        let mut standing = self.shared().standing();
        async move {
            let told = standing.wait_for(|standing| standing.ended.is_some()).await;
            // An error means that the driver is gone, and the session with it.
            told.ok().and_then(|standing| standing.ended).unwrap_or(SessionEnd::Closed)
        }
    }

    /// This end's address on the last connection, if it has one.
    #[must_use]
    pub fn local_address(&self) -> Option<IpAddr> {
        self.shared().local_address()
    }

    /// The events of the session from now on.
    #[must_use]
    pub fn events(&self) -> SessionEvents {
        let session = self.shared().lock(); // so that it cannot end in between
        SessionEvents::new(self.shared().subscribe(), session.ended().is_some())
    }

    /// A handle on the same session whose requests wait no longer than `timeout` for
    /// their answers, whatever [`Config::request_timeout`] says. A request that takes
    /// longer ends with [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut): if it still
    /// waited for a connection it is taken back (`NotApplied`); if it was sent it may
    /// still be carried out (`Unknown`, for a write). What is guaranteed goes on:
    /// [`delete_guaranteed`](Self::delete_guaranteed) deletes, and
    /// [`add_auth`](Self::add_auth) presents, although nobody waits. Other requests are not
    /// affected, nor is their order.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use std::time::Duration;
    ///
    /// let node = client.within(Duration::from_millis(500)).get_data("/config").await?;
    /// # drop(node); Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { within: Some(timeout.min(TIMEOUT_MAX)), ..self.clone() }
    }

    /// A handle on the same session for which `path` is the root: its paths are below
    /// it, in requests, in what they answer, in events and in errors. It comes on top of
    /// the chroot that this handle has. The node need not exist; nothing is made. `/` gives
    /// a handle like this one.
    ///
    /// The root of a chroot cannot be deleted, like any root: the server declines with
    /// `BadArguments`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPath`].
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// let tenant = client.chroot("/tenants/7")?;
    /// let node = tenant.get_data("/config").await?; // that of /tenants/7/config
    /// # drop(node); Ok(())
    /// # }
    /// ```
    pub fn chroot(&self, path: &str) -> Result<Self, Error> {
        if let Err(error) = proto::validate_path(path) {
            return Err(Error::not_applied(ErrorKind::InvalidPath(error)).on("chroot", path));
        }
        let chroot = match path {
            "/" => self.chroot.clone(),
            path => self.full(path).into(),
        };
        Ok(Self { chroot, ..self.clone() })
    }

    /// True if both are handles on one session, whatever their chroots.
    #[must_use]
    pub fn is_same_session(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// A path of this handle from the root of the ensemble, so with the chroot.
    #[must_use]
    pub fn full_path(&self, path: &str) -> String {
        self.full(path).into_owned()
    }

    /// Requests that are made while the batch lives leave in one write, which
    /// saves a system call at either end. Without one they leave as soon as the
    /// driver gets to run.
    ///
    /// The requests of *all* handles on the session wait for the end of the batch, so
    /// it must not be held over an await. It cannot be sent to another thread, and a
    /// future that holds one cannot be spawned.
    ///
    /// ```compile_fail
    /// # fn example(client: zk_session::Client) {
    /// tokio::spawn(async move {
    ///     let _batch = client.batch();
    ///     client.exists("/").await
    /// });
    /// # }
    /// ```
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        self.shared().begin_batch();
        Batch { shared: self.shared(), not_send: PhantomData }
    }

    /// Claims the session's lease: from now on requests to the leader keep it renewed. For recipes
    /// whose nodes stand for something.
    #[must_use]
    pub fn claim_lease(&self) -> LeaseClaim {
        LeaseClaim::new(self.clone())
    }

    /// Runs a future on the runtime of the session's driver, wherever the caller is. For recipes that
    /// watch something on behalf of a handle which nobody polls. `None` before the driver has run.
    ///
    /// Give the future a [weak](Self::weak) handle, so that it does not keep the session open.
    #[must_use]
    pub fn spawn_beside<F>(&self, future: F) -> Option<AbortHandle>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Some(self.shared().runtime()?.spawn(future).abort_handle())
    }

    /// Waits for a while, on the runtime of the caller. Without one it waits on the runtime of the
    /// session's driver, and no longer than the session lives. For recipes, whose futures may be
    /// polled on any thread.
    ///
    /// # Panics
    /// If the caller's runtime has no timers; if there is no runtime at all, because the driver of
    /// the session has never run.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.shared().sleep_until(timer(now() + duration.min(TIMEOUT_MAX)))
    }

    /// Draws a random UUID (version 4), as recipes put it into the names of their
    /// nodes to find them again after a lost answer.
    #[must_use]
    pub fn draw_uuid(&self) -> String {
        self.shared().lock().draw_uuid()
    }

    /// Takes over a new list of servers, given as a connect string.
    ///
    /// The session stays where it is unless its server is not in the list, or the list
    /// has grown and this client is one of those that move for the load to be even
    /// (ZOOKEEPER-1355); all clients that are given the same list do their part. Moving
    /// costs a connection: requests in flight end with
    /// [`LossCause::Rebalanced`](crate::LossCause::Rebalanced), the session, its nodes
    /// and its watches live on.
    ///
    /// # Errors
    /// The connect string cannot be understood, or has a chroot that is not the one that
    /// the session was opened with; the list is as before then. No chroot at all is no error.
    pub fn update_servers(&self, connect_string: &str) -> Result<(), Error> {
        let parsed: ConnectString = connect_string.parse()?;
        if !parsed.chroot().is_empty() && parsed.chroot() != &**self.shared.chroot() {
            let why = format!("the chroot cannot be changed to {}", parsed.chroot());
            return Err(Error::not_applied(ErrorKind::InvalidConnectString(why)));
        }
        self.shared().lock().update_servers(now(), parsed.hosts().to_vec());
        self.shared().wake();
        Ok(())
    }

    /// What the session can be taken over with; `None` if there is none, or none any
    /// more. A secret.
    #[must_use]
    pub fn session_credentials(&self) -> Option<SessionCredentials> {
        self.shared().lock().credentials()
    }

    /// Ends this client, for all its handles, and leaves the session to whoever resumes
    /// it, within the session timeout: its nodes stay. `None` if there is no session to
    /// leave. Requests without an answer fail as with a lost connection, and clean-up
    /// that is under way is given up, so let go of locks before, or have whoever resumes
    /// the session look after their nodes: guards count as lost from here on. The example
    /// `take_over` goes on with a session in another process.
    pub fn detach(&self) -> Option<SessionCredentials> {
        let mut session = self.shared().lock();
        session.detach(now());
        let credentials = session.credentials();
        drop(session);
        self.shared().wake();
        credentials
    }

    /// A snapshot of what the session is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared().lock().stats(now())
    }

    /// How often a connection was lost that had been up; see [`Stats`], of which it is a
    /// cheap part.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.shared().lock().connections_lost()
    }

    /// Ends the session: its ephemeral nodes are gone when this returns, unless no
    /// server could be told within `Config::close_timeout`, in which case the
    /// server expires the session in its own time. Requests made before are sent
    /// first; everything that is made later, by any clone, fails.
    ///
    /// # Cancel safety
    /// The end begins with the call and cannot be stopped.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut standing = self.shared().standing();
        self.shared().lock().close(now());
        self.shared().wake();
        async move {
            // An error means that the driver is gone, and the session with it.
            drop(standing.wait_for(|standing| standing.ended.is_some()).await);
        }
    }
}

fn undriven<C: Connector>(
    settings: Settings,
    chroot: &str,
    connector: C,
) -> (Arc<Shared>, Driver<C>) {
    let shared = Shared::new(settings, chroot);
    let driver = Driver::new(shared.clone(), connector);
    (shared, driver)
}

/// See [`Client::batch`]. Not to be held over an await.
pub struct Batch<'a> {
    shared: &'a Shared,
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batch")
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.shared.end_batch();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("session_id", &format_args!("{:#x}", self.session_id()))
            .field("chroot", &self.chroot)
            .finish_non_exhaustive()
    }
}
