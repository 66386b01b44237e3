//! Cache of a node, its children or a tree: Curator's `CuratorCache`.

mod apply;
mod builder;
mod cached_node;
mod change;
mod changes;
mod checks;
mod edit;
mod error;
mod follower;
mod open_cache;
mod reads;
mod request;
mod scope;
mod shared;
mod snapshot;
mod sorted_nodes;
mod subscribers;
mod watched_value;

use std::fmt;
use std::sync::Arc;

use tokio::task::AbortHandle;
use zk_recipes::session::SessionManager;

use self::open_cache::OpenCache;
use self::shared::Shared;

pub use self::builder::CacheBuilder;
pub use self::cached_node::CachedNode;
pub use self::change::Change;
pub use self::changes::Changes;
pub use self::error::CacheError;
pub use self::shared::CacheStatus;
pub use self::snapshot::Snapshot;
pub use self::watched_value::watch_value;

/// A copy of a node, its children or a tree in memory, which follows the changes on the servers over
/// any number of sessions.
///
/// Clones are cheap and share the copy. The cache ends when the last clone is dropped, and its watch
/// is then removed from the server. Its task runs on the runtime that drives the sessions. It holds the
/// [`SessionManager`], which keeps the session open.
///
/// # What it promises
/// * **Snapshots.** [`snapshot`](Self::snapshot) returns an immutable view in about the time of a
///   clone of an `Arc`. It sends no request.
/// * **Replay.** The [changes](Self::changes), applied to the snapshot that they start from, lead to
///   every later snapshot. After a [`Change::Missed`] they start from a new one.
/// * **Order.** The changes of one node are in the order of their zxids. Changes of different nodes
///   follow the order of the server's events. A node may already be shown with a later change of its
///   own; it then has no change for the events in between. After a gap, the changes are in the order
///   of the tree. A parent is created before its children, and deleted after them.
/// * **Every node counts.** Nodes are compared by `czxid` and `mzxid`. A node that was deleted and
///   created again during a disconnect is reported as deleted and created, even if its version and
///   its data are the same. Curator's cache compares versions, and reports nothing then.
/// * **Freshness.** Between [`Change::Synced`] and [`Change::Stale`] the nodes lag behind the server
///   by at most the events and reads on their way, except for [changes that the server does not
///   report](#what-the-server-does-not-report). At `Synced` the cache has read the whole tree since
///   the gap. At `Stale` it may be out of date.
/// * **No step back.** The cache never returns to an older state of a node, on any server.
///
/// Several changes of one node in quick succession may be reported as one, and a node that exists
/// only briefly may not be reported at all.
///
/// # On the wire
/// It sets one persistent recursive watch on the root, or a persistent one for
/// [`node`](Self::node). These need ZooKeeper 3.6 or newer. An older server leads to
/// [`CacheError::Unsupported`].
///
/// # What the server does not report
/// A server sends no event of a changed access control list. Since 3.8.4 and 3.9.2 it also sends no
/// event of a node that the client may not read (CVE-2024-23944). If a node loses its read permission
/// and is then deleted, the cache still has it. So the cache checks its nodes now and then, with one
/// request of up to [`READS_PER_REQUEST`](crate::limits::READS_PER_REQUEST) nodes after each
/// [`CHECK_PAUSE`](crate::limits::CHECK_PAUSE). A tree of 1,000 small nodes is checked in three minutes.
/// Of nodes with more data than [`RECHECKED_DATA_MAX`](crate::limits::RECHECKED_DATA_MAX), it checks
/// [`CHECKED_ALONE`](crate::limits::CHECKED_ALONE) at a time.
///
/// Unreadable nodes come first: the cache reads up to as many of them after a pause that grows from
/// [`BACKOFF_FIRST`](crate::limits::BACKOFF_FIRST) to [`BACKOFF_MAX`](crate::limits::BACKOFF_MAX).
/// [`CacheStatus::Partial`] counts them, and [`Snapshot::unreadable`] names them.
///
/// # What it costs
/// A request has up to 64 reads. A list of children counts as one read for each 16 names.
///
/// * **Start.** One request for the watch, one read for each node, and one list for each node with
///   children.
/// * **Event.** One read for each event. Events of one node share a read that is not sent yet.
/// * **Gap.** The same as at the start. A node with more than 1 kB of data is first checked with a
///   request of its own. It is read again only if its data or its access control list has changed since
///   it was read.
/// * **Next session.** One `sync`, and the same as after a gap.
/// * **Otherwise.** The checks of [changes that the server does not
///   report](#what-the-server-does-not-report).
///
/// Up to 256 reads are in flight. Unchanged nodes stay as they are in memory.
///
/// # What happens on loss
/// When the connection is lost, the cache reports [`Change::Stale`] and keeps its nodes. After the
/// reconnect, or on the next session, it walks over the tree and reports the differences, and then
/// [`Change::Synced`]. It does the same after an overflow of events. It stops only for a
/// [`CacheError`].
///
/// # Example
/// ```no_run
/// use zk_coordination::session::{Config, SessionManager};
/// use zk_coordination::{Cache, Change};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let cache = Cache::tree(&sessions, "/services").max_nodes(10_000).open().await?;
/// for node in cache.snapshot().children("/services") {
///     println!("{}: {} bytes", node.path(), node.data().len());
/// }
/// let mut changes = cache.changes();
/// while let Some(change) = changes.next().await {
///     match change {
///         Change::Created { new } => println!("{} is new", new.path()),
///         Change::Deleted { path, .. } => println!("{path} is gone"),
///         Change::Missed(_) => println!("start again from {:?}", changes.snapshot()),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "CuratorCache")]
#[doc(alias = "TreeCache")]
#[doc(alias = "PathChildrenCache")]
#[doc(alias = "NodeCache")]
pub struct Cache {
    open: Arc<OpenCache>,
}

