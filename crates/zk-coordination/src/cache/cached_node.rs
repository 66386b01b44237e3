//! A node of a cache.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_recipes::session::Stat;

use crate::limits::NODE_BYTES;

/// A node in a [`Snapshot`](super::Snapshot).
#[derive(Clone, PartialEq, Eq)]
pub struct CachedNode {
    path: Arc<str>,
    data: Bytes,
    pub(super) stat: Stat,
}

impl CachedNode {
    pub(super) fn new(path: Arc<str>, data: Bytes, stat: Stat) -> Self {
        Self { path, data, stat }
    }

    pub(super) fn bytes(&self) -> usize {
        NODE_BYTES + self.path.len() + self.data.len()
    }

    pub(super) fn shared_path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the path of the node, as the client names it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the data. A clone of it shares the memory. Null data is empty here.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns the Stat that came with the data.
    ///
    /// The pair `czxid` and `mzxid` identifies the data. The fields about children (`cversion`,
    /// `num_children`, `pzxid`) and `aversion` are those of that moment: no event reports their
    /// changes. Use [`Snapshot::children`](super::Snapshot::children) for the children.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }
}

impl fmt::Debug for CachedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedNode")
            .field("path", &self.path)
            .field("data_len", &self.data.len())
            .field("czxid", &self.stat.czxid)
            .field("mzxid", &self.stat.mzxid)
            .finish()
    }
}
