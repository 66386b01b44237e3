//! Parts of a duration.

use std::time::Duration;

/// Part of a duration, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    numerator: u32,
    denominator: u32,
}

impl Part {
    /// Creates the part `numerator / denominator`. The denominator must not be 0.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator }
    }

    /// Returns this part of a duration.
    #[inline]
    #[must_use]
    pub fn of(self, duration: Duration) -> Duration {
        duration * self.numerator / self.denominator
    }
}