impl Cache {
    /// Builds a cache of one node: Curator's `NodeCache`.
    pub fn node(sessions: &SessionManager, path: &str) -> CacheBuilder {
        CacheBuilder::new(sessions, path, Some(0))
    }

    /// Builds a cache of a node and its children: Curator's `PathChildrenCache`.
    pub fn children(sessions: &SessionManager, path: &str) -> CacheBuilder {
        CacheBuilder::new(sessions, path, Some(1))
    }

    /// Builds a cache of a node and everything below it: Curator's `CuratorCache` and `TreeCache`.
    pub fn tree(sessions: &SessionManager, path: &str) -> CacheBuilder {
        CacheBuilder::new(sessions, path, None)
    }

    fn of_task(shared: Arc<Shared>, task: Option<AbortHandle>) -> Self {
        Self { open: Arc::new(OpenCache::new(shared, task)) }
    }

    /// Returns an immutable view of the nodes.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.open.shared.snapshot()
    }

    /// Subscribes to the changes after a new [snapshot](Changes::snapshot). Nothing is lost between
    /// the two.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes::new(&self.open)
    }

    /// Returns whether the cache is up to date.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        self.open.shared.status()
    }

    /// Waits until the cache is [synced](CacheStatus::Synced), or is except for [unreadable
    /// nodes](CacheStatus::Partial). Returns at once if it is.
    ///
    /// # Errors
    /// Returns the reason if the cache has stopped.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future has no effect.
    pub async fn wait_until_synced(&self) -> Result<(), CacheError> {
        let mut status = self.open.shared.watch_status();
        let is_decided =
            |status: &CacheStatus| status.is_synced() || matches!(status, CacheStatus::Stopped(_));
        match status.wait_for(is_decided).await.as_deref() {
            Ok(CacheStatus::Stopped(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(CacheError::TaskEnded),
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("status", &self.status())
            .field("snapshot", &self.snapshot())
            .finish()
    }
}
