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

    /// Records a turn that has found a free permit.
    pub(super) fn found(&mut self) {
        self.in_a_row += 1;
        if self.in_a_row >= 2 * self.needed {
            self.needed = (self.needed / 2).max(1);
            self.in_a_row = self.needed;
        }
    }

    /// Records a turn that has not ended early, and waits for a permit.
    pub(super) fn waited(&mut self) {
        self.in_a_row = 0;
    }

    /// Records a turn that has ended early, and has found no free permit.
    pub(super) fn missed(&mut self) {
        self.needed = (self.needed * FREE_TURNS_FACTOR).min(FREE_TURNS_MAX);
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many turns in a row must find a permit before the next one ends early.
    fn needed(turns: &mut FreeTurns) -> u32 {
        turns.waited();
        (0..)
            .find(|_| {
                turns.expect_a_permit() || {
                    turns.found();
                    false
                }
            })
            .unwrap()
    }

    #[test]
    fn early_end_needs_more_free_turns_after_each_miss() {
        let mut turns = FreeTurns::default();
        assert_eq!(needed(&mut turns), 1);
        for expected in [8, 64, 64] {
            turns.missed();
            assert_eq!(needed(&mut turns), expected);
        }
        for expected in [32, 16, 8, 4, 2, 1, 1] {
            (0..needed(&mut turns)).for_each(|_| turns.found());
            assert_eq!(needed(&mut turns), expected);
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
                match (rng.below(100) < percent, turns.expect_a_permit()) {
                    (true, _) => turns.found(),
                    (false, false) => turns.waited(),
                    (false, true) => {
                        turns.missed();
                        misses += 1;
                    }
                }
            }
            assert!(misses <= 200, "{percent} %: {misses}");
        }
    }
}
