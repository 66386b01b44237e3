//! Checks of a barrier: a wait ends only if the barrier was not set at some moment of it.

use std::time::Duration;

use tokio::time::Instant;
use zk_testing::server::{Commit, Effect};

use super::Oracle;
use crate::clock::now;
use crate::ensure::ensure;

/// Path of the barrier.
pub(crate) const SINGLE_BARRIER_PATH: &str = "/barriers/migration";

/// The barrier at the leader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SingleBarrier {
    is_set: bool,
    changes: u64,
    changed_at: Option<Instant>,
}

/// The barrier at the begin of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierCall {
    barrier: SingleBarrier,
    begun_at: Instant,
}

impl SingleBarrier {
    pub(super) fn committed(&mut self, commit: Commit<'_>) {
        match commit.effect {
            Effect::Created(SINGLE_BARRIER_PATH) => self.change(true),
            Effect::Deleted(SINGLE_BARRIER_PATH) => self.change(false),
            _ => {}
        }
    }

    fn change(&mut self, is_set: bool) {
        self.is_set = is_set;
        self.changes += 1;
        self.changed_at = Some(now());
    }

    /// Checks that the barrier was set, or not, at some moment since the begin of the call, or of
    /// `earlier` before it.
    fn was(&self, call: &BarrierCall, is_set: bool, earlier: Duration) -> Result<(), String> {
        let has_changed = self.changes > call.barrier.changes
            || self.changed_at.is_some_and(|at| at + earlier > call.begun_at);
        ensure(call.barrier.is_set == is_set || has_changed, || {
            format!("a call ended at {self:?}, begun at {call:?}")
        })
    }
}

impl Oracle {
    /// Returns the barrier at the begin of a call.
    pub(crate) fn barrier_call_begins(&self) -> BarrierCall {
        BarrierCall { barrier: self.single_barrier, begun_at: now() }
    }

    /// Checks a call that returns because the barrier was set, or not, at some moment of it. A leader
    /// that is cut off may show a state that is up to `staleness` old.
    pub(crate) fn barrier_call_ends(
        &mut self,
        call: &BarrierCall,
        is_set: bool,
        staleness: Duration,
    ) {
        self.log(format_args!("a barrier is seen set: {is_set}"));
        self.must("I22", self.single_barrier.was(call, is_set, staleness));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_must_not_end_while_the_barrier_is_set() {
        let (mut barrier, start) = (SingleBarrier::default(), now());
        let call =
            |barrier, ms| BarrierCall { barrier, begun_at: start + Duration::from_millis(ms) };
        let (at_once, minute) = (Duration::ZERO, Duration::from_secs(60));
        let unset = call(barrier, 0);
        barrier.change(true);
        assert!(barrier.was(&unset, false, at_once).is_ok());
        let set = call(barrier, 10_000);
        assert!(barrier.was(&set, false, at_once).is_err());
        assert!(barrier.was(&set, false, minute).is_ok(), "on a leader that is cut off");
        barrier.change(false);
        barrier.change(true);
        assert!(barrier.was(&set, false, at_once).is_ok());
    }
}
