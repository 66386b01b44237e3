//! Immutable view of the nodes of a cache.

use std::fmt;
use std::sync::Arc;

use zk_recipes::session::{Stat, Zxid};

use super::cached_node::CachedNode;
use super::sorted_nodes::{Slot, SortedNodes};

/// Immutable view of the nodes of a [`Cache`](super::Cache).
///
/// It never changes, however long it is kept. It shares the nodes with the cache and with other
/// snapshots.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) root: Arc<str>,
    pub(super) nodes: SortedNodes,
    pub(super) zxid: Zxid,
}

impl Snapshot {
    pub(super) fn new(root: Arc<str>) -> Self {
        Self { root, nodes: SortedNodes::default(), zxid: Zxid::ZERO }
    }

    /// Returns true if the node is cached, even if it is not readable.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.nodes.get(path).is_some()
    }

    pub(super) fn is_unreadable(&self, path: &str) -> bool {
        self.nodes.get(path).is_some_and(|slot| slot.node().is_none())
    }

    /// Returns true if a read with this Stat says nothing new.
    pub(super) fn is_known(&self, path: &str, stat: &Stat) -> bool {
        self.is_unchanged(path, stat) && last_zxid(stat) <= self.zxid
    }

    /// Returns true if the cached node has this Stat's data. The version does not decide: a node
    /// that was deleted and created again may have it, too (CURATOR-391).
    pub(super) fn is_same_data(&self, path: &str, stat: &Stat) -> bool {
        let node = self.get(path);
        node.is_some_and(|node| (node.stat.czxid, node.stat.mzxid) == (stat.czxid, stat.mzxid))
    }

    /// Returns true if neither the data nor the access control list has changed since the node was
    /// read. The server sends the Stat to every client, but the data only to those with read
    /// permission.
    pub(super) fn is_unchanged(&self, path: &str, stat: &Stat) -> bool {
        let has_same_acl = |node: &Arc<CachedNode>| node.stat.aversion == stat.aversion;
        self.is_same_data(path, stat) && self.get(path).is_some_and(has_same_acl)
    }

    /// Returns true if the cached node is the one with this Stat, and not an earlier one of the
    /// same path.
    pub(super) fn is_same_node(&self, path: &str, stat: &Stat) -> bool {
        self.get(path).is_some_and(|node| node.stat.czxid == stat.czxid)
    }

    pub(super) fn child_paths(&self, path: &str) -> Vec<Arc<str>> {
        self.nodes.children(path).map(|slot| Arc::clone(slot.path())).collect()
    }

    /// Returns the path of the cache.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns a node. Returns `None` if it does not exist, is outside of the cache, or may not be
    /// read.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.nodes.get(path)?.node()
    }

    /// Iterates over the children of a node, in the order of their paths.
    pub fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Arc<CachedNode>> {
        self.nodes.children(path).filter_map(Slot::node)
    }

    /// Iterates over all nodes, in the order of their paths. A node comes directly before
    /// everything below it.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CachedNode>> {
        self.nodes.iter().filter_map(Slot::node)
    }

    /// Iterates over the paths of the nodes that exist and may not be read: the server rejects the
    /// read with `NoAuth`. A deleted one may stay until the cache reads it again.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        let unreadable = self.nodes.iter().filter(|slot| slot.node().is_none());
        unreadable.map(|slot| &**slot.path())
    }

    /// Returns the number of nodes. Unreadable nodes count, too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if there is no node. The root of the cache does not exist then.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that the nodes use in bytes, which [`CacheBuilder::max_bytes`] limits.
    ///
    /// [`CacheBuilder::max_bytes`]: super::CacheBuilder::max_bytes
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    /// Returns the largest zxid in the Stats that the cache has read. The snapshot is not older.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("root", &self.root)
            .field("nodes", &self.len())
            .field("bytes", &self.bytes())
            .field("zxid", &self.zxid)
            .finish()
    }
}

/// Returns the last change that a Stat shows.
pub(super) fn last_zxid(stat: &Stat) -> Zxid {
    stat.czxid.max(stat.mzxid).max(stat.pzxid)
}
