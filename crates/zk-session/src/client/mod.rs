//! The typed client, which applications use.

mod chroot;
mod config;
mod create_builder;
mod delayed;
mod events;
mod lease;
mod multi;
mod multi_read;
mod operation_list;
mod operations;
mod pending;
mod reservation;
mod retry;
mod retry_policy;
mod session_manager;
mod session_totals;
mod watch_stream;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use self::config::Config;
pub use self::create_builder::{CreateBuilder, ParentMode};
pub use self::delayed::DelayedStart;
pub(crate) use self::delayed::DelayedStarts;
pub use self::events::SessionEvents;
pub use self::lease::{LeaseLoss, LeaseTerm, SessionLease};
pub use self::multi::{Multi, MultiOutcome};
pub use self::multi_read::{MultiRead, ReadOutcome};
pub use self::operations::{Children, Created, EnsembleConfig, Member, NodeAcl, NodeData};
pub use self::pending::{Pending, PendingWatch, Watch};
pub use self::reservation::Reservation;
pub use self::retry::Retry;
pub use self::retry_policy::{Attempts, Repeat, RetryPolicy};
pub use self::session_manager::{SessionChange, SessionChanges, SessionManager};
pub use self::session_totals::SessionTotals;
pub use self::watch_stream::{PendingStream, WatchStream};

use proto::SessionId;
use tokio::task::AbortHandle;
use zk_session_core::{
    ConnectString, DisconnectReason, Error, ErrorKind, SessionCredentials, SessionEnd, Stats,
    TIMEOUT_MAX,
};

use crate::driver::{DedicatedThread, SessionThread, Shared, now, timer};
use crate::limits::CLOSE_ON_DROP_WAIT;

/// A handle to one ZooKeeper session.
///
/// Clones are cheap and share the session. The session is closed when the last clone is dropped; a
/// clone inside another value counts.
///
/// Every operation **sends its request when it is called**, not when the returned future is first
/// polled. The server answers requests in the order of the calls. A watch event is delivered before
/// the reply that shows its effect.
///
/// A client never changes its session. Once the session has expired, every operation fails and the
/// application needs a new client; a [`SessionManager`] opens one. This is deliberate: replacing a
/// session silently would also drop the locks that it held.
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
/// [`Error::retry_on`] returns where a failed call can be retried: on the same session, on a new
/// session, or never.
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
    /// Keeps the session open. `None` in a [weak](Self::weak) handle.
    open: Option<Arc<OpenSession>>,
    /// Request timeout of this handle. `None` stands for that of the session.
    timeout: Option<Duration>,
    /// Prefix of all paths of this handle: empty, or a path.
    chroot: Arc<str>,
}

/// Closes the session when the last handle to it is dropped.
struct OpenSession {
    shared: Arc<Shared>,
    /// The dedicated thread that runs the driver, if the session has one.
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
        if let Some(thread) = &mut self.thread {
            if is_connected {
                thread.wait_for_driver(CLOSE_ON_DROP_WAIT);
            }
        }
    }
}

impl Client {
    /// Returns a handle to a session that `thread` drives, or else the caller's runtime.
    pub(super) fn new(shared: Arc<Shared>, thread: Option<SessionThread>) -> Self {
        let chroot = shared.chroot.clone();
        let open = Arc::new(OpenSession { shared: shared.clone(), thread });
        Self { shared, open: Some(open), timeout: None, chroot }
    }

    /// Returns a handle that does not keep the session open.
    ///
    /// The session is closed when the last other handle is dropped, and requests of this handle
    /// fail from then on. Use it in tasks that work on behalf of a handle and end after it.
    #[must_use]
    pub fn weak(&self) -> Self {
        Self { open: None, ..self.clone() }
    }

    /// Returns the [thread](Config::dedicated_thread) that drives the session.
    ///
    /// Returns `None` if the caller's runtime drives the session, and for a [weak](Self::weak)
    /// handle.
    #[must_use]
    pub fn dedicated_thread(&self) -> Option<DedicatedThread> {
        let thread = self.open.as_ref()?.thread.as_ref()?;
        Some(DedicatedThread::new(thread.thread()))
    }

