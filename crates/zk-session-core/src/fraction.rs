//! Fractions of a duration.

use std::time::Duration;

/// Fraction of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u32,
    denominator: u32,
}

impl Fraction {
    /// Creates the fraction `numerator / denominator`. The denominator must not be 0.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator }
    }

    /// Returns this fraction of a duration.
    #[inline]
    #[must_use]
    pub fn of(self, duration: Duration) -> Duration {
        duration * self.numerator / self.denominator
    }
}
