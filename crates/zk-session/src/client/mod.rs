//! The typed client, which applications use.

// The page of `Client` shows its methods in the order of these modules.
mod config;

mod operations;

mod create_builder;

mod multi;
mod multi_read;

mod watch_stream;

mod retry;

mod session;

mod budget;
mod chroot;

mod events;

mod protection;
mod recipe_support;

// Modules without methods of `Client`.
mod lease;
mod left_behind;
mod operation_list;
mod other_names;
mod pending;
mod repeat;
mod reservation;
mod retry_policy;
mod server_list;
mod session_changes;
mod session_manager;
mod session_opener;
mod session_totals;
mod subscription;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::config::Config;
pub use self::create_builder::{CreateBuilder, ParentMode};
pub use self::events::SessionEvents;
pub use self::lease::{LeaseLoss, LeaseTerm, SessionLease};
pub use self::multi::{Multi, MultiOutcome};
pub use self::multi_read::{MultiRead, ReadOutcome};
pub use self::operations::{
    Children, Created, EnsembleConfig, EnsembleMember, NodeAcl, NodeData, validate_ttl,
};
pub use self::pending::{Pending, PendingWatch, Watch};
pub use self::protection::{random_short_id, random_uuid};
pub use self::repeat::Repeat;
pub use self::reservation::Reservation;
pub use self::retry::Retry;
pub use self::retry_policy::{Attempts, RetryPolicy};
pub use self::server_list::{ServerList, ServerListing};
pub use self::session::Batch;
pub use self::session_changes::{SessionChange, SessionChanges};
pub use self::session_manager::SessionManager;
pub use self::session_totals::SessionTotals;
pub use self::watch_stream::{PendingStream, WatchStream};

use crate::clock::now;
use crate::driver::{SessionThread, Shared};
use crate::limits::CLOSE_ON_DROP_WAIT;

/// A handle to one ZooKeeper session.
///
/// Clones are cheap and share the session. The session is closed when the last clone is dropped; a
/// clone inside another value counts.
///
/// Every operation **sends its request when it is called**, not when the returned future is first
/// polled. Exceptions say so: they send several requests, each after the answer to the last one. These
/// operations begin with the first poll. So does a [`Retry`](crate::Retry).
///
/// The server answers requests in the order of the calls. A watch event is delivered before
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
/// assert_eq!(node.data, &b"hello"[..]);
/// client.close().await;
/// # Ok(())
/// # }
/// ```
///
/// # Processes
/// A client belongs to the process that has opened it. After `fork()`, its driver does not run in the
/// child: requests there wait for ever, and share a socket with the parent. Open another client there.
///
/// # Retries
/// [`Error::retry_on`](crate::Error::retry_on) returns where a failed call can be retried: on the
/// same session, on a new session, or never.
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

    /// Returns a [weak](Self::weak) handle.
    pub(super) fn new_weak(shared: Arc<Shared>) -> Self {
        let chroot = shared.chroot.clone();
        Self { shared, open: None, timeout: None, chroot }
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
