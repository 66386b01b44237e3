//! A place in the queue, for those who want to see how they get on.

use std::fmt;
use std::marker::PhantomData;

use crate::error::LockError;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::owner::{Entrance, Side, admit};
use crate::participants::{Participant, participant};
use crate::queue::turn::Turn;
use crate::rwlock::WriteGuard;

/// Where a contender is in its queue, as far as it has been seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// How many are in the way: everybody ahead, and of a reader the writers ahead. It is
    /// one's turn at 0.
    pub ahead: usize,
    /// The path of the node of the first in the queue, who has the lock or is about to have
    /// it; with readers at the front it is the first of them. `None` when nobody is in
    /// the way.
    pub holder: Option<String>,
}

/// A place in the queue of a lock: the acquisition in two steps, for those who want to see
/// how they get on. See [`Mutex::enqueue`](crate::Mutex::enqueue),
/// [`ReadLock::enqueue`](crate::ReadLock::enqueue) and
/// [`WriteLock::enqueue`](crate::WriteLock::enqueue).
///
/// Dropping it gives the place up, and leaves no node behind, as everywhere.
///
/// # What it sees
/// A contender watches the two nearest ahead of a mutex, or the nearest one that is in the
/// way in a read-write lock, and reads the list again when one of them goes. So the
/// [`place`](Self::place) is what it was at the last look. In the queue of a mutex there may
/// be fewer ahead by now, and never more; from two on each of them is seen to go. In a
/// read-write lock a writer that becomes a reader may have come in ahead.
///
/// # What it costs
/// What [`acquire`](crate::Mutex::acquire) costs, except that each list is sorted, and that
/// [`acquired`](Self::acquired) may look at the queue once more: time may have passed since the last
/// look. It does so unless the contender has waited for a mutex, and watches its own node since.
/// [`look`](Self::look) is one request, [`holder`](Self::holder) another.
///
/// Nothing is asked of the server while neither [`moved`](Self::moved) nor
/// [`acquired`](Self::acquired) is awaited: the place in the queue stays, and the lock comes to
/// whoever is first, whether it looks or not.
///
/// An [`Owner`](crate::Owner) that holds the lock does not queue: it is its turn at once. For one
/// that does not, this is what it asks for, so whatever else it wants of the same lock waits
/// until this has been acquired or dropped.
///
/// ```no_run
/// # async fn example(lock: zk_recipes::Mutex) -> Result<(), zk_recipes::LockError> {
/// let mut waiting = lock.enqueue().await?;
/// while waiting.place().ahead > 0 {
///     println!("{} ahead", waiting.place().ahead);
///     if let Some(holder) = waiting.holder().await? {
///         println!("held by {}", String::from_utf8_lossy(&holder.data));
///     }
///     waiting.moved().await?;
/// }
/// let guard = waiting.acquired().await?;
/// # guard.release().await
/// # }
/// ```
#[must_use = "the place in the queue is given up when this is dropped"]
pub struct Waiting<G = Guard> {
    state: State,
    gives: PhantomData<fn() -> G>,
}

// Boxed, because it is moved about.
enum State {
    Queued(Box<Queued>),
    /// An owner that was let in again.
    LetIn(Guard),
}

/// One who is in the queue, or on the way there.
pub(crate) struct Queued {
    pub(crate) turn: Turn,
    pub(crate) side: Side,
    /// If it is on behalf of an owner.
    pub(crate) entrance: Option<Entrance>,
}

impl Queued {
    async fn acquired(mut self: Box<Self>) -> Result<Guard, LockError> {
        let belief = self.turn.come().await?;
        let hold = Hold::new(self.turn.into_contender(), belief)?;
        Ok(admit(self.entrance, self.side, hold))
    }
}

impl<G> Waiting<G> {
    pub(crate) fn queued(queued: Queued) -> Self {
        Self { state: State::Queued(Box::new(queued)), gives: PhantomData }
    }

    pub(crate) fn let_in(guard: Guard) -> Self {
        Self { state: State::LetIn(guard), gives: PhantomData }
    }

    /// The place at the last look. Asks no server.
    #[must_use]
    pub fn place(&self) -> Place {
        match &self.state {
            State::Queued(queued) => queued.turn.place().cloned().unwrap_or_default(),
            State::LetIn(_) => Place::default(),
        }
    }

    /// The path of one's own node, if there is one: after somebody has deleted it, until
    /// the next one is made, there is none.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match &self.state {
            State::Queued(queued) => queued.turn.contender().node().map(|node| node.path.as_str()),
            State::LetIn(guard) => Some(guard.node()),
        }
    }

    /// Waits until the place is seen to change; returns at once when it is one's turn.
    ///
    /// Whose node was deleted by somebody queues again at the end, and that is told as a
    /// change too.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire). The place may be lost then: drop it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped, the place in the queue least of all. What
    /// it was about to be answered is asked for again by the next call.
    pub async fn moved(&mut self) -> Result<Place, LockError> {
        if let State::Queued(queued) = &mut self.state {
            let before = queued.turn.place().cloned();
            while !queued.turn.is_first() && queued.turn.place() == before.as_ref() {
                queued.turn.step().await?;
            }
        }
        Ok(self.place())
    }

    /// Looks at the queue, by one request, unless it is one's turn already.
    ///
    /// # Errors
    /// As [`moved`](Self::moved).
    ///
    /// # Cancel safety
    /// As [`moved`](Self::moved).
    pub async fn look(&mut self) -> Result<Place, LockError> {
        if let State::Queued(queued) = &mut self.state {
            queued.turn.look_again().await?;
        }
        Ok(self.place())
    }

    /// Who is at the front of the queue, with its data, by one request for the node that
    /// [`place`](Self::place) names; `None` when nobody is in the way, or that one has gone
    /// in the meantime.
    ///
    /// # Errors
    /// A failed request.
    ///
    /// # Cancel safety
    /// Nothing is changed when the future is dropped.
    pub async fn holder(&self) -> Result<Option<Participant>, LockError> {
        let State::Queued(queued) = &self.state else { return Ok(None) };
        let Some(node) = queued.turn.place().and_then(|place| place.holder.as_deref()) else {
            return Ok(None);
        };
        let contender = queued.turn.contender();
        participant(contender.client(), node, contender.kind().rule()).await
    }

    async fn guard(self) -> Result<Guard, LockError> {
        match self.state {
            State::Queued(queued) => queued.acquired().await,
            State::LetIn(guard) => Ok(guard),
        }
    }
}

impl Waiting<Guard> {
    /// Waits for the lock, as long as it takes. If the lock is free, it returns after one more request,
    /// which looks at the queue again.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives the place in the queue up, and leaves no node behind. To
    /// wait for a while and keep the place, use [`moved`](Self::moved).
    pub async fn acquired(self) -> Result<Guard, LockError> {
        self.guard().await
    }
}

impl Waiting<WriteGuard> {
    /// Waits for the lock, as long as it takes. If the lock is free, it returns after one more request,
    /// which looks at the queue again.
    ///
    /// # Errors
    /// As [`WriteLock::acquire`](crate::WriteLock::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives the place in the queue up, and leaves no node behind. To
    /// wait for a while and keep the place, use [`moved`](Self::moved).
    pub async fn acquired(self) -> Result<WriteGuard, LockError> {
        self.guard().await.map(WriteGuard::new)
    }
}

impl<G> fmt::Debug for Waiting<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("node", &self.node())
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}
