//! On whose behalf locks are taken, for those who take one that they hold already.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::{Either, select};
use tokio::sync::OwnedMutexGuard;
use zk_session::{Client, Error};

use crate::error::LockError;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::queue::admission::Admission;
use crate::queue::kind::Kind;

/// One who may enter a lock again that it holds already: with Curator a thread, here
/// whatever says so, a task, a request, a job. Clones are the same owner.
///
/// [`Mutex::owned_by`](crate::Mutex::owned_by) and
/// [`RwLock::owned_by`](crate::RwLock::owned_by) give handles that lock on its behalf.
/// What it holds it is given again without a single request, through any handle of the
/// same lock and the same session; the lock is given up with the last of the guards.
///
/// # What it promises
/// * A hold is bound to its session and to its node. An owner whose hold is lost, by the
///   clock or for certain, is not let in again on the strength of it: that ends in
///   [`LockError::Lost`] for as long as it has guards of that hold, and once they are
///   gone it queues like everybody else.
/// * It waits in a queue **once**. When it asks for a lock in several tasks, they come one
///   after the other: while one is in the queue the others wait for what becomes of it,
///   then share what it got, or else queue in their turn. `try_acquire` does not wait for
///   that: it finds the lock taken.
/// * An owner that reads and wants to write would wait for itself:
///   [`LockError::WouldDeadlock`], at once. One that writes may read as well.
///
/// An owner says who shares a lock, and not who may do what at the same time: two tasks
/// with guards of one hold are not kept from each other.
///
/// # What it costs
/// Entering again, and giving up any guard but the last: no request. Everything else is
/// what it is without an owner. An owner is a map of what it holds at the moment.
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
/// let stock = Mutex::new(&client, "/locks/stock")?.owned_by(&Owner::new());
/// let guard = stock.acquire().await?;
/// book(&stock).await?; // asks no server
/// book(&stock).await?;
/// guard.release().await?; // the lock is free
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Owner {
    slots: Arc<Slots>,
}

impl Owner {
    /// An owner like no other.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the owner's holds of a lock are found.
    pub(crate) fn slot(&self, client: &Client, kind: &Arc<Kind>) -> Arc<Slot> {
        // Dropped when the map is free again, which the end of a slot asks for.
        let mut known: Vec<Arc<Slot>> = Vec::new();
        let path = client.full_path(&kind.path);
        let mut slots = self.slots.lock();
        let there = slots.entry(path.clone()).or_default();
        known.extend(there.iter().filter_map(Weak::upgrade));
        if let Some(slot) = known.iter().find(|slot| slot.is_of(client, kind)) {
            return slot.clone();
        }
        let slot = Arc::new(Slot {
            client: client.clone(),
            path,
            kind: kind.clone(),
            entrance: Arc::default(),
            holds: Mutex::default(),
            slots: Arc::downgrade(&self.slots),
        });
        there.push(Arc::downgrade(&slot));
        slot
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.slots.lock().keys().cloned().collect();
        f.debug_struct("Owner").field("paths", &paths).finish()
    }
}

/// What an owner has to do with, by path. There are several to a path where sessions of
/// different ensembles are, or locks of different kinds.
#[derive(Default)]
struct Slots(Mutex<HashMap<String, Vec<Weak<Slot>>>>);

impl Slots {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<Slot>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One owner at one lock: there for as long as it holds something, or asks for it.
pub(crate) struct Slot {
    client: Client,
    /// From the root of the ensemble.
    path: String,
    kind: Arc<Kind>,
    /// Whoever wants in and cannot enter again comes through here, one at a time.
    entrance: Arc<tokio::sync::Mutex<()>>,
    holds: Mutex<Holds>,
    slots: Weak<Slots>,
}

/// Weak, so that a hold ends with its last guard.
#[derive(Default)]
struct Holds {
    exclusive: Weak<Hold>,
    shared: Weak<Hold>,
}

impl Holds {
    fn of(&self, side: Side) -> &Weak<Hold> {
        match side {
            Side::Exclusive => &self.exclusive,
            Side::Shared => &self.shared,
        }
    }
}

/// What is held: alone, or with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A mutex, or the write side.
    Exclusive,
    /// The read side.
    Shared,
}

impl Side {
    pub(crate) fn of(admission: Admission) -> Self {
        match admission {
            Admission::Behind(_) => Self::Shared,
            Admission::FirstForGood | Admission::First | Admission::Counted => Self::Exclusive,
        }
    }
}

/// How an owner gets what it wants.
pub(crate) enum Way {
    /// It has it.
    Held(Guard),
    /// It writes, and reads from beside that.
    Beside(Guard, Entrance),
    /// It queues.
    Queue(Entrance),
}

