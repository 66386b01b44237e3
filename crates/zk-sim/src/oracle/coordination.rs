//! The part of the oracle that the recipes of `zk-coordination` share: their transactions and nodes.

use zk_coordination::session::SessionId;
use zk_testing::server::{Commit, Effect, Tree};

use super::{
    BARRIER_PATH, COUNTER_PATH, GROUP_PATH, KEPT_PATH, Oracle, SERVICE_PATH, SINGLE_BARRIER_PATH,
    TREE_ROOT,
};

/// Paths of the recipes, for the trace.
const PATHS: [&str; 7] = [
    GROUP_PATH,
    BARRIER_PATH,
    TREE_ROOT,
    COUNTER_PATH,
    SINGLE_BARRIER_PATH,
    KEPT_PATH,
    SERVICE_PATH,
];

impl Oracle {
    /// Records a transaction for the recipes of `zk-coordination`.
    pub(super) fn committed_beside_locks(&mut self, tree: &Tree, commit: Commit<'_>) {
        let counted = self.counters.committed(tree, commit);
        self.must("I18", counted);
        let registered = self.registrations.committed(tree, commit);
        self.must("I19", registered);
        self.caches.committed(tree, commit);
        let opened = self.barriers.committed(tree, commit);
        self.must("I21", opened);
        self.single_barrier.committed(commit);
        self.kept_nodes.committed(tree, commit);
        if let Effect::Created(path) | Effect::Deleted(path) | Effect::Changed(path) = commit.effect
            && PATHS.iter().any(|own| path.starts_with(own))
        {
            let Commit { zxid, session_id, effect, .. } = commit;
            self.log(format_args!("{effect:?} by {session_id} at {zxid}"));
            let owner = tree.node(path).map_or(SessionId::NONE, |node| node.stat().ephemeral_owner);
            if owner != SessionId::NONE && matches!(effect, Effect::Created(_)) {
                self.fresh_owners.push_back(owner);
                self.fresh.notify_one();
            }
        }
    }

    /// Picks a node of a lock or another recipe for an operator to delete.
    pub(crate) fn operate(&mut self, choice: usize) -> Option<String> {
        let nodes =
            self.nodes.keys().chain(self.registrations.nodes()).chain(self.barriers.nodes());
        let nodes: Vec<&String> = nodes.chain(self.kept_nodes.nodes()).collect();
        let path = nodes.get(choice % nodes.len().max(1)).copied()?.clone();
        self.operate_on(&path);
        Some(path)
    }

    /// Returns true if a lock, a group or a double barrier has a node.
    pub(crate) fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
            || self.registrations.nodes().next().is_some()
            || self.barriers.nodes().next().is_some()
    }

    /// Lists unfinished attempts and remaining nodes, for a message.
    pub(crate) fn leftovers(&self) -> String {
        let nodes =
            self.nodes.keys().chain(self.registrations.nodes()).chain(self.barriers.nodes());
        let nodes: Vec<&String> = nodes.collect();
        let attempts: Vec<&String> = self.attempts.values().collect();
        format!("attempts {attempts:?}, nodes {nodes:?}")
    }
}
