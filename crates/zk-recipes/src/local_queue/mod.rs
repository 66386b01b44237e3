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
pub(crate) mod turn;
mod turn_queue;

use std::sync::Arc;

use zk_session::Client;

pub use self::limits::LocalQueueLimits;
use self::turn::{HandOff, LocalTurn, PassedHold};
use self::turn_queue::{Turn, TurnQueue};
use crate::deadline::now;
use crate::error::LockError;
use crate::holding::Holding;
use crate::or_session_end::or_session_end;
use crate::queue::contender::Contender;
use crate::queue::waiter::Waiter;

/// The local queue of a handle and its clones.
#[derive(Clone, Debug)]
pub(crate) struct LocalQueue {
    limits: LocalQueueLimits,
    turns: Arc<TurnQueue<HandOff<Holding>>>,
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
    pub(crate) async fn acquire(
        &self,
        client: &Client,
        contender: impl Fn() -> Contender,
    ) -> Result<Holding, LockError> {
        let mut turn = or_session_end(client, self.turns.join()).await?;
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
        let Some(turn) = self.turns.try_join() else { return Ok(None) };
        let mut waiter = Waiter::new(contender);
        let Some(term) = waiter.try_acquire().await? else { return Ok(None) };
        let hold = Holding::new(waiter.contender, term)?;
        Ok(Some(hold.with_turn(self.granted(turn))))
    }

    /// Returns the turn of a holder that the ensemble has just granted the lock.
    fn granted(&self, turn: Turn<HandOff<Holding>>) -> LocalTurn<Holding> {
        LocalTurn { turn, limits: self.limits, granted_at: now() }
    }
}
