//! Random numbers that a seed determines: `SplitMix64`.

use std::time::Duration;

/// A random number generator. A fork is independent of later draws from its parent.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Draws the seed of another generator.
    pub fn fork(&mut self) -> Self {
        Self::new(self.draw())
    }

    /// Draws a number of 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `bound`. A bound of 0 counts as 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// Draws a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Draws an index into a list of this length.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).unwrap_or(1);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    /// Draws an element of a list, which must not be empty.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())]
    }

    /// Draws a number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        let bits = u32::try_from(self.draw() >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Draws a duration of whole milliseconds, uniformly up to `longest`.
    pub fn millis(&mut self, longest: Duration) -> Duration {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.below(longest.saturating_add(1)))
    }

    /// Draws a duration with an exponential distribution, cut off at eight times its mean.
    pub fn around(&mut self, mean: Duration) -> Duration {
        let factor = -(1.0 - self.unit()).ln();
        mean.mul_f64(factor.clamp(0.0, 8.0))
    }
}
