//! Reaper of containers and of nodes with a time to live.
//!
//! It selects and deletes the nodes of a pass at the same instant. A real one pauses in between.

use std::time::Instant;

use proto::SessionId;

use super::Ensemble;
use super::tree::Tree;
use super::txn::{TxnBody, TxnOp};
use crate::limits::REAPED_PER_PASS_MAX;

impl Ensemble {
    /// Returns the time of the reaper's next pass, if any node could be deleted in it.
    pub(super) fn next_reaping(&self) -> Option<Instant> {
        let leader = &self.servers[self.leader];
        (leader.tree.has_mortals() && self.leader_works()).then_some(self.next_reaping)
    }

    pub(super) fn reap_if_due(&mut self) {
        if self.next_reaping().is_some_and(|due| due <= self.now) {
            self.reap();
        }
        while self.next_reaping <= self.now {
            let interval = self.settings.container_check_interval;
            let passed =
                self.now.duration_since(self.next_reaping).as_nanos() / interval.as_nanos();
            let passed = u32::try_from(passed).unwrap_or(u32::MAX - 1);
            self.next_reaping += interval * (passed + 1);
        }
    }

    /// Deletes expired nodes in ordinary transactions that belong to no session. Returns their
    /// number.
    pub(super) fn reap(&mut self) -> usize {
        let now_ms = self.clock.wall_ms(self.now);
        let never_used = self.settings.container_max_never_used;
        let never_used_max_ms =
            never_used.map(|max| i64::try_from(max.as_millis()).unwrap_or(i64::MAX));
        let mortal = self.servers[self.leader].tree.mortal();
        let reapable =
            mortal.filter(|(_, node)| Tree::is_reapable(node, now_ms, never_used_max_ms));
        let paths: Vec<Box<str>> =
            reapable.map(|(path, _)| path.into()).take(REAPED_PER_PASS_MAX).collect();
        let count = paths.len();
        for path in paths {
            self.commit(SessionId::NONE, TxnBody::Op(TxnOp::Delete { path }), None);
        }
        count
    }
}
