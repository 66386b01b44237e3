//! Parts of a duration.

use std::time::Duration;

/// Part of a session timeout, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    numerator: u32,
    denominator: u32,
}

impl Part {
    pub(crate) const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator }
    }

    /// Returns this part of a duration.
    #[inline]
    pub(crate) fn of(self, duration: Duration) -> Duration {
        duration * self.numerator / self.denominator
    }
}
