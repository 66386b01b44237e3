//! Time of a wait behind one contender.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::now;

/// The time until a wait counts as long. It is no timer: a timer belongs to a runtime, and the next
/// step may run on another one.
#[derive(Clone, Copy, Debug)]
pub(super) enum LongWait {
    NotBegun,
    Until(Instant),
    /// The nearest contender has been checked.
    Over,
}

impl LongWait {
    /// Begins the wait if necessary, and returns the rest of it; `None` once it is over.
    pub(super) fn rest(&mut self, time: Duration) -> Option<Duration> {
        let now = now();
        if let Self::NotBegun = self {
            *self = Self::Until(now + time);
        }
        match self {
            Self::Until(end) => Some(end.saturating_duration_since(now)),
            Self::NotBegun | Self::Over => None,
        }
    }
}
