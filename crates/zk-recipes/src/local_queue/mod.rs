//! A local queue in front of a mutex: the tasks of one process share one node.
//!
//! This is lock cohorting (Dice, Marathe, Shavit, PPoPP 2012). One task has the turn at the
//! [`line`]. It queues in the ensemble, or takes over what the task before it left: a position in
//! the ensemble's queue, if that task was cancelled, or a lock that is still held. So the node
//! belongs to one task at a time, and to nobody else.
//!
//! Only the node is shared. Each holder has a guard of its own, which ends when it is released,
//! and a token of its own. If the node is lost, so is the guard that holds it at that time.

mod line;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_session::Client;

use self::line::{Line, Turn};
use crate::error::LockError;
use crate::holding::Holding;
use crate::limits::{LOCAL_PASSES_MAX, LOCAL_TIME_MAX};
use crate::queue::contender::Contender;
use crate::queue::waiter::Waiter;
use crate::session_end::or_session_end;

/// Bounds of the local queue of [`Mutex::with_local_queue`](crate::Mutex::with_local_queue): how
/// long a process keeps a lock that contenders in other processes wait for.
///
/// The default is [1,000 passes](crate::limits::LOCAL_PASSES_MAX) and [50
/// ms](crate::limits::LOCAL_TIME_MAX), whichever ends first.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::LocalQueueLimits;
///
/// let limits = LocalQueueLimits::default().passes(20).time(Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LocalQueueLimits {
    passes: u32,
    time: Duration,
}

impl Default for LocalQueueLimits {
    fn default() -> Self {
        Self { passes: LOCAL_PASSES_MAX, time: LOCAL_TIME_MAX }
    }
}

impl LocalQueueLimits {
    /// Sets how often the lock passes to another local waiter before it is released to the
    /// ensemble. With zero the tasks share a node and never pass the lock.
    pub fn passes(mut self, passes: u32) -> Self {
        self.passes = passes;
        self
    }

    /// Sets the time after which the lock does not pass to another local waiter, counted from the
    /// time at which the ensemble granted it. It does not interrupt a holder.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    fn is_in_time(self, granted_at: Instant) -> bool {
        now() - granted_at < self.time
    }
}

/// The local queue of a handle and its clones.
#[derive(Clone, Debug)]
pub(crate) struct LocalQueue {
    limits: LocalQueueLimits,
    line: Arc<Line<Legacy>>,
}

/// Items that a task hands to the next one together with the turn.
#[derive(Default)]
struct Legacy {
    /// The position of a task that was cancelled in the ensemble's queue.
    position: Option<Box<Waiter>>,
    hold: Option<PassedHold>,
}

/// A lock that the ensemble has granted, and that its last holder has released.
struct PassedHold {
    hold: Box<Holding>,
    granted_at: Instant,
}

/// The turn of a holder.
#[derive(Debug)]
pub(crate) struct LocalTurn {
    turn: Turn<Legacy>,
    limits: LocalQueueLimits,
    granted_at: Instant,
}

impl LocalQueue {
    pub(crate) fn new(limits: LocalQueueLimits) -> Self {
        Self { limits, line: Arc::default() }
    }

    /// Returns an empty queue with the same limits.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.limits)
    }

    /// Waits for the turn, and then for the lock.
    ///
    /// Dropping the future leaves what was reached to the next local waiter.
    pub(crate) async fn acquire(
        &self,
        client: &Client,
        contender: impl Fn() -> Contender,
    ) -> Result<Holding, LockError> {
        let mut turn = or_session_end(client, self.line.join()).await?;
        if let Some(PassedHold { mut hold, granted_at }) = turn.item.hold.take() {
            // The lock may have been lost since it was passed on, or was passed to a task that was
            // cancelled late. The drop deletes its node.
            let limits = self.limits;
            if hold.is_held() && limits.is_in_time(granted_at) {
                hold.begin();
                return Ok(hold.with_turn(LocalTurn { turn, limits, granted_at }));
            }
        }
        loop {
            let position = &mut turn.item.position;
            let waiter = position.get_or_insert_with(|| Box::new(Waiter::new(contender())));
            let granted = waiter.acquire().await;
            // After an error the position may be lost, so the next waiter does not get it.
            let waiter = position.take();
            if let (term, Some(waiter)) = (granted?, waiter) {
                let hold = Holding::new(waiter.contender, term)?;
                return Ok(hold.with_turn(self.granted(turn)));
            }
        }
    }

    /// Returns the lock if no task of this process holds it or waits for it, and if it is free.
    pub(crate) async fn try_acquire(
        &self,
        contender: Contender,
    ) -> Result<Option<Holding>, LockError> {
        let Some(turn) = self.line.try_join() else { return Ok(None) };
        let mut waiter = Waiter::new(contender);
        let Some(term) = waiter.look_once().await? else { return Ok(None) };
        let hold = Holding::new(waiter.contender, term)?;
        Ok(Some(hold.with_turn(self.granted(turn))))
    }

    /// Returns the turn of a holder that the ensemble has just granted the lock.
    fn granted(&self, turn: Turn<Legacy>) -> LocalTurn {
        LocalTurn { turn, limits: self.limits, granted_at: now() }
    }
}

impl LocalTurn {
    /// Returns true if the holder after `passes` others may pass the lock on.
    pub(crate) fn may_pass(&self, passes: u32) -> bool {
        passes < self.limits.passes && self.limits.is_in_time(self.granted_at)
    }

    /// Hands the turn to the next local waiter, with the hold that `hold` returns.
    ///
    /// # Errors
    /// Returns the turn if no task waits. `hold` is not called then.
    pub(crate) fn pass(self, hold: impl FnOnce() -> Holding) -> Result<(), Self> {
        let Self { turn, limits, granted_at } = self;
        let passed = turn.pass(|| {
            let hold = Some(PassedHold { hold: Box::new(hold()), granted_at });
            Legacy { position: None, hold }
        });
        passed.map_err(|turn| Self { turn, limits, granted_at })
    }
}

#[expect(clippy::disallowed_methods, reason = "the only place of this crate that reads a clock")]
fn now() -> Instant {
    Instant::now()
}
