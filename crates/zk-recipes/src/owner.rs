//! Re-entrant locking: owners, and the locks that they hold.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;
use zk_session::Client;

use crate::downgrade::HeldWriter;
use crate::error::LockError;
use crate::holding::Holding;
use crate::or_session_end::or_session_end;
use crate::queue::admission::Admission;
use crate::queue::spec::QueueSpec;

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
/// that it holds or waits for.
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
    /// The locks that it holds or acquires. The next acquisition removes the released ones from the
    /// list.
    slots: Arc<Mutex<Vec<Weak<ReentrySlot>>>>,
}

impl Owner {
    /// Creates an owner that is distinct from all others.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the entry of the owner for a lock.
    fn slot(&self, client: &Client, spec: &Arc<QueueSpec>) -> Arc<ReentrySlot> {
        let path = client.full_path(&spec.path);
        let mut slots = self.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        let mut living = slots.iter().filter_map(Weak::upgrade);
        if let Some(slot) = living.find(|slot| slot.is_of(client, &path, spec)) {
            return slot;
        }
        let slot = Arc::new(ReentrySlot::new(client, path, spec));
        slots.push(Arc::downgrade(&slot));
        slot
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<ReentrySlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let living: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        let paths: Vec<&str> = living.iter().map(|slot| slot.path.as_str()).collect();
        f.debug_struct("Owner").field("paths", &paths).finish()
    }
}

/// State of one owner at one lock. It exists while the owner holds the lock or acquires it.
struct ReentrySlot {
    /// A weak handle. With a strong one, the last reference to a slot could close a session, and the
    /// drop of the last client may wait for the server.
    client: Client,
    /// Path from the root of the ensemble.
    path: String,
    spec: Arc<QueueSpec>,
    /// Held by the one acquisition in progress, unless it re-enters a hold.
    entry: Arc<tokio::sync::Mutex<()>>,
    /// The holds of the owner, one for each [`Side`]. The references are weak, so that a hold ends
    /// with its last guard.
    holds: Mutex<[Weak<Holding>; 2]>,
}

/// How a lock is held: by one holder, or shared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// A mutex, or the write side.
    Exclusive,
    /// The read side.
    Shared,
}

impl Side {
    fn of(spec: &QueueSpec) -> Self {
        match spec.admission {
            Admission::Behind(_) => Self::Shared,
            Admission::FirstInFinalOrder | Admission::First | Admission::Counted => Self::Exclusive,
        }
    }
}

/// A hold that the guards of one owner share.
#[derive(Debug)]
pub(crate) struct SharedHolding {
    hold: Arc<Holding>,
    /// The owner's entry for this lock, if it has an owner. The guards keep it alive.
    slot: Option<Arc<ReentrySlot>>,
}

/// The way in which a lock is acquired.
pub(crate) enum Entry {
    /// The owner already holds the lock.
    Held(SharedHolding),
    /// The owner holds the write lock and acquires the read lock beside it.
    Beside(HeldWriter, ReentryPermit),
    /// The acquisition queues, for an owner if it has a permit.
    Queue(Option<ReentryPermit>),
}

/// Permission to acquire the lock for the owner; only one exists at a time.
#[derive(Debug)]
pub(crate) struct ReentryPermit {
    slot: Arc<ReentrySlot>,
    _only_one: OwnedMutexGuard<()>,
}

/// Re-enters the lock if the owner holds it. Otherwise waits until no other task acquires the lock
/// for this owner.
pub(crate) async fn enter(
    owner: Option<&Owner>,
    client: &Client,
    spec: &Arc<QueueSpec>,
) -> Result<Entry, LockError> {
    match owner {
        Some(owner) => owner.slot(client, spec).enter(Side::of(spec)).await,
        None => Ok(Entry::Queue(None)),
    }
}

