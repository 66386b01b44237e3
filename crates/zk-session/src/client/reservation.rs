//! Names that one user of a manager of sessions has at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// A name that no other user of the same manager has; see
/// [`SessionManager::reserve`](super::SessionManager::reserve).
///
/// Dropping the reservation passes the name on to the user who has waited longest.
#[must_use = "dropping the reservation passes the name on"]
pub struct Reservation {
    // Dropped before `place`, which forgets a name without turns.
    _turn: OwnedMutexGuard<()>,
    place: Place,
}

impl Reservation {
    /// Returns the reserved name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.place.name
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.name()).finish()
    }
}

/// All names that are reserved or waited for. Each user of a name has its turn.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    turns: Mutex<HashMap<String, Weak<Turn<()>>>>,
}

impl Reservations {
    /// Waits for the turn of a new user of the name.
    pub(super) async fn reserve(self: Arc<Self>, name: String) -> Reservation {
        let turn = {
            let mut turns = self.lock();
            let turn = turns.get(&name).and_then(Weak::upgrade).unwrap_or_default();
            turns.insert(name.clone(), Arc::downgrade(&turn));
            turn
        };
        let place = Place { all: self, name };
        Reservation { _turn: turn.lock_owned().await, place }
    }

    /// Held only briefly, never across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Turn<()>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A user of a name: one that has it, or one that waits.
struct Place {
    all: Arc<Reservations>,
    name: String,
}

impl Drop for Place {
    /// Forgets a name without users.
    fn drop(&mut self) {
        let mut turns = self.all.lock();
        if turns.get(&self.name).is_some_and(|turn| turn.strong_count() == 0) {
            turns.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn reserve(all: &Arc<Reservations>, name: &str) -> impl Future<Output = Reservation> + use<> {
        Box::pin(Arc::clone(all).reserve(name.to_owned()))
    }

    #[test]
    fn reserved_name_passes_on_in_the_order_of_waits() {
        let all = Arc::new(Reservations::default());
        let first = reserve(&all, "a").now_or_never().unwrap();
        assert!(reserve(&all, "b").now_or_never().is_some(), "another name");
        let (mut second, mut third) = (reserve(&all, "a"), reserve(&all, "a"));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        let second = second.now_or_never().unwrap();
        assert_eq!(second.name(), "a");
        drop(second);
        drop(third.now_or_never().unwrap());
        assert!(all.lock().is_empty(), "names without users are forgotten");
    }

    #[test]
    fn dropped_wait_leaves_the_line() {
        let all = Arc::new(Reservations::default());
        let first = reserve(&all, "a").now_or_never().unwrap();
        let mut second = reserve(&all, "a");
        assert!((&mut second).now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(all.lock().is_empty());
        assert!(reserve(&all, "a").now_or_never().is_some());
    }
}
