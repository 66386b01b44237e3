//! Clocks of the servers, derived from the instants passed in.

use std::time::{Duration, Instant};

/// Monotonic time since the start, and the time of day.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// Time of day at the start, in milliseconds since 1970.
    wall_start_ms: i64,
    /// Offset added to the time of day, in milliseconds.
    skew_ms: i64,
}

impl Clock {
    pub(crate) fn new(start: Instant, wall_start_ms: i64) -> Self {
        Self { start, wall_start_ms, skew_ms: 0 }
    }

    pub(crate) fn skew(&mut self, by_ms: i64) {
        self.skew_ms = self.skew_ms.saturating_add(by_ms);
    }

    /// Returns the time of day in milliseconds since 1970, used for ctime and mtime.
    pub(crate) fn wall_ms(&self, now: Instant) -> i64 {
        let since = i64::try_from(self.since(now).as_millis()).unwrap_or(i64::MAX);
        self.wall_start_ms.saturating_add(since).saturating_add(self.skew_ms)
    }

    pub(crate) fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// Returns the first multiple of `interval` after `at`, counted from the start: the server's
    /// `ExpiryQueue.roundToNextInterval`.
    pub(crate) fn round_up(&self, at: Instant, interval: Duration) -> Instant {
        let interval_ms = interval.as_millis().max(1);
        let rounded_ms = (self.since(at).as_millis() / interval_ms + 1) * interval_ms;
        self.start + Duration::from_millis(u64::try_from(rounded_ms).unwrap_or(u64::MAX / 4))
    }
}