/// As [`enter`], without waiting: returns `None` if another task acquires the lock for this owner.
pub(crate) fn try_enter(
    owner: Option<&Owner>,
    client: &Client,
    spec: &Arc<QueueSpec>,
) -> Result<Option<Entry>, LockError> {
    let Some(owner) = owner else { return Ok(Some(Entry::Queue(None))) };
    let (slot, side) = (owner.slot(client, spec), Side::of(spec));
    if let Some(hold) = slot.reenter(side)? {
        return Ok(Some(Entry::Held(hold)));
    }
    match slot.entry.clone().try_lock_owned() {
        Ok(only_one) => ReentryPermit { slot, _only_one: only_one }.enter(side).map(Some),
        Err(_) => Ok(None),
    }
}

impl ReentrySlot {
    fn new(client: &Client, path: String, spec: &Arc<QueueSpec>) -> Self {
        let (client, spec) = (client.weak(), spec.clone());
        Self { client, path, spec, entry: Arc::default(), holds: Mutex::default() }
    }

    fn is_of(&self, client: &Client, path: &str, spec: &QueueSpec) -> bool {
        self.path == path && self.client.is_same_session(client) && self.spec.rule() == spec.rule()
    }

    async fn enter(self: Arc<Self>, side: Side) -> Result<Entry, LockError> {
        match self.reenter(side)? {
            Some(hold) => Ok(Entry::Held(hold)),
            None => self.permit().await?.enter(side),
        }
    }

    /// Waits until no other task acquires the lock for this owner, or until the session ends. The
    /// other acquisition may be a [`Ticket`](crate::Ticket) that no task awaits.
    async fn permit(self: Arc<Self>) -> Result<ReentryPermit, LockError> {
        let only_one = or_session_end(&self.client, self.entry.clone().lock_owned()).await?;
        Ok(ReentryPermit { slot: self, _only_one: only_one })
    }

    /// Returns the hold of the owner, if it has one.
    ///
    /// A hold that is found here still has a guard; the weak reference would be dead otherwise. The
    /// new reference keeps the hold from being released. A lost hold blocks the owner while it has
    /// guards, because its node may still exist.
    fn reenter(self: &Arc<Self>, side: Side) -> Result<Option<SharedHolding>, LockError> {
        if self.look(side, Holding::token).transpose()?.is_some() {
            let hold = self.holds()[side as usize].upgrade();
            if let Some(hold) = hold {
                return Ok(Some(SharedHolding { hold, slot: Some(self.clone()) }));
            }
        }
        match side {
            Side::Exclusive if self.look(Side::Shared, Holding::token).transpose()?.is_some() => {
                Err(LockError::WouldDeadlock { path: self.path.clone() })
            }
            Side::Exclusive | Side::Shared => Ok(None),
        }
    }

    /// Calls `see` with the hold of a side, if there is one. This does not keep a guard from being the
    /// last one of its hold; see [`SharedHolding::into_last`].
    fn look<T>(&self, side: Side, see: impl FnOnce(&Holding) -> T) -> Option<T> {
        let holds = self.holds();
        let hold = holds[side as usize].upgrade()?;
        let seen = see(&hold);
        // If the last guard was dropped meanwhile, this ends the hold, outside the mutex.
        let last = Arc::into_inner(hold);
        drop(holds);
        drop(last);
        Some(seen)
    }

    fn holds(&self) -> MutexGuard<'_, [Weak<Holding>; 2]> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReentryPermit {
    fn enter(self, side: Side) -> Result<Entry, LockError> {
        if let Some(hold) = self.slot.reenter(side)? {
            return Ok(Entry::Held(hold));
        }
        Ok(match self.slot.look(Side::Exclusive, HeldWriter::of).transpose()? {
            Some(writer) => Entry::Beside(writer, self),
            None => Entry::Queue(Some(self)),
        })
    }
}

impl SharedHolding {
    /// Records a new hold as the owner's, if there is an owner.
    pub(crate) fn new(hold: Holding, permit: Option<ReentryPermit>) -> Self {
        let side = Side::of(&hold.spec);
        let (hold, slot) = (Arc::new(hold), permit.as_ref().map(|permit| permit.slot.clone()));
        if let Some(slot) = &slot {
            slot.holds()[side as usize] = Arc::downgrade(&hold);
        }
        Self { hold, slot }
    }

