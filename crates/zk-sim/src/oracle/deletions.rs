//! Guards whose nodes an operator has deleted. Each guard must become invalid soon, whether or not
//! a task waits for its loss.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use zk_coordination::session::SessionId;

use super::{Held, Oracle};
use crate::holding::Holding;

/// A guard whose node was deleted, to be checked.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) guard: Weak<dyn Holding>,
    pub(crate) attempt: u64,
    pub(crate) session: SessionId,
    pub(crate) node: String,
    /// Whether the client read the deletion event while it held the guard.
    pub(crate) is_told: bool,
}

/// Deletions by operators.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Deleted nodes, with the sessions that owned them.
    deleted: BTreeMap<String, SessionId>,
    orphans: VecDeque<Orphan>,
    wake: Arc<Notify>,
}

impl Oracle {
    /// Records that an operator is about to delete a node.
    pub(crate) fn operate_on(&mut self, node: &str) {
        self.operated.insert(node.to_owned());
    }

    /// Returns the notification that wakes the task that checks orphans.
    pub(crate) fn orphaned(&self) -> Arc<Notify> {
        Arc::clone(&self.deletions.wake)
    }

    pub(crate) fn take_orphans(&mut self) -> VecDeque<Orphan> {
        std::mem::take(&mut self.deletions.orphans)
    }

    /// Records that a client has read the deletion event of a node on a connection of `session`.
    ///
    /// The event proves nothing if the session has other contenders. It may be for one that waits
    /// for the guard, before the guard has set its own watch.
    pub(crate) fn deletion_read(&mut self, session: SessionId, node: &str) {
        if let Some(lock) = &mut self.lock {
            lock.receives(node, session);
        }
        let is_alone = !self.nodes.values().any(|node| node.owner == session);
        if self.deletions.deleted.get(node) == Some(&session) && is_alone {
            self.judge_guards_on(node, true);
        }
    }

    /// Records that the leader has deleted a node while its session lives.
    pub(super) fn lock_node_deleted(&mut self, node: &str, owner: SessionId) {
        if self.operated.contains(node) {
            self.deletions.deleted.insert(node.to_owned(), owner);
            self.judge_guards_on(node, false);
        }
    }

    /// Queues a new guard for the check if its node is already deleted. The client may acquire the
    /// lock before it can know of the deletion.
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
