//! Checks of nodes that a handle keeps and that have no owner, or a number in their name: each state
//! that a handle reports has existed.

use std::collections::BTreeSet;

use zk_testing::server::{Commit, Effect, Tree};

use super::Oracle;

/// Parent of the nodes.
pub(crate) const KEPT_PATH: &str = "/kept";
const BELOW: &str = "/kept/";

/// All states that the nodes have had.
#[derive(Debug, Default)]
pub(crate) struct KeptNodes {
    /// Paths with each `czxid`.
    nodes: BTreeSet<(String, i64)>,
    data: BTreeSet<Vec<u8>>,
}

impl KeptNodes {
    pub(super) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) {
        if let Effect::Created(path) | Effect::Changed(path) = commit.effect
            && path.starts_with(BELOW)
            && let Some(node) = tree.node(path)
        {
            self.nodes.insert((path.to_owned(), node.stat().czxid));
            self.data.insert(node.data().unwrap_or_default().to_vec());
        }
    }
}

impl Oracle {
    /// Checks a node that a handle reports.
    pub(crate) fn kept_node_reported(&mut self, path: &str, czxid: i64) {
        if !self.kept_nodes.nodes.contains(&(path.to_owned(), czxid)) {
            self.violated("I19", format!("{path} of {czxid:#x} is said to be present"));
        }
    }

    /// Checks data that a handle has reported as written.
    pub(crate) fn kept_data_written(&mut self, data: &[u8]) {
        if !self.kept_nodes.data.contains(data) {
            self.violated("I19", format!("{data:?} was never written"));
        }
    }
}
