//! Options of a cache.

use std::fmt;
use std::sync::Arc;

use zk_recipes::session::{SessionManager, validate_path};

use super::checks::Checks;
use super::follower::Follower;
use super::reads::Reads;
use super::scope::{Filter, Scope};
use super::shared::Shared;
use super::subscribers::QueueLimits;
use super::{Cache, CacheError};
use crate::limits::{CACHE_BYTES_MAX, CACHE_NODES_MAX, CHANGES_KEPT, READS_IN_FLIGHT};

/// Builder of a [`Cache`]. Nothing is sent before [`open`](Self::open) or [`start`](Self::start).
#[must_use = "nothing is sent before `open` or `start`"]
pub struct CacheBuilder {
    sessions: SessionManager,
    path: String,
    depth: Option<usize>,
    filter: Option<Filter>,
    nodes_max: usize,
    bytes_max: usize,
    in_flight_max: usize,
    changes_kept: usize,
}

impl CacheBuilder {
    pub(super) fn new(sessions: &SessionManager, path: &str, depth: Option<usize>) -> Self {
        Self {
            sessions: sessions.clone(),
            path: path.to_owned(),
            depth,
            filter: None,
            nodes_max: CACHE_NODES_MAX,
            bytes_max: CACHE_BYTES_MAX,
            in_flight_max: READS_IN_FLIGHT,
            changes_kept: CHANGES_KEPT,
        }
    }

    /// Limits the levels below the root: 0 for the root alone, 1 for its children.
    pub fn depth(self, levels: usize) -> Self {
        Self { depth: Some(levels), ..self }
    }

    /// Keeps only the nodes below the root whose paths the filter accepts. A rejected node hides
    /// everything below it, which is neither listed nor read.
    ///
    /// The filter runs on the task of the cache and must not block. It is also called for the paths
    /// above a changed node.
    pub fn filter(self, accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { filter: Some(Box::new(accepts)), ..self }
    }

    /// Limits the number of nodes. The default is
    /// [`CACHE_NODES_MAX`](crate::limits::CACHE_NODES_MAX). Beyond it, the cache stops with
    /// [`CacheError::TooManyNodes`].
    pub fn max_nodes(self, nodes: usize) -> Self {
        Self { nodes_max: nodes, ..self }
    }

    /// Limits the memory of the nodes in bytes: their paths, their data, and
    /// [`NODE_BYTES`](crate::limits::NODE_BYTES) for each. The default is
    /// [`CACHE_BYTES_MAX`](crate::limits::CACHE_BYTES_MAX). Beyond it, the cache stops with
    /// [`CacheError::TooManyBytes`].
    ///
    /// Replies on their way need memory besides: up to as many nodes as
    /// [`reads_in_flight`](Self::reads_in_flight). Snapshots in use keep the nodes that the cache
    /// has replaced. Changes that wait for the slowest subscriber keep such nodes, too, up to this limit
    /// again. Beyond it, the subscriber gets [`Change::Missed`](super::Change::Missed).
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { bytes_max: bytes, ..self }
    }

    /// Limits the reads in flight, at least 1. The default is
    /// [`READS_IN_FLIGHT`](crate::limits::READS_IN_FLIGHT).
    pub fn reads_in_flight(self, reads: usize) -> Self {
        Self { in_flight_max: reads, ..self }
    }

    /// Limits the changes that wait for a slow subscriber, at least 1. The default is
    /// [`CHANGES_KEPT`](crate::limits::CHANGES_KEPT), the maximum
    /// [`CHANGES_KEPT_MAX`](crate::limits::CHANGES_KEPT_MAX). Beyond it, the subscriber gets
    /// [`Change::Missed`](super::Change::Missed).
    pub fn changes_kept(self, changes: usize) -> Self {
        Self { changes_kept: changes, ..self }
    }

    /// Starts the cache, and waits until it has loaded the tree.
    ///
    /// The root need not exist: the cache is then empty, until the root is created.
    ///
    /// # Errors
    /// [`CacheError::Unsupported`], [`CacheError::TooManyNodes`], [`CacheError::TooManyBytes`], or
    /// the error of a request that a retry does not help. Without a connection it waits.
    ///
    /// The session may have as many watches as its limit allows
    /// ([`Config::max_watches`](zk_recipes::session::Config::max_watches)). The error is then
    /// [`CacheError::Client`] with the kind `LimitReached`. Drop another watch, and open the cache again.
    ///
    /// # Cancel safety
    /// Dropping the future ends the cache.
    pub async fn open(self) -> Result<Cache, CacheError> {
        let cache = self.start()?;
        cache.wait_until_synced().await?;
        Ok(cache)
    }

    /// Starts the cache, and does not wait. It is empty at first, and subscribers get a
    /// [`Created`](super::Change::Created) for each node.
    ///
    /// # Errors
    /// Returns an error if the path is not a valid ZooKeeper path.
    pub fn start(self) -> Result<Cache, CacheError> {
        validate_path(&self.path)?;
        let root: Arc<str> = self.path.into();
        let waiting = QueueLimits { changes: self.changes_kept, bytes: self.bytes_max };
        let shared = Arc::new(Shared::new(Arc::clone(&root), waiting));
        let client = self.sessions.client();
        let follower = Follower {
            sessions: self.sessions,
            shared: Arc::clone(&shared),
            scope: Scope { root, depth: self.depth, filter: self.filter },
            nodes_max: self.nodes_max,
            bytes_max: self.bytes_max,
            reads: Reads::new(self.in_flight_max),
            checks: Checks::default(),
            is_walking: false,
        };
        let task = client.runtime().spawn(follower.run());
        Ok(Cache::of_task(shared, task))
    }
}

impl fmt::Debug for CacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder")
            .field("path", &self.path)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}
