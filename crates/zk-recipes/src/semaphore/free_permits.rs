//! What one acquisition tells the next one about free permits.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::limits::EARLY_TURNS;

/// Tells whether a free permit is likely in a turn. All clones of a handle share it.
///
/// Whoever expects a free permit ends its turn in the write that creates its lease, so the next one in the
/// queue need not wait for the reply. If no permit was free, it waits with its lease and without the turn.
/// That happens rarely: the next acquisition of this handle expects none, and [`EARLY_TURNS`] bounds how
/// many others still do.
#[derive(Debug)]
pub(super) struct FreePermits {
    /// The number of the last turn, if it found a free permit; otherwise -1.
    found_in: AtomicI64,
}

impl FreePermits {
    pub(super) fn unknown() -> Self {
        Self { found_in: AtomicI64::new(-1) }
    }

    /// Returns true if a free permit is likely in the turn with this number.
    pub(super) fn are_likely(&self, turn: i64) -> bool {
        let found_in = self.found_in.load(Ordering::Relaxed);
        found_in >= 0 && (0..=EARLY_TURNS).contains(&(turn - found_in))
    }

    /// Records whether there was a free permit in this turn.
    pub(super) fn found(&self, turn: i64, is_free: bool) {
        self.found_in.store(if is_free { turn } else { -1 }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_permit_is_likely_for_a_number_of_turns() {
        let free = FreePermits::unknown();
        assert!(!free.are_likely(0));
        free.found(7, true);
        assert!(free.are_likely(7) && free.are_likely(7 + EARLY_TURNS));
        assert!(!free.are_likely(8 + EARLY_TURNS));
        assert!(!free.are_likely(6), "the numbers have begun again");
        free.found(8, false);
        assert!(!free.are_likely(9));
    }
}
