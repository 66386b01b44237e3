//! Whether the next turn of a handle is expected to find a free permit.

use crate::limits::{FREE_TURNS_FACTOR, FREE_TURNS_MAX};

/// What the turns of a handle and its clones have found.
///
/// A turn that ends early and finds no permit costs its caller the place in the queue. So after each such
/// turn, several times as many turns in a row must find a permit before the next one ends early. When twice
/// that many have, half as many are enough; and then, when as many more have, half of those.
#[derive(Debug)]
pub(super) struct FreeTurns {
    in_a_row: u32,
    needed: u32,
}

impl Default for FreeTurns {
    fn default() -> Self {
        Self { in_a_row: 0, needed: 1 }
    }
}

impl FreeTurns {
    /// Returns true if the next turn may end early.
    pub(super) fn expect_a_permit(&self) -> bool {
        self.in_a_row >= self.needed
    }

    /// Records whether a turn has found a free permit.
    pub(super) fn record(&mut self, found: bool) {
        if found {
            self.in_a_row += 1;
            if self.in_a_row >= 2 * self.needed {
                self.needed = (self.needed / 2).max(1);
                self.in_a_row = self.needed;
            }
            return;
        }
        // Of several clones that have ended their turns early at once, the first counts for all.
        if self.expect_a_permit() {
            self.needed = (self.needed * FREE_TURNS_FACTOR).min(FREE_TURNS_MAX);
        }
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records free turns until the next turn may end early, and returns how many that took.
    fn needed(turns: &mut FreeTurns) -> u32 {
        let mut free = 0;
        while !turns.expect_a_permit() {
            turns.record(true);
            free += 1;
        }
        free
    }

    #[test]
    fn early_end_needs_more_free_turns_after_each_miss() {
        let mut turns = FreeTurns::default();
        for (expected, others) in [(1, 0), (8, 7), (64, 63), (64, 1)] {
            // These turns have not ended early.
            (0..others).for_each(|_| turns.record(true));
            turns.record(false);
            assert_eq!(needed(&mut turns), expected);
            turns.record(false); // this one has
        }
    }

    #[test]
    fn free_turns_after_a_miss_make_the_next_miss_cheaper() {
        let mut turns = FreeTurns { in_a_row: 0, needed: 64 };
        for (free, left) in [(127, 64), (1, 32), (31, 32), (1, 16), (16, 8), (8, 4), (4, 2), (9, 1)]
        {
            (0..free).for_each(|_| turns.record(true));
            assert_eq!(turns.needed, left);
        }
    }

    /// With every second permit free at random, a rule without memory of misses would lose one place in four
    /// turns.
    #[test]
    fn misses_are_rare_whatever_the_chance_of_a_permit() {
        for percent in [10, 30, 50, 70, 80, 90, 95, 98] {
            let mut rng = zk_testing::Rng::new(percent);
            let (mut turns, mut misses) = (FreeTurns::default(), 0);
            for _ in 0..10_000 {
                let found = rng.below(100) < percent;
                misses += u32::from(!found && turns.expect_a_permit());
                turns.record(found);
            }
            assert!(misses <= 200, "{percent} %: {misses}");
        }
    }
}
