//! An acquisition in two steps, with the position in the queue between them.

use std::fmt;
use std::future::pending;
use std::pin::pin;

use futures::future::{Either, select};
use zk_session::path::file_name;
use zk_session::{ChildList, EventType, Watch};

use crate::child_order::Rank;
use crate::error::LockError;
use crate::hold::Guard;
use crate::owner::{Entry, Owner, ReentryPermit};
use crate::participants::{Participant, participant};
use crate::queue::Queue;
use crate::queue::contender::is_unwatchable;
use crate::queue::list;
use crate::queue::spec::QueueSpec;
use crate::queue::waiter::Waiter;
use crate::retry::retry;

/// Position of a waiter in a lock's queue, as of its last list of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePosition {
    /// Number of contenders that block the waiter: all contenders ahead, or the writers ahead of a
    /// reader. At 0 it is the waiter's turn.
    pub ahead: usize,
    /// Path of the node at the head of the queue. Its contender holds the lock or is about to
    /// acquire it. If readers hold the lock, this is the node of the first reader. `None` if no
    /// contender blocks the waiter.
    pub holder: Option<String>,
}

impl QueuePosition {
    /// Returns the position of a contender of this rank in the list.
    fn of(spec: &QueueSpec, names: &ChildList, rank: &Rank<'_>) -> Self {
        if rank.position == 0 {
            return Self::default();
        }
        let rule = spec.rule();
        let sorted = rule.sort(names);
        let holder = sorted.iter().find(|name| rule.is_contender(name));
        Self { ahead: rank.position, holder: holder.map(|name| spec.node(name)) }
    }
}

/// A position in a lock's queue, from the first step of an acquisition in two steps. The methods
/// [`Mutex::enqueue`](crate::Mutex::enqueue), [`ReadLock::enqueue`](crate::ReadLock::enqueue) and
/// [`WriteLock::enqueue`](crate::WriteLock::enqueue) return it.
///
/// Dropping it leaves the queue, and leaves no node behind.
///
/// # What it sees
/// [`position`](Self::position) is the position at the last list. A ticket lists the queue when it
/// queues, and again when the nearest contender leaves that blocks it. If two block it, it also sees
/// the other one leave.
///
/// In the queue of a mutex fewer contenders may be ahead by now. More are ahead only after the
/// waiter's own node was deleted, because it then queues again at the end. In the queue of a read-write
/// lock, a writer that becomes a reader may be placed ahead of the waiter.
///
/// # What it costs
/// The costs of [`acquire`](crate::Mutex::acquire), and a list for each position, which is sorted. A
/// ticket with two contenders ahead sets one watch more. [`acquire`](Self::acquire) may list the queue
/// once more, because time may have passed since the ticket was first. It skips this list if the
/// contender has waited and has watched its own node since. [`refresh`](Self::refresh) is one list,
/// and [`holder`](Self::holder) one request.
///
/// The waiter sends no requests unless one of its methods is awaited. For a time limit, wrap
/// [`position_changed`](Self::position_changed) in `tokio::time::timeout`. Its node keeps the position in the
/// queue. At the head of the queue it blocks the other contenders, even if no task awaits it.
///
/// A ticket for an [`Owner`] that already holds the lock acquires it immediately. While
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
    owner: Option<Owner>,
    convert: fn(Guard, Option<Owner>) -> G,
}

// Boxed, because callers move it.
enum State {
    Queued(Box<Queued>),
    /// The owner already holds the lock.
    Held(Guard),
}

/// A contender that is in the queue, or about to enter it.
struct Queued {
    waiter: Waiter,
    /// Set for an acquisition on behalf of an owner.
    permit: Option<ReentryPermit>,
    position: QueuePosition,
    /// The queue may have moved since the last list.
    is_outdated: bool,
    /// The second of two contenders ahead, with a watch. The waiter watches the nearest one.
    second: Option<(String, Watch)>,
}

impl<G> Ticket<G> {
    /// Queues, unless the owner holds the lock already.
    pub(crate) async fn enqueue(
        queue: &Queue,
        entry: Option<Entry>,
        owner: Option<Owner>,
        convert: fn(Guard, Option<Owner>) -> G,
    ) -> Result<Self, LockError> {
        let permit = match entry {
            Some(Entry::Held(guard)) => {
                return Ok(Self { state: State::Held(guard), owner, convert });
            }
            Some(Entry::Queue(permit)) => Some(permit),
            None => None,
        };
        let (waiter, position) = (Waiter::new(queue), QueuePosition::default());
        let queued = Queued { waiter, permit, position, is_outdated: true, second: None };
        let mut queued = Box::new(queued);
        queued.look().await?;
        Ok(Self { state: State::Queued(queued), owner, convert })
    }

