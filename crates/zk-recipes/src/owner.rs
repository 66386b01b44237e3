//! Re-entrant locking: owners, and the locks that they hold.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;
use zk_session::Client;

use crate::deadline::or_session_end;
use crate::error::LockError;
use crate::fencing_token::FencingToken;
use crate::hold::{Guard, Hold};
use crate::queue::Queue;
use crate::queue::spec::{Admission, QueueSpec};

/// An identity for re-entrant locking. Curator uses the thread; here the caller passes an owner,
/// for example one for each task, request or job. Clones are the same owner.
///
/// [`Mutex::with_owner`](crate::Mutex::with_owner) and [`RwLock::with_owner`](crate::RwLock::with_owner)
/// return handles that lock on behalf of an owner. Re-acquiring a lock that the owner holds needs
/// no request. This works through any handle of the same lock and the same session. The last of the
/// guards releases the lock. Each of them has the paths and the chroot of the handle that queued.
///
/// # What it promises
/// * A hold is bound to its session and to its node. An owner cannot re-enter a hold that is lost,
///   or may be lost: the acquisition fails with [`LockError::Lost`] while the owner still has
///   guards of that hold. After the last of them is dropped, the owner queues like every contender.
/// * An owner waits in a queue **once**. If several tasks acquire a lock for the same owner, one of
///   them queues and the others wait for its result. If it acquires the lock, they share the hold;
///   otherwise the next of them queues. `try_acquire` does not wait for that result: it returns
///   `None`.
/// * A reading owner that requests the write lock would wait for itself. It fails with
///   [`LockError::WouldDeadlock`] at once. A writing owner may also read.
///
/// An owner defines which tasks share a lock. It does not exclude these tasks from each other: two
/// tasks with guards of one hold may work at the same time.
///
/// # What it costs
/// Re-entering a lock needs no request. The release of any guard but the last needs none either.
/// All other costs are the same as without an owner. An owner costs one list entry for each lock
/// that it holds or waits for, until its next acquisition after that.
///
/// ```no_run
/// # async fn example(client: zk_recipes::session::Client) -> Result<(), zk_recipes::LockError> {
/// use zk_recipes::{Mutex, Owner};
///
/// async fn book(stock: &Mutex) -> Result<(), zk_recipes::LockError> {
///     let guard = stock.acquire().await?; // alone, or within a larger piece of work
///     println!("booked under token {}", guard.token()?);
///     guard.release().await
/// }
///
/// let stock = Mutex::new(&client, "/locks/stock")?.with_owner(&Owner::new());
/// let guard = stock.acquire().await?;
/// book(&stock).await?; // asks no server
/// book(&stock).await?;
/// guard.release().await?; // the lock is free
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Owner {
    /// The locks that it holds or acquires. The next acquisition removes the others from the list.
    slots: Arc<Mutex<Vec<Arc<ReentrySlot>>>>,
}

/// State of one owner at one lock.
struct ReentrySlot {
    /// A weak handle: an owner keeps no session open.
    client: Client,
    /// Path from the root of the ensemble.
    path: String,
    spec: Arc<QueueSpec>,
    /// Held by the one acquisition in progress, unless it re-enters a hold.
    entry: Arc<tokio::sync::Mutex<()>>,
    /// The holds of the owner, one for each [`Side`].
    holds: Mutex<[Option<OwnHold>; 2]>,
}

/// A hold, and the token by which the owner holds it. The next holder of a local queue has another one.
type OwnHold = (Weak<Hold>, FencingToken);

/// How a lock is held: by one holder, or shared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// A mutex, or the write side.
    Exclusive,
    /// The read side.
    Shared,
}

/// The way in which an owner acquires a lock.
pub(crate) enum Entry {
    /// It already holds the lock.
    Held(Guard),
    /// It queues.
    Queue(ReentryPermit),
}

/// Permission to acquire the lock for the owner; only one exists at a time.
pub(crate) struct ReentryPermit {
    slot: Arc<ReentrySlot>,
    side: Side,
    _only_one: OwnedMutexGuard<()>,
}

