//! Guards whose nodes an operator has deleted: they have to be invalid soon, whether or not anybody
//! waits for their loss.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::{Held, Oracle};
use crate::workload::holding::Holding;

/// A guard to be judged.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) guard: Weak<dyn Holding>,
    pub(crate) attempt: u64,
    pub(crate) session: i64,
    pub(crate) node: String,
    /// Whether its client has read the event of the deletion while it had the guard.
    pub(crate) is_told: bool,
}

/// What is known of deletions by operators.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Nodes that are gone, and the sessions that owned them.
    deleted: BTreeMap<String, i64>,
    orphans: VecDeque<Orphan>,
    wake: Arc<Notify>,
}

impl Oracle {
    /// An operator is about to delete a node.
    pub(crate) fn operate_on(&mut self, node: &str) {
        self.operated.insert(node.to_owned());
    }

    /// Wakes the judge of orphans.
    pub(crate) fn orphaned(&self) -> Arc<Notify> {
        Arc::clone(&self.deletions.wake)
    }

    pub(crate) fn take_orphans(&mut self) -> VecDeque<Orphan> {
        std::mem::take(&mut self.deletions.orphans)
    }

    /// A client has read in a connection of a session that a node was deleted.
    pub(crate) fn deletion_read(&mut self, session: i64, node: &str) {
        if self.deletions.deleted.get(node) == Some(&session) {
            self.judge_guards_on(node, true);
        }
    }

    /// The leader has deleted a node, other than with its session.
    pub(super) fn lock_node_deleted(&mut self, node: &str, owner: i64) {
        if self.operated.contains(node) {
            self.deletions.deleted.insert(node.to_owned(), owner);
            self.judge_guards_on(node, false);
        }
    }

    /// A guard may be granted before its client can know that the node is gone.
    pub(super) fn judge_if_orphaned(&mut self, held: &Held) {
        for claim in &held.claims {
            if self.deletions.deleted.contains_key(&claim.node) {
                self.judge(held, claim.node.clone(), false);
            }
        }
    }

    fn judge_guards_on(&mut self, node: &str, is_told: bool) {
        let guards = std::mem::take(&mut self.guards);
        for held in &guards {
            if held.claims.iter().any(|claim| claim.node == node) {
                self.judge(held, node.to_owned(), is_told);
            }
        }
        self.guards = guards;
    }

    fn judge(&mut self, held: &Held, node: String, is_told: bool) {
        self.deletions.orphans.push_back(Orphan {
            guard: Weak::clone(&held.guard),
            attempt: held.attempt,
            session: held.session,
            node,
            is_told,
        });
        self.deletions.wake.notify_one();
    }
}
