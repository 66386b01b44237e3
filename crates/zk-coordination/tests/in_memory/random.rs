//! Pseudo-random numbers for tests.

use std::time::Duration;

/// Pseudo-random numbers that repeat with the same seed (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number of at least 0 and less than `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(end)).expect("it is less than one")
    }

    /// Returns a duration of at least 0 and less than `end` milliseconds.
    pub(crate) fn ms(&mut self, end: u32) -> Duration {
        Duration::from_millis(self.below(end).into())
    }

    /// Returns a random element, or `None` if the slice is empty.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let end = u32::try_from(from.len()).expect("they are few");
        from.get(self.below(end.max(1)) as usize)
    }
}