impl Owner {
    /// Creates an owner that is distinct from all others.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Re-enters the lock if the owner holds it. Otherwise waits until no other task acquires the lock
    /// for this owner, or until the session ends. The other acquisition may be a
    /// [`Ticket`](crate::Ticket) that no task awaits.
    pub(crate) async fn enter(&self, queue: &Queue) -> Result<Entry, LockError> {
        let (slot, side) = (self.slot(queue), Side::of(&queue.spec));
        if let Some(guard) = slot.reenter(side)? {
            return Ok(Entry::Held(guard));
        }
        let only_one = or_session_end(&queue.client, slot.entry.clone().lock_owned()).await?;
        slot.entered(side, only_one)
    }

    /// As [`enter`](Self::enter), without waiting: returns `None` if another task acquires the lock for
    /// this owner.
    pub(crate) fn try_enter(&self, queue: &Queue) -> Result<Option<Entry>, LockError> {
        let (slot, side) = (self.slot(queue), Side::of(&queue.spec));
        if let Some(guard) = slot.reenter(side)? {
            return Ok(Some(Entry::Held(guard)));
        }
        match slot.entry.clone().try_lock_owned() {
            Ok(only_one) => slot.entered(side, only_one).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Returns the entry of the owner for a lock.
    fn slot(&self, queue: &Queue) -> Arc<ReentrySlot> {
        let path = queue.client.full_path(&queue.spec.path);
        let mut slots = self.lock();
        let (used, unused): (Vec<_>, Vec<_>) = slots.drain(..).partition(ReentrySlot::is_used);
        *slots = used;
        let known = slots.iter().find(|slot| slot.is_of(queue, &path)).cloned();
        let slot = known.unwrap_or_else(|| {
            let slot = Arc::new(ReentrySlot {
                client: queue.client.weak(),
                path,
                spec: queue.spec.clone(),
                entry: Arc::default(),
                holds: Mutex::default(),
            });
            slots.push(slot.clone());
            slot
        });
        drop(slots);
        drop(unused); // not under the mutex: the last handle of a session wakes tasks
        slot
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ReentrySlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReentrySlot {
    /// Returns true if the owner holds the lock, or acquires it.
    fn is_used(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.is_held()
    }

    fn is_held(&self) -> bool {
        let is_held =
            |side| self.hold(side).is_some_and(|(hold, token)| hold.held(token).is_some());
        is_held(Side::Exclusive) || is_held(Side::Shared)
    }

    fn is_of(&self, queue: &Queue, path: &str) -> bool {
        self.path == path
            && self.client.is_same_session(&queue.client)
            && self.spec.rule() == queue.spec.rule()
    }

    /// Returns another guard of the owner's hold, if it has one. A lost hold blocks the owner while it
    /// has guards, because its node may still exist.
    fn reenter(&self, side: Side) -> Result<Option<Guard>, LockError> {
        if let Some(guard) = self.hold(side).and_then(|(hold, token)| hold.share(token)) {
            return guard.map(Some);
        }
        let reads = self.hold(Side::Shared).and_then(|(hold, token)| hold.held(token));
        if reads.transpose()?.is_some() && side == Side::Exclusive {
            return Err(LockError::WouldDeadlock { path: self.path.clone() });
        }
        Ok(None)
    }

    /// Another task may have acquired the lock before this one got the permit.
    fn entered(
        self: Arc<Self>,
        side: Side,
        only_one: OwnedMutexGuard<()>,
    ) -> Result<Entry, LockError> {
        Ok(match self.reenter(side)? {
            Some(guard) => Entry::Held(guard),
            None => Entry::Queue(ReentryPermit { slot: self, side, _only_one: only_one }),
        })
    }

    /// Returns the hold of a side, which may have ended, and the owner's token.
    fn hold(&self, side: Side) -> Option<(Arc<Hold>, FencingToken)> {
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        let (hold, token) = holds[side as usize].as_ref()?;
        Some((hold.upgrade()?, *token))
    }
}

impl Entry {
    /// Returns the guard of an owner that holds the lock, or acquires it with `queue`.
    pub(crate) async fn or_queue<F>(self, queue: impl FnOnce() -> F) -> Result<Guard, LockError>
    where
        F: Future<Output = Result<Guard, LockError>>,
    {
        match self {
            Self::Held(guard) => Ok(guard),
            // On the heap: waiters without an owner do not need this memory.
            Self::Queue(permit) => Ok(permit.record(Box::pin(queue()).await?)),
        }
    }

    /// As [`or_queue`](Self::or_queue), with an attempt.
    pub(crate) async fn or_try<F>(
        self,
        attempt: impl FnOnce() -> F,
    ) -> Result<Option<Guard>, LockError>
    where
        F: Future<Output = Result<Option<Guard>, LockError>>,
    {
        match self {
            Self::Held(guard) => Ok(Some(guard)),
            Self::Queue(permit) => Ok(Box::pin(attempt()).await?.map(|guard| permit.record(guard))),
        }
    }
}

impl ReentryPermit {
    /// Records a new hold as the owner's.
    pub(crate) fn record(self, guard: Guard) -> Guard {
        let mut holds = self.slot.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds[self.side as usize] = Some((Arc::downgrade(guard.hold()), guard.own_token()));
        drop(holds);
        guard
    }

    /// Returns the owner's hold of the write side, beside which it may read, and its token.
    pub(crate) fn writer(&self) -> Option<(Arc<Hold>, FencingToken)> {
        self.slot.hold(Side::Exclusive)
    }
}

impl Side {
    fn of(spec: &QueueSpec) -> Self {
        match spec.admission {
            Admission::Behind(_) => Self::Shared,
            Admission::FirstInFinalOrder | Admission::First | Admission::Counted => Self::Exclusive,
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slots = self.lock().clone();
        slots.retain(|slot| slot.is_held());
        let paths: Vec<&str> = slots.iter().map(|slot| slot.path.as_str()).collect();
        f.debug_struct("Owner").field("paths", &paths).finish()
    }
}

#[cfg(test)]
mod tests {
    use zk_session::Config;
    use zk_testing::TestServer;

    use super::*;

    async fn client(server: &TestServer) -> Client {
        let config = Config::new("server:1").unwrap().seed(1).connector(server.clone());
        config.connect().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn slot_of_an_owner_keeps_no_session_open() {
        let client = client(&TestServer::in_memory()).await;
        let (owner, weak) = (Owner::new(), client.weak());
        let slot = owner.slot(&Queue::new(&client, QueueSpec::mutex("/lock".to_owned())));
        drop(client);
        weak.wait_for_end().await; // the slot is no handle that keeps the session open
        drop(slot);
    }

    #[tokio::test(start_paused = true)]
    async fn owner_has_one_slot_for_each_path_session_and_rule() {
        let server = TestServer::in_memory();
        let (one, other) = (client(&server).await, client(&server).await);
        let specs = [QueueSpec::mutex, QueueSpec::writer, QueueSpec::permit];
        let owner = Owner::new();
        let slots = || {
            let mut slots = Vec::new();
            for client in [&one, &other] {
                for path in ["/a", "/b"] {
                    let queues = specs.map(|spec| Queue::new(client, spec(path.to_owned())));
                    slots.extend(queues.iter().map(|queue| owner.slot(queue)));
                }
            }
            slots
        };
        let (first, again) = (slots(), slots());
        for (at, slot) in first.iter().enumerate() {
            let same = again.iter().position(|known| Arc::ptr_eq(known, slot));
            assert_eq!(same, Some(at), "{}", slot.path);
        }
        drop((first, again));
        let _last = owner.slot(&Queue::new(&one, QueueSpec::mutex("/c".to_owned())));
        assert_eq!(owner.lock().len(), 1);
    }

    /// Between two guards of a hold, a look at it is no third one.
    #[tokio::test(start_paused = true)]
    async fn hold_that_is_looked_at_has_no_further_guard() {
        let client = client(&TestServer::in_memory()).await;
        let queue = Queue::new(&client, QueueSpec::writer("/lock".to_owned()));
        let guard = Guard::acquire(&queue).await.unwrap();
        let looked_at = guard.hold().clone();
        let token = guard.own_token();
        assert_eq!(looked_at.held(token), Some(Ok(())));
        let last = guard.into_last().unwrap();
        assert!(looked_at.share(token).is_none() && looked_at.held(token).is_none());
        assert!(looked_at.prepare_beside(token).is_none(), "its release may have a mark");
        drop(last);
        assert!(looked_at.is_released());
    }
}
