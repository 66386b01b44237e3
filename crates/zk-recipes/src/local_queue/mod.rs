//! A local queue in front of a mutex: the tasks of one process share one node.
//!
//! This is lock cohorting (Dice, Marathe, Shavit, PPoPP 2012). One task at a time has the
//! [turn](turn_queue). It queues in the ensemble, or takes over what the task before it left: a
//! position in the ensemble's queue, if that task was cancelled, or a lock that is still held. So the
//! node belongs to one task at a time, and to nobody else.
//!
//! Only the node is shared. Each holder has a guard of its own, which ends when it is released,
//! and a token of its own. If the node is lost, the guard that holds it at that time is lost, too.

mod limits;
mod turn_queue;

use std::sync::Arc;

use tokio::time::Instant;

pub use self::limits::LocalQueueLimits;
use self::turn_queue::{Turn, TurnQueue};
use crate::deadline::now;
use crate::deadline::or_session_end;
use crate::error::LockError;
use crate::fencing_token::FencingToken;
use crate::hold::{Guard, Heir};
use crate::queue::Queue;
use crate::queue::waiter::Waiter;

/// The local queue of a handle and its clones.
#[derive(Clone, Debug)]
pub(crate) struct LocalQueue {
    limits: LocalQueueLimits,
    turns: Arc<TurnQueue<HandOff>>,
}

/// What a task hands to the next one together with the turn.
#[derive(Default)]
struct HandOff {
    /// The position of a task that was cancelled in the ensemble's queue.
    position: Option<Box<Waiter>>,
    passed: Option<Passed>,
}

/// A lock that the ensemble has granted, and that its last holder has released.
struct Passed {
    guard: Guard,
    granted_at: Instant,
}

/// The turn of a holder.
#[derive(Debug)]
struct LocalTurn {
    turn: Turn<HandOff>,
    limits: LocalQueueLimits,
    /// The time at which the ensemble has granted the lock.
    granted_at: Instant,
}

impl LocalQueue {
    pub(crate) fn new(limits: LocalQueueLimits) -> Self {
        Self { limits, turns: Arc::default() }
    }

    /// Returns an empty queue with the same limits.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.limits)
    }

    /// Waits for the turn, and then for the lock.
    ///
    /// Dropping the future leaves what was reached to the next local waiter.
    pub(crate) async fn acquire(&self, queue: &Queue) -> Result<Guard, LockError> {
        let mut turn = or_session_end(&queue.client, self.turns.join()).await?;
        if let Some(Passed { guard, granted_at }) = turn.item.passed.take() {
            // The lock may have been lost since it was passed on, or was passed to a task that was
            // cancelled late. The drop deletes its node.
            if guard.is_held() && self.limits.is_in_time(granted_at) {
                guard.hold().observe();
                return Ok(self.with_turn(guard, turn, granted_at));
            }
        }
        let position = turn.item.position.get_or_insert_with(|| Box::new(Waiter::new(queue)));
        let granted = position.acquire().await;
        // After an error the position may be lost, so the next waiter does not get it.
        turn.item.position = None;
        Ok(self.with_turn(Guard::new(granted?), turn, now()))
    }

    /// Returns the lock if no task of this process holds it or waits for it, and if it is free.
    pub(crate) async fn try_acquire(&self, queue: &Queue) -> Result<Option<Guard>, LockError> {
        let Some(turn) = self.turns.try_join() else { return Ok(None) };
        let acquired = Guard::try_acquire(queue).await?;
        Ok(acquired.map(|guard| self.with_turn(guard, turn, now())))
    }

    /// Adds the turn that the end of the hold hands on.
    fn with_turn(&self, guard: Guard, turn: Turn<HandOff>, granted_at: Instant) -> Guard {
        guard.hold().set_heir(Box::new(LocalTurn { turn, limits: self.limits, granted_at }));
        guard
    }
}

impl Heir for LocalTurn {
    fn may_pass(&self, token: FencingToken) -> bool {
        token.pass() < self.limits.max_passes && self.limits.is_in_time(self.granted_at)
    }

    fn pass(self: Box<Self>, next: &dyn Fn() -> Guard) -> Result<(), Box<dyn Heir>> {
        let Self { turn, limits, granted_at } = *self;
        let passed = turn.pass(|| HandOff {
            position: None,
            passed: Some(Passed { guard: next(), granted_at }),
        });
        passed.map_err(|turn| Box::new(Self { turn, limits, granted_at }) as Box<dyn Heir>)
    }
}
