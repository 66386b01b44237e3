//! The turn of a task in a local queue, and what it hands to the next task.
//!
//! `H` is the hold of an acquired lock, which has the turn of its holder.

use tokio::time::Instant;

use super::limits::LocalQueueLimits;
use super::turn_queue::Turn;
use crate::queue::waiter::Waiter;

/// Items that a task hands to the next one together with the turn.
pub(super) struct HandOff<H> {
    /// The position of a task that was cancelled in the ensemble's queue.
    pub(super) position: Option<Box<Waiter>>,
    pub(super) hold: Option<PassedHold<H>>,
}

/// A lock that the ensemble has granted, and that its last holder has released.
pub(super) struct PassedHold<H> {
    pub(super) hold: Box<H>,
    pub(super) granted_at: Instant,
}

/// The turn of a holder.
#[derive(Debug)]
pub(crate) struct LocalTurn<H> {
    pub(super) turn: Turn<HandOff<H>>,
    pub(super) limits: LocalQueueLimits,
    pub(super) granted_at: Instant,
}

impl<H> Default for HandOff<H> {
    fn default() -> Self {
        Self { position: None, hold: None }
    }
}

impl<H> LocalTurn<H> {
    /// Returns true if the holder after `passes` others may pass the lock on.
    pub(crate) fn may_pass(&self, passes: u32) -> bool {
        passes < self.limits.max_passes && self.limits.is_in_time(self.granted_at)
    }

    /// Hands the turn to the next local waiter, with the hold that `hold` returns.
    ///
    /// # Errors
    /// Returns the turn if no task waits. `hold` is not called then.
    pub(crate) fn pass(self, hold: impl FnOnce() -> H) -> Result<(), Self> {
        let Self { turn, limits, granted_at } = self;
        let passed = turn.pass(|| {
            let hold = Some(PassedHold { hold: Box::new(hold()), granted_at });
            HandOff { position: None, hold }
        });
        passed.map_err(|turn| Self { turn, limits, granted_at })
    }
}
