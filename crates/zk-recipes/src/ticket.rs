//! An acquisition in two steps, with the position in the queue between them.

use std::fmt;

use crate::error::LockError;
use crate::guard::Guard;
use crate::owner::ReentryPermit;
use crate::participants::{Participant, participant};
use crate::queue::position::QueuePosition;
use crate::queue::waiter::Waiter;

/// A position in a lock's queue, from the first step of an acquisition in two steps. The methods
/// [`Mutex::enqueue`](crate::Mutex::enqueue), [`ReadLock::enqueue`](crate::ReadLock::enqueue) and
/// [`WriteLock::enqueue`](crate::WriteLock::enqueue) return it.
///
/// Dropping it leaves the queue, and leaves no node behind.
///
/// # What it sees
/// The waiter of a ticket for a mutex watches the two nearest contenders ahead. A waiter for a
/// read-write lock watches the nearest contender that blocks it. The waiter lists the queue again
/// when one of the watched nodes is deleted. So [`position`](Self::position) is the position at the
/// last list.
///
/// In the queue of a mutex fewer contenders may be ahead by now. More are ahead only after the
/// waiter's own node was deleted, because it then queues again at the end. Once two are ahead, the
/// waiter sees each of them leave. In the queue of a read-write lock, a writer that
/// becomes a reader may be placed ahead of the waiter.
///
/// # What it costs
/// The costs of [`acquire`](crate::Mutex::acquire), with two additions. Each list is sorted.
/// [`acquire`](Self::acquire) may list the queue once more, because time may have passed since
/// the last list. It skips this list if the contender has waited and has watched its own node
/// since. [`refresh`](Self::refresh) lists the queue, and [`holder`](Self::holder) is one request. With a
/// list, the waiter also reads its own node, unless it watches that node.
///
/// The waiter sends no requests unless one of its methods is awaited. For a time limit, wrap
/// [`position_changed`](Self::position_changed) in `tokio::time::timeout`. Its node keeps the position in the
/// queue. At the head of the queue it blocks the other contenders, even if no task awaits it.
///
/// A ticket for an [`Owner`](crate::Owner) that already holds the lock acquires it immediately. While
/// a ticket is pending, other acquisitions for the same owner wait.
///
/// ```no_run
/// # async fn example(lock: zk_recipes::Mutex) -> Result<(), zk_recipes::LockError> {
/// let mut ticket = lock.enqueue().await?;
/// while ticket.position().ahead > 0 {
///     println!("{} ahead", ticket.position().ahead);
///     if let Some(holder) = ticket.holder().await? {
///         println!("held by {}", String::from_utf8_lossy(&holder.data));
///     }
///     ticket.position_changed().await?;
/// }
/// let guard = ticket.acquire().await?;
/// # guard.release().await
/// # }
/// ```
#[must_use = "dropping the ticket leaves the queue"]
pub struct Ticket<G = Guard> {
    state: State,
    convert: fn(Guard) -> G,
}

// Boxed, because callers move it.
enum State {
    Queued(Box<Queued>),
    /// The owner already holds the lock.
    Held(Guard),
}

/// A contender that is in the queue, or about to enter it.
pub(crate) struct Queued {
    pub(crate) waiter: Waiter,
    /// Set for an acquisition on behalf of an owner.
    pub(crate) permit: Option<ReentryPermit>,
}

impl<G> Ticket<G> {
    pub(crate) fn queued(queued: Queued, convert: fn(Guard) -> G) -> Self {
        Self { state: State::Queued(Box::new(queued)), convert }
    }

    pub(crate) fn held(guard: Guard, convert: fn(Guard) -> G) -> Self {
        Self { state: State::Held(guard), convert }
    }

    /// Returns the position at the last list of the queue. Sends no request.
    #[must_use]
    pub fn position(&self) -> QueuePosition {
        match &self.state {
            State::Queued(queued) => queued.waiter.position().cloned().unwrap_or_default(),
            State::Held(_) => QueuePosition::default(),
        }
    }

    /// Returns the path of the waiter's own node, as of the last awaited method. `None` if that method
    /// found the node deleted and has not created a new one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match &self.state {
            State::Queued(queued) => queued.waiter.contender.node().map(|node| node.path.as_str()),
            State::Held(guard) => Some(guard.node()),
        }
    }

    /// Waits until the position changes; returns at once when it is the waiter's turn.
    ///
    /// If another client deletes the waiter's node, the waiter queues again at the end. This counts
    /// as a change only if [`QueuePosition`] differs.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire). The position may be lost then: drop the
    /// ticket.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing and keeps the position in the queue. The next call repeats
    /// a request without a reply.
    pub async fn position_changed(&mut self) -> Result<QueuePosition, LockError> {
        match &mut self.state {
            State::Queued(queued) => {
                let before = queued.waiter.position().cloned();
                while !queued.waiter.is_first() && queued.waiter.position() == before.as_ref() {
                    queued.waiter.step().await?;
                }
            }
            State::Held(guard) => drop(guard.token()?),
        }
        Ok(self.position())
    }

    /// Lists the queue, in one write, and returns the position, unless it is already the waiter's turn.
    ///
    /// # Errors
    /// As [`position_changed`](Self::position_changed).
    ///
    /// # Cancel safety
    /// As [`position_changed`](Self::position_changed).
    pub async fn refresh(&mut self) -> Result<QueuePosition, LockError> {
        match &mut self.state {
            State::Queued(queued) => queued.waiter.refresh().await?,
            State::Held(guard) => drop(guard.token()?),
        }
        Ok(self.position())
    }

    /// Reads the node at the head of the queue, which [`position`](Self::position) names, with one
    /// request. Returns `None` if no contender blocks the waiter, or if that node no longer exists.
    ///
    /// # Errors
    /// Returns an error if a request fails.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn holder(&self) -> Result<Option<Participant>, LockError> {
        let State::Queued(queued) = &self.state else { return Ok(None) };
        let Some(node) = queued.waiter.position().and_then(|it| it.holder.as_deref()) else {
            return Ok(None);
        };
        let contender = &queued.waiter.contender;
        participant(&contender.client, node, contender.spec.rule()).await
    }

    /// Waits until the lock is acquired, without a time limit. If the lock is free, it returns
    /// after one more write, which lists the queue again.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire), or as
    /// [`WriteLock::acquire`](crate::WriteLock::acquire) for a writer.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, and leaves no node behind. To wait for a limited time
    /// and keep the position, use [`position_changed`](Self::position_changed).
    pub async fn acquire(self) -> Result<G, LockError> {
        let guard = match self.state {
            State::Held(guard) => guard.token().map(|_| guard)?,
            State::Queued(mut queued) => {
                let term = queued.waiter.acquire().await?;
                Guard::granted(queued.waiter.contender, term, queued.permit)?
            }
        };
        Ok((self.convert)(guard))
    }
}

impl<G> fmt::Debug for Ticket<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("node", &self.node())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
