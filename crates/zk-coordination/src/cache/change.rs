//! Changes of the nodes in a cache.

use std::sync::Arc;

use zk_recipes::session::Zxid;

use super::CacheError;
use super::cached_node::CachedNode;

/// Change of a [`Cache`](super::Cache).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A node is new. Its parent is in the cache, unless it is the root.
    ///
    /// A node that was deleted and created again is reported as deleted, and then as created, even
    /// if both nodes have the same version and the same data.
    Created {
        /// The node.
        new: Arc<CachedNode>,
    },
    /// The data of a node was set. One change may cover several changes of the node, and the last
    /// of them is `new`.
    DataChanged {
        /// The node before.
        old: Arc<CachedNode>,
        /// The node after. Its `mzxid` is larger.
        new: Arc<CachedNode>,
    },
    /// A node was deleted. Nothing below it is in the cache any more.
    Deleted {
        /// Path of the node.
        path: Arc<str>,
        /// The node before; `None` if it was not readable.
        old: Option<Arc<CachedNode>>,
    },
    /// A node exists, and the server rejects the read with `NoAuth`. The rest of the tree is
    /// cached. The cache reads the node again now and then. A `Created` follows when the node is
    /// readable, and a `Deleted` when it is gone.
    Unreadable {
        /// Path of the node.
        path: Arc<str>,
        /// The node before, if it was readable.
        old: Option<Arc<CachedNode>>,
    },
    /// The connection was lost, or events were. The nodes are those of the last synced state, and
    /// may be out of date. The cache reads them again, which leads to changes and then to `Synced`.
    Stale,
    /// The cache has read the whole tree. It learns of later changes from events, and from its
    /// [checks](super::Cache#what-the-server-does-not-report).
    Synced {
        /// The largest zxid in the Stats that the cache has read. A change up to there is in the
        /// snapshot, or its event has arrived and the next changes have it.
        zxid: Zxid,
    },
    /// The subscriber has read too slowly, and lost this many changes. Start again from
    /// [`Changes::snapshot`](super::Changes::snapshot). The next changes continue from there.
    Missed(u64),
    /// The cache has stopped for this reason. It is the last change.
    Stopped(CacheError),
}

impl Change {
    /// Returns the path of the node, or `None` if the change is none of one node.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Created { new } | Self::DataChanged { new, .. } => Some(new.path()),
            Self::Deleted { path, .. } | Self::Unreadable { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the node before the change, if the change is one of a node that was cached.
    #[must_use]
    pub fn old_node(&self) -> Option<&Arc<CachedNode>> {
        match self {
            Self::DataChanged { old, .. } => Some(old),
            Self::Deleted { old, .. } | Self::Unreadable { old, .. } => old.as_ref(),
            _ => None,
        }
    }

    /// Returns the node after the change, if there is one.
    #[must_use]
    pub fn new_node(&self) -> Option<&Arc<CachedNode>> {
        match self {
            Self::Created { new } | Self::DataChanged { new, .. } => Some(new),
            _ => None,
        }
    }

    /// Returns the number of the transaction that set the node's data: the new data, or the data
    /// that was deleted. The protocol does not report the transaction that deleted a node.
    #[must_use]
    pub fn mzxid(&self) -> Option<Zxid> {
        self.new_node().or_else(|| self.old_node()).map(|node| node.stat().mzxid)
    }
}
