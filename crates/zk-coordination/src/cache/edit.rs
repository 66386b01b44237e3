//! Changes of the nodes of a cache, each with its report.

use std::sync::Arc;

use bytes::Bytes;
use zk_recipes::session::limits::DATA_COPIED_MAX;
use zk_recipes::session::{NodeData, Stat};

use super::cached_node::CachedNode;
use super::change::Change;
use super::snapshot::{Snapshot, last_zxid};
use super::sorted_nodes::Slot;
use super::subscribers::Subscribers;

/// The nodes of a cache while they change. A subscriber gets each change, in this order: parents
/// are created before their children, and deleted after them.
pub(super) struct Edit<'a> {
    snapshot: &'a mut Snapshot,
    subscribers: &'a mut Subscribers,
}

/// Relation of a node that was read to the cached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The node was in the cache, with this or older data.
    Known,
    /// The node was not in the cache, was another one with the same path, or was not readable.
    New,
}

impl<'a> Edit<'a> {
    pub(super) fn new(snapshot: &'a mut Snapshot, subscribers: &'a mut Subscribers) -> Self {
        Self { snapshot, subscribers }
    }

    /// Stores a node as a read has shown it.
    pub(super) fn put(&mut self, path: &Arc<str>, NodeData { data, stat, .. }: NodeData) -> Seen {
        self.snapshot.zxid = self.snapshot.zxid.max(last_zxid(&stat));
        if self.snapshot.is_same_data(path, &stat) {
            self.set_aversion(path, stat);
            return Seen::Known;
        }
        let is_known = self.snapshot.is_same_node(path, &stat);
        if !is_known && self.snapshot.get(path).is_some() {
            self.remove(path); // the node was deleted and created again
        }
        let data = owned(data);
        let new = Arc::new(CachedNode::new(Arc::clone(path), data, stat));
        match self.snapshot.nodes.insert(Slot::Node(Arc::clone(&new))) {
            Some(Slot::Node(old)) => self.subscribers.send(|| Change::DataChanged { old, new }),
            _ => self.subscribers.send(|| Change::Created { new }),
        }
        if is_known { Seen::Known } else { Seen::New }
    }

    /// Stores the Stat of a node whose access control list has changed, and not its data. Otherwise
    /// each walk would read large data again.
    fn set_aversion(&mut self, path: &Arc<str>, stat: Stat) {
        if let Some(old) = self.snapshot.get(path).filter(|old| old.stat.aversion != stat.aversion)
        {
            let new = CachedNode::new(Arc::clone(path), old.data().clone(), stat);
            self.snapshot.nodes.insert(Slot::Node(Arc::new(new)));
        }
    }

    /// Notes that a node exists and may not be read.
    pub(super) fn put_unreadable(&mut self, path: &Arc<str>) {
        let old = self.snapshot.nodes.insert(Slot::Unreadable(Arc::clone(path)));
        let old = old.and_then(|slot| slot.node().cloned());
        self.subscribers.send(|| Change::Unreadable { path: Arc::clone(path), old });
    }

    pub(super) fn remove(&mut self, path: &str) {
        let subtree = self.snapshot.nodes.subtree(path);
        let paths: Vec<Arc<str>> = subtree.map(|slot| Arc::clone(slot.path())).collect();
        // Against the order of the paths, a node comes after everything below it.
        for path in paths.iter().rev() {
            if let Some(slot) = self.snapshot.nodes.remove(path) {
                let old = slot.node().cloned();
                self.subscribers.send(|| Change::Deleted { path: Arc::clone(path), old });
            }
        }
    }
}

/// Copies data that the client has not copied. Otherwise a node would keep the whole reply in
/// memory, which may have the data of many nodes.
fn owned(data: Bytes) -> Bytes {
    if data.len() > DATA_COPIED_MAX { Bytes::copy_from_slice(&data) } else { data }
}