    /// Returns the position at the last list of the queue. Sends no request.
    #[must_use]
    pub fn position(&self) -> QueuePosition {
        match &self.state {
            State::Queued(queued) => queued.position.clone(),
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
                let before = queued.position.clone();
                while !queued.waiter.is_first() && queued.position == before {
                    queued.advance().await?;
                }
            }
            State::Held(guard) => drop(guard.token()?),
        }
        Ok(self.position())
    }

    /// Lists the queue and returns the position, unless it is already the waiter's turn.
    ///
    /// # Cancel safety
    /// As [`position_changed`](Self::position_changed).
    pub async fn refresh(&mut self) -> Result<QueuePosition, LockError> {
        match &mut self.state {
            State::Queued(queued) => {
                queued.waiter.recheck()?;
                queued.look().await?;
            }
            State::Held(guard) => drop(guard.token()?),
        }
        Ok(self.position())
    }

    /// Reads the node at the head of the queue, which [`position`](Self::position) names, with one
    /// request. Returns `None` if no contender blocks the waiter, or if that node no longer exists.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn holder(&self) -> Result<Option<Participant>, LockError> {
        let State::Queued(queued) = &self.state else { return Ok(None) };
        let Some(node) = queued.position.holder.as_deref() else { return Ok(None) };
        let queue = &queued.waiter.contender.queue;
        participant(&queue.client, node, queue.spec.rule()).await
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
                let guard = Guard::new(queued.waiter.acquire().await?);
                match queued.permit {
                    Some(permit) => permit.record(guard),
                    None => guard,
                }
            }
        };
        Ok((self.convert)(guard, self.owner))
    }
}

impl Queued {
    /// Waits until one of the contenders ahead has left, or until it is the waiter's turn, and looks
    /// where the waiter is now.
    async fn advance(&mut self) -> Result<(), LockError> {
        if !self.is_outdated {
            let second = async {
                match &mut self.second {
                    Some((_, watch)) => watch.await,
                    None => pending().await,
                }
            };
            let event = match select(pin!(self.waiter.step()), pin!(second)).await {
                Either::Left((stepped, _)) => stepped.map(|()| None)?,
                Either::Right((event, _)) => event.ok(),
            };
            if event.is_some_and(|event| event.event_type == EventType::NODE_DELETED) {
                if let Some((second, _)) = self.second.take() {
                    self.waiter.left(second)?;
                }
            }
            self.is_outdated = true;
        }
        self.look().await
    }

    /// Lists the queue, unless it is the waiter's turn.
    async fn look(&mut self) -> Result<(), LockError> {
        // If the future is dropped, the next call looks again.
        (self.is_outdated, self.second) = (true, None);
        loop {
            self.waiter.settle().await?;
            if self.waiter.is_first() {
                (self.position, self.second) = (QueuePosition::default(), None);
                break;
            }
            if self.list().await? {
                break;
            }
        }
        self.is_outdated = false;
        Ok(())
    }

    /// Lists the queue. Returns false if it has moved meanwhile.
    async fn list(&mut self) -> Result<bool, LockError> {
        let Queue { client, spec, .. } = &self.waiter.contender.queue;
        let listed = list(client, &spec.path).await?;
        let own = self.waiter.contender.node().map(|own| file_name(&own.path));
        let names = listed.as_ref().map(|children| &children.names);
        let rank = own.zip(names).and_then(|(own, names)| spec.rank(names, own));
        let (Some(names), Some(rank)) = (names, rank) else {
            self.waiter.not_listed()?;
            return Ok(false);
        };
        let position = QueuePosition::of(spec, names, &rank);
        let second = match rank.second {
            Some(second) if rank.position == 2 => {
                let node = spec.node(second);
                match retry(client, || client.get_children_and_watch(&node)).await {
                    Ok((_, watch)) => Some((node, watch)),
                    Err(error) if error.is_no_node() => return Ok(false),
                    // Without the watch, the ticket sees the nearest one leave.
                    Err(error) if is_unwatchable(&error) => None,
                    Err(error) => return Err(error.into()),
                }
            }
            _ => None,
        };
        (self.position, self.second) = (position, second);
        Ok(true)
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