    /// Returns the session id; [`SessionId::NONE`] before the first handshake.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.shared.lock().session_id()
    }

    /// Returns the negotiated session timeout; before the first handshake, the requested one.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.shared.lock().session_timeout()
    }

    /// Returns true while the session is connected and can send requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.lock().is_connected()
    }

    /// Returns true while the session is connected to a server without a quorum; see
    /// [`Config::allow_read_only`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.shared.lock().is_read_only()
    }

    /// Returns how the session ended, or `None` if it has not ended.
    #[must_use]
    pub fn end_reason(&self) -> Option<SessionEnd> {
        self.shared.lock().end_reason()
    }

    /// Waits until the session has ended, and returns how it ended.
    ///
    /// The future does not keep the session open.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future has no effect.
    pub fn wait_for_end(&self) -> impl Future<Output = SessionEnd> + Send + use<> {
        let (mut events, mut lease_state) = (self.events(), self.shared.lease_state());
        async move {
            // Events wake their subscribers in order. The other channel wakes them in a random one.
            while events.next().await.is_some() {}
            let told = lease_state.wait_for(|lease_state| lease_state.ended.is_some()).await;
            // An error means that the driver was dropped, which ends the session.
            told.ok().and_then(|lease_state| lease_state.ended).unwrap_or(SessionEnd::Closed)
        }
    }

    /// Returns the name that [`Config::name`] has set.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Returns the local address of the last connection, if it had one.
    #[must_use]
    pub fn local_address(&self) -> Option<IpAddr> {
        self.shared.local_address()
    }

    /// Returns a handle to the same session whose requests wait at most `timeout` for their
    /// replies.
    ///
    /// The timeout replaces [`Config::request_timeout`]. A request that takes longer fails with
    /// [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut). If the request was still waiting for a
    /// connection, it is withdrawn (`NotApplied`). If it was already sent, the server may still
    /// apply it (`Unknown`, for a write). The timeout does not end guaranteed work:
    /// [`delete_guaranteed`](Self::delete_guaranteed) still deletes the node, and
    /// [`add_auth`](Self::add_auth) still presents the credentials. Other requests and their order
    /// are not affected.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use std::time::Duration;
    ///
    /// let node = client.with_timeout(Duration::from_millis(500)).get_data("/config").await?;
    /// # drop(node); Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout.min(TIMEOUT_MAX)), ..self.clone() }
    }

    /// Returns true if both handles belong to the same session. Their chroots may differ.
    #[must_use]
    pub fn is_same_session(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Collects requests until the returned [`Batch`] is dropped, and sends them in one write.
    ///
    /// A batch saves a system call at either end. Without a batch, the requests are sent as soon as
    /// the driver runs. If the driver runs during the batch for another reason, for example a
    /// reply, it sends the requests that are there.
    ///
    /// The requests of *all* handles to the session wait for the end of the batch, therefore do not
    /// hold it across an await point. A batch cannot be sent to another thread, and a future that
    /// holds one cannot be spawned.
    ///
    /// ```compile_fail
    /// # fn example(client: zk_session::Client) {
    /// tokio::spawn(async move {
    ///     let _batch = client.batch();
    ///     client.exists("/").await
    /// });
    /// # }
    /// ```
    pub fn batch(&self) -> Batch<'_> {
        self.shared.begin_batch();
        Batch { shared: &self.shared, not_send: PhantomData }
    }

    /// Spawns a future on the runtime of the session's driver, wherever the caller runs.
    ///
    /// Returns `None` before the driver has run. Recipes use it to watch a node on behalf of a
    /// handle that no task polls.
    ///
    /// Pass a [weak](Self::weak) handle to the future, so that the future does not keep the session
    /// open.
    #[must_use]
    pub fn spawn_beside<F>(&self, future: F) -> Option<AbortHandle>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Some(self.shared.runtime.get()?.spawn(future).abort_handle())
    }

    /// [Starts](DelayedStart::start) the work of an object after a delay, unless the object is
    /// dropped before.
    ///
    /// This costs much less than a task that sleeps, so recipes use it for work that is seldom
    /// needed. Does nothing before the driver has run.
    pub fn start_after(&self, delay: Duration, object: Weak<dyn DelayedStart>) {
        if let Some(runtime) = self.shared.runtime.get() {
            self.shared.delayed.push(runtime, delay, object);
        }
    }

    /// Waits for `duration` on the runtime of the caller.
    ///
    /// A caller without a runtime waits on the runtime of the session's driver, and only until the
    /// session ends. Recipes use this method because their futures may be polled on any thread.
    ///
    /// # Panics
    /// If the caller's runtime has no timers. If the caller has no runtime and the driver of the
    /// session has never run.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.shared.sleep_until(timer(now() + duration.min(TIMEOUT_MAX)))
    }

    /// Returns a random UUID (version 4).
    ///
    /// Recipes put it into the name of a node, to find the node again when the reply to its
    /// creation is lost.
    #[must_use]
    pub fn random_uuid(&self) -> String {
        self.shared.lock().random_uuid()
    }

    /// Replaces the list of servers with the servers of a connect string.
    ///
    /// The session stays on its server, with two exceptions. It moves if its server is not in the
    /// new list. It may also move if the list has grown, to balance the load (ZOOKEEPER-1355): if
    /// all clients get the same list, the right share of them moves. A move costs the connection.
    /// Requests in flight fail with [`DisconnectReason::Rebalanced`](crate::DisconnectReason::Rebalanced);
    /// the session keeps its nodes and its watches.
    ///
    /// # Errors
    /// The connect string is invalid, or its chroot differs from the one that the session was
    /// opened with. The list of servers is unchanged then. A connect string without a chroot is
    /// accepted.
    pub fn update_servers(&self, connect_string: &str) -> Result<(), Error> {
        let parsed: ConnectString = connect_string.parse()?;
        if !parsed.chroot().is_empty() && parsed.chroot() != &*self.shared.chroot {
            let why = format!("the chroot cannot be changed to {}", parsed.chroot());
            return Err(Error::not_applied(ErrorKind::InvalidConnectString(why)));
        }
        self.shared.lock().update_servers(now(), parsed.hosts().to_vec());
        self.shared.wake();
        Ok(())
    }

    /// Returns the credentials to resume the session with another client.
    ///
    /// Returns `None` if there is no session yet, or if it is over. The credentials are a secret.
    #[must_use]
    pub fn session_credentials(&self) -> Option<SessionCredentials> {
        self.shared.lock().credentials()
    }

    /// Ends this client but not its session, and returns the credentials to resume the session.
    ///
    /// Another client can resume the session within the session timeout; its nodes stay. Returns
    /// `None` if there is no session to resume. The example `take_over` resumes a session in
    /// another process.
    ///
    /// All handles of this client end. Requests without a reply fail as after a lost connection,
    /// and pending clean-up stops. Guards count as lost from here on, while the nodes of their
    /// locks stay: release the locks first, or let the client that resumes the session take care of
    /// these nodes.
    pub fn detach(&self) -> Option<SessionCredentials> {
        let credentials = {
            let mut session = self.shared.lock();
            session.detach(now());
            session.credentials()
        };
        self.shared.wake();
        credentials
    }

    /// Returns why the last connection, or the last attempt at one, failed. Returns `None` while
    /// connected, and before the first failure.
    ///
    /// A session that has lost its connection reports no event for an attempt that fails. This shows
    /// its cause: for example, that the certificates of all servers have expired.
    #[must_use]
    pub fn last_disconnect(&self) -> Option<DisconnectReason> {
        self.shared.lock().last_disconnect()
    }

    /// Returns a snapshot of the state of the session. [`Stats::prometheus`] writes it for a monitoring
    /// system.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.lock().stats(now())
    }

    /// Returns how many established connections were lost. The number is also in [`Stats`]; this
    /// method is cheaper.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.shared.lock().connections_lost()
    }

    /// Closes the session.
    ///
    /// The session's ephemeral nodes are deleted when the future completes. If no server can be
    /// reached within [`Config::close_timeout`], they stay until the server expires the session.
    /// Earlier requests are sent first. Later requests fail, on every clone.
    ///
    /// # Cancel safety
    /// The call starts to close the session, and dropping the future does not stop that.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.wait_for_end();
        self.shared.lock().close(now());
        self.shared.wake();
        async move {
            ended.await;
        }
    }
}

/// Delays requests until it is dropped; see [`Client::batch`]. Do not hold it across an await.
#[must_use = "a batch ends when it is dropped"]
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
            .field("session_id", &self.session_id())
            .field("chroot", &self.chroot)
            .finish_non_exhaustive()
    }
}