/// Kept by the one who asks on the owner's behalf.
#[derive(Debug)]
pub(crate) struct Entrance {
    slot: Arc<Slot>,
    _only_one: OwnedMutexGuard<()>,
}

impl Slot {
    /// Waits until nobody else asks for the lock on the owner's behalf, unless it is held.
    pub(crate) async fn way_in(self: Arc<Self>, side: Side) -> Result<Way, LockError> {
        match self.enter_again(side)? {
            Some(guard) => Ok(Way::Held(guard)),
            None => self.entrance().await?.way_in(side),
        }
    }

    /// As [`way_in`](Self::way_in), except that it does not wait.
    pub(crate) fn try_way_in(self: Arc<Self>, side: Side) -> Result<Option<Way>, LockError> {
        if let Some(guard) = self.enter_again(side)? {
            return Ok(Some(Way::Held(guard)));
        }
        match self.entrance.clone().try_lock_owned() {
            Ok(only_one) => Entrance { slot: self, _only_one: only_one }.way_in(side).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Waits until nobody else asks for the lock on the owner's behalf, or its session ends:
    /// whoever asks may be a [`Waiting`](crate::Waiting) that nobody awaits.
    pub(crate) async fn entrance(self: Arc<Self>) -> Result<Entrance, LockError> {
        let only_one = match self.entrance.clone().try_lock_owned() {
            Ok(only_one) => only_one,
            Err(_) => {
                // On the heap: those who queue have no use for the room.
                let free = pin!(self.entrance.clone().lock_owned());
                match select(free, Box::pin(end_of(&self.client))).await {
                    Either::Left((only_one, _)) => only_one,
                    Either::Right((error, _)) => return Err(error.into()),
                }
            }
        };
        Ok(Entrance { slot: self, _only_one: only_one })
    }

    /// Another guard of what the owner holds, if it does.
    ///
    /// A hold that is found here has a guard at this very moment, or it could not be had,
    /// and the new one keeps it from being given up. One that is lost is in the way for as
    /// long as it has guards, because its node may be.
    pub(crate) fn enter_again(&self, side: Side) -> Result<Option<Guard>, LockError> {
        let holds = self.holds();
        let found = holds.of(side).upgrade();
        let reads = holds.shared.strong_count() > 0;
        drop(holds);
        match found {
            Some(hold) => hold.token().map(|_| Some(Guard::new(hold))),
            None if side == Side::Exclusive && reads => {
                Err(LockError::WouldDeadlock { path: self.path.clone() })
            }
            None => Ok(None),
        }
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of(&self, client: &Client, kind: &Kind) -> bool {
        self.client.is_same_session(client) && self.kind.rule() == kind.rule()
    }
}

impl Entrance {
    fn way_in(self, side: Side) -> Result<Way, LockError> {
        if let Some(guard) = self.slot.enter_again(side)? {
            return Ok(Way::Held(guard));
        }
        let writer = self.slot.holds().exclusive.upgrade();
        Ok(match writer {
            Some(writer) => Way::Beside(Guard::new(writer), self),
            None => Way::Queue(self),
        })
    }

    /// The owner holds it from now on.
    pub(crate) fn admit(self, side: Side, hold: Hold) -> Guard {
        let hold = Arc::new(hold.in_slot(self.slot.clone()));
        let mut holds = self.slot.holds();
        match side {
            Side::Exclusive => holds.exclusive = Arc::downgrade(&hold),
            Side::Shared => holds.shared = Arc::downgrade(&hold),
        }
        drop(holds);
        Guard::new(hold)
    }

    pub(crate) fn enter_again(&self, side: Side) -> Result<Option<Guard>, LockError> {
        self.slot.enter_again(side)
    }
}

/// A guard for whoever has got in, on behalf of an owner or not.
pub(crate) fn admit(entrance: Option<Entrance>, side: Side, hold: Hold) -> Guard {
    match entrance {
        Some(entrance) => entrance.admit(side, hold),
        None => Guard::new(Arc::new(hold)),
    }
}

/// Waits for the end of the session, which is what every request fails with from then on.
async fn end_of(client: &Client) -> Error {
    let mut events = client.events();
    loop {
        while client.ended().is_none() && events.next().await.is_some() {}
        if let Err(error) = client.claim_lease().renew().await {
            return error;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(slots) = self.slots.upgrade() else { return };
        let mut slots = slots.lock();
        if let Some(there) = slots.get_mut(&self.path) {
            there.retain(|slot| slot.strong_count() > 0);
            if there.is_empty() {
                slots.remove(&self.path);
            }
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("path", &self.path).finish_non_exhaustive()
    }
}
