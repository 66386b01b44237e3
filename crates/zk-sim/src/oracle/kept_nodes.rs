//! Checks of nodes that a handle keeps and that have no owner, or a number in their name, and of
//! instances of a service: each state that a handle or a cache reports has existed.

use std::collections::{BTreeMap, BTreeSet};

use zk_session::{SessionId, Zxid};
use zk_testing::server::{Commit, Effect, Tree};

use super::Oracle;

/// Parent of the nodes.
pub(crate) const KEPT_PATH: &str = "/kept";
/// Parent of the instances.
pub(crate) const SERVICE_PATH: &str = "/discovery/web";

/// All states that the nodes have had.
#[derive(Debug, Default)]
pub(crate) struct KeptNodes {
    /// The owner of each node at the leader.
    present: BTreeMap<String, SessionId>,
    /// Paths with each `czxid`.
    nodes: BTreeSet<(String, Zxid)>,
    data: BTreeSet<Vec<u8>>,
}

impl KeptNodes {
    pub(super) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) {
        match commit.effect {
            Effect::SessionClosed => self.present.retain(|_, owner| *owner != commit.session_id),
            Effect::Created(path) | Effect::Changed(path) | Effect::Deleted(path)
                if is_below(path, KEPT_PATH) || is_below(path, SERVICE_PATH) =>
            {
                self.record(tree, path);
            }
            _ => {}
        }
    }

    /// Records the state of a node after a transaction, which may have created it again.
    fn record(&mut self, tree: &Tree, path: &str) {
        let Some(node) = tree.node(path) else {
            self.present.remove(path);
            return;
        };
        self.present.insert(path.to_owned(), node.stat().ephemeral_owner);
        self.nodes.insert((path.to_owned(), node.stat().czxid));
        self.data.insert(node.data().unwrap_or_default().to_vec());
    }

    /// Returns the paths of the nodes at the leader.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.present.keys()
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|below| below.starts_with('/'))
}

impl Oracle {
    /// Checks a node that a handle reports.
    pub(crate) fn kept_node_reported(&mut self, path: &str, czxid: Zxid) {
        if !self.kept_nodes.nodes.contains(&(path.to_owned(), czxid)) {
            self.violated("I19", format!("{path} of {czxid} is said to be present"));
        }
    }

    /// Checks data that a handle has reported as written, or that a cache shows.
    pub(crate) fn kept_data_written(&mut self, data: &[u8]) {
        if !self.kept_nodes.data.contains(data) {
            let text = String::from_utf8_lossy(data);
            self.violated("I19", format!("{text} was never written"));
        }
    }
}
