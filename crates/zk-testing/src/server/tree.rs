//! Data tree of one server.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use proto::{Acl, OPEN_ACL_UNSAFE, OpCode, Perms, SessionId, Zxid};

use super::hash::FastMap;
use super::java_hash::JavaSet;
use super::node::{Node, NodeKind};
use super::own_nodes;
use super::version::Version;

/// Nodes that ZooKeeper reserves; no client can delete them.
pub(crate) const OWN_NODES: [&str; 3] = ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// Data tree of one server: every node by its path.
#[derive(Debug)]
pub struct Tree {
    nodes: FastMap<Box<str>, Node>,
    /// Paths of the ephemeral nodes, by session.
    ephemerals: FastMap<SessionId, JavaSet>,
    /// Paths of the nodes that the reaper checks: containers and nodes with a time to live.
    mortal: BTreeSet<Box<str>>,
    /// Paths that have a quota.
    pub(super) quotas: BTreeSet<Box<str>>,
    pub(super) last_zxid: Zxid,
    data_len: usize,
    open: Arc<[Acl]>,
    pub(super) version: Version,
}

impl Tree {
    /// Creates a tree with the root and ZooKeeper's own nodes.
    pub(crate) fn new(version: Version) -> Self {
        let open: Arc<[Acl]> = OPEN_ACL_UNSAFE.into();
        let mut tree = Self {
            nodes: FastMap::default(),
            ephemerals: FastMap::default(),
            mortal: BTreeSet::new(),
            quotas: BTreeSet::new(),
            last_zxid: Zxid::ZERO,
            data_len: 0,
            open,
            version,
        };
        tree.nodes.insert("/".into(), Node::initial(Arc::clone(&tree.open)));
        if version.is_keeper_like() {
            for (path, data) in own_nodes::of_keeper(version) {
                tree.add_own_node(path, data);
                // They count in no cversion (`addCommittedNodeIfNotExists`).
                if let Some(parent) = tree.node_mut(parent_of(path)) {
                    parent.child_sets += 1;
                }
            }
            return tree;
        }
        for path in OWN_NODES {
            if path != "/zookeeper/config" || version.has_op(OpCode::Reconfig) {
                tree.add_own_node(path, Bytes::new());
            }
        }
        if let Some(config) = tree.node_mut("/zookeeper/config") {
            config.acl = [Acl::world(Perms::READ)].into();
            config.aversion = -1;
        }
        tree
    }

    /// Adds a node that exists from the start.
    pub(crate) fn add_own_node(&mut self, path: &str, data: Bytes) {
        self.insert(path, Node { data: Some(data), ..Node::initial(Arc::clone(&self.open)) });
    }

    /// Returns the node at a path. As in a real server, the empty path is also the root.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    /// Returns whether a node exists at a path.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.node(path).is_some()
    }

    /// Returns every node with its path, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        let mut all: Vec<_> = self.nodes.iter().map(|(path, node)| (&**path, node)).collect();
        all.sort_unstable_by_key(|(path, _)| *path);
        all.into_iter()
    }

    /// Returns the number of nodes, including the root and ZooKeeper's own.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns false: the root always exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the zxid of the last transaction applied.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Returns the paths of a session's ephemeral nodes, in the order in which a server lists them.
    pub fn ephemerals(&self, session_id: SessionId) -> impl Iterator<Item = &str> {
        self.ephemerals.get(&session_id).into_iter().flat_map(JavaSet::iter_clone)
    }

    /// Returns the number of nodes below a path.
    pub(crate) fn descendants(&self, path: &str) -> usize {
        self.subtree(path).len() - 1
    }

    /// Returns the paths of a node and of all nodes below it, starting with the node itself.
    pub(crate) fn subtree(&self, path: &str) -> Vec<String> {
        let mut paths = vec![path.to_owned()];
        let mut next = 0;
        while next < paths.len() {
            let parent = paths[next].clone();
            if let Some(node) = self.node(&parent) {
                let base = if parent == "/" { "" } else { &parent };
                paths.extend(node.children().map(|name| format!("{base}/{name}")));
            }
            next += 1;
        }
        paths
    }

    /// Returns the number of ephemeral nodes.
    pub(crate) fn ephemerals_count(&self) -> usize {
        self.ephemerals.values().map(JavaSet::len).sum()
    }

    /// Returns the total bytes of all paths and data: the approximate data size of mntr.
    pub(crate) fn data_len(&self) -> usize {
        self.data_len
    }

    /// Returns the containers and the nodes with a time to live, with their paths.
    pub(crate) fn mortal(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.mortal.iter().filter_map(|path| Some((&**path, self.node(path)?)))
    }

    pub(crate) fn has_mortals(&self) -> bool {
        !self.mortal.is_empty()
    }

    pub(crate) fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(if path.is_empty() { "/" } else { path })
    }

    /// Inserts a node and adds its name to its parent's children. The caller updates the rest of
    /// the parent.
    pub(crate) fn insert(&mut self, path: &str, node: Node) {
        if let Some(parent) = self.node_mut(parent_of(path)) {
            parent.children.insert(proto::path::file_name(path));
        }
        match node.kind {
            NodeKind::Ephemeral(session_id) => {
                self.ephemerals.entry(session_id).or_insert_with(JavaSet::of_paths).insert(path);
            }
            NodeKind::Container | NodeKind::Ttl(_) => {
                self.mortal.insert(path.into());
            }
            NodeKind::Persistent => {}
        }
        self.data_len += path.len() + node.data_len();
        self.nodes.insert(path.into(), node);
    }

    /// Removes a node. The caller updates the parent's Stat.
    pub(crate) fn remove(&mut self, path: &str) -> Option<Node> {
        let node = self.nodes.remove(path)?;
        if let Some(parent) = self.node_mut(parent_of(path)) {
            parent.children.remove(proto::path::file_name(path));
        }
        match node.kind {
            NodeKind::Ephemeral(session_id) => {
                if let Some(paths) = self.ephemerals.get_mut(&session_id) {
                    paths.remove(path);
                }
            }
            NodeKind::Container | NodeKind::Ttl(_) => {
                self.mortal.remove(path);
            }
            NodeKind::Persistent => {}
        }
        self.data_len -= path.len() + node.data_len();
        Some(node)
    }

    /// Replaces a node's data and updates the total length of all data.
    pub(crate) fn replace_data(&mut self, path: &str, data: Option<Bytes>) {
        let new_len = data.as_ref().map_or(0, Bytes::len);
        let Some(node) = self.node_mut(path) else { return };
        let old_len = node.data_len();
        node.data = data;
        self.data_len = self.data_len - old_len + new_len;
    }

    /// Removes a session whose ephemeral nodes are deleted.
    pub(crate) fn forget_session(&mut self, session_id: SessionId) {
        self.ephemerals.remove(&session_id);
    }
}

/// Returns the path of the parent as a server computes it: everything before the last slash.
pub(crate) fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}