    /// Returns the way in which the read side is acquired beside this hold of the write side.
    pub(crate) async fn enter_read(&self) -> Result<Entry, LockError> {
        match &self.slot {
            Some(slot) => slot.clone().enter(Side::Shared).await,
            None => Ok(Entry::Queue(None)),
        }
    }

    /// Returns the hold if no other guard shares it. If several tasks release the last guards at the
    /// same time, exactly one of them gets it.
    pub(crate) fn into_last(self) -> Option<Holding> {
        let Self { hold, slot } = self;
        let _no_looks = slot.as_ref().map(|slot| slot.holds());
        Arc::into_inner(hold)
    }

    /// Returns the hold if no other guard shares it.
    ///
    /// # Errors
    /// Returns this value if other guards share the hold.
    pub(crate) fn try_into_last(self) -> Result<Holding, Self> {
        let Self { hold, slot } = self;
        let no_looks = slot.as_ref().map(|slot| slot.holds());
        let last = Arc::try_unwrap(hold);
        drop(no_looks);
        last.map_err(|hold| Self { hold, slot })
    }
}

impl Deref for SharedHolding {
    type Target = Holding;

    fn deref(&self) -> &Holding {
        &self.hold
    }
}

impl fmt::Debug for ReentrySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrySlot").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use zk_session::Config;
    use zk_testing::TestServer;

    use super::*;
    use crate::lock_handle::LockHandle;

    #[tokio::test(start_paused = true)]
    async fn slot_of_an_owner_keeps_no_session_open() {
        let server = TestServer::in_memory();
        let config = Config::new("server:1").unwrap().seed(1);
        let client = config.connector(server).connect().await.unwrap();
        let (owner, weak) = (Owner::new(), client.weak());
        let slot = owner.slot(&client, &Arc::new(QueueSpec::mutex("/lock".to_owned())));
        drop(client);
        weak.wait_for_end().await; // the slot is no handle that keeps the session open
        drop(slot);
    }

    #[tokio::test(start_paused = true)]
    async fn owner_has_one_slot_for_each_path_session_and_rule() {
        let server = TestServer::in_memory();
        let config = Config::new("server:1").unwrap().seed(1).connector(server);
        let one = config.clone().connect().await.unwrap();
        let other = config.connect().await.unwrap();
        let specs = [QueueSpec::mutex, QueueSpec::writer, QueueSpec::permit];
        let owner = Owner::new();
        let slots = || {
            let mut slots = Vec::new();
            for client in [&one, &other] {
                for path in ["/a", "/b"] {
                    let specs = specs.map(|spec| Arc::new(spec(path.to_owned())));
                    slots.extend(specs.iter().map(|spec| owner.slot(client, spec)));
                }
            }
            slots
        };
        let (first, again) = (slots(), slots());
        for (at, slot) in first.iter().enumerate() {
            let same = again.iter().position(|known| Arc::ptr_eq(known, slot));
            assert_eq!(same, Some(at), "{slot:?}");
            assert_eq!(Arc::strong_count(slot), 2, "a search leaves no reference");
        }
        drop((first, again));
        let _last = owner.slot(&one, &Arc::new(QueueSpec::mutex("/c".to_owned())));
        assert_eq!(owner.lock().len(), 1);
    }

    /// A look at a hold takes a reference for a moment, and is no guard.
    #[tokio::test(start_paused = true)]
    async fn guard_given_up_during_a_look_is_the_last() {
        let config = Config::new("server:1").unwrap().seed(1);
        let client = config.connector(TestServer::in_memory()).connect().await.unwrap();
        let lock = LockHandle::new(&client, QueueSpec::writer("/lock".to_owned()));
        let lock = lock.with_owner(&Owner::new());
        let hold = lock.acquire().await.unwrap().into_hold();
        let slot = hold.slot.clone().unwrap();
        let last = thread::scope(|scope| {
            let giving_up = slot.look(Side::Exclusive, |_| {
                let giving_up = scope.spawn(|| hold.into_last());
                (0..1_000).for_each(|_| thread::yield_now());
                giving_up
            });
            giving_up.unwrap().join().unwrap()
        });
        assert!(last.is_some());
    }
}
