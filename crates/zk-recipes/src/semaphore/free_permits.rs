//! What one acquisition tells the next one about free permits.

use std::sync::{Mutex, PoisonError};

use crate::limits::EARLY_TURNS;
use crate::queue::waiter::Place;

/// Tells whether a free permit is likely in a turn. All clones of a handle share it.
///
/// Whoever expects a free permit ends its turn in the write that creates its lease, so the next one in the
/// queue need not wait for the reply. If no permit was free, it deletes its lease and queues again. It must
/// not wait with its lease: a Curator client with the turn waits until the leases are few enough, also
/// those behind its own.
#[derive(Debug, Default)]
pub(super) struct FreePermits {
    /// The last turn, if it found a free permit.
    found_in: Mutex<Option<Place>>,
}

impl FreePermits {
    /// Returns true if a free permit is likely in this turn.
    pub(super) fn are_likely(&self, turn: Option<Place>) -> bool {
        let found_in = *self.found_in.lock().unwrap_or_else(PoisonError::into_inner);
        turn.zip(found_in).is_some_and(|(turn, found_in)| {
            let turns_since = turn.number.checked_sub(found_in.number);
            turn.parent == found_in.parent
                && turns_since.is_some_and(|turns| (1..=EARLY_TURNS).contains(&turns))
        })
    }

    /// Records the last turn, if it found a free permit.
    pub(super) fn found_in(&self, turn: Option<Place>) {
        *self.found_in.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }
}

#[cfg(test)]
mod tests {
    use zk_session::Zxid;

    use super::*;

    #[test]
    fn free_permit_is_likely_for_a_number_of_turns() {
        let turn = |number| Some(Place { parent: Zxid(5), number });
        let free = FreePermits::default();
        assert!(!free.are_likely(turn(0)) && !free.are_likely(None));
        free.found_in(turn(7));
        assert!(free.are_likely(turn(8)) && free.are_likely(turn(7 + EARLY_TURNS)));
        assert!(!free.are_likely(turn(8 + EARLY_TURNS)) && !free.are_likely(turn(6)));
        let of_another_queue = Some(Place { parent: Zxid(6), number: 8 });
        assert!(!free.are_likely(of_another_queue), "the numbers have begun again");
        free.found_in(None);
        assert!(!free.are_likely(turn(8)));
    }
}
