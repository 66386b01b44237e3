//! Bounds of a local queue.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::now;
use crate::limits::{LOCAL_PASSES_MAX, LOCAL_TIME_MAX};

/// Bounds of the local queue of [`Mutex::with_local_queue`](crate::Mutex::with_local_queue): how
/// long a process keeps a lock that contenders in other processes wait for.
///
/// The default is [1,000 passes](crate::limits::LOCAL_PASSES_MAX) and [50
/// ms](crate::limits::LOCAL_TIME_MAX), whichever ends first.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::LocalQueueLimits;
///
/// let limits = LocalQueueLimits::default().max_passes(20).max_time(Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LocalQueueLimits {
    pub(super) max_passes: u32,
    max_time: Duration,
}

impl Default for LocalQueueLimits {
    fn default() -> Self {
        Self { max_passes: LOCAL_PASSES_MAX, max_time: LOCAL_TIME_MAX }
    }
}

impl LocalQueueLimits {
    /// Sets how often the lock passes to another local waiter before it is released to the
    /// ensemble. With zero the tasks share a node and never pass the lock.
    pub fn max_passes(mut self, passes: u32) -> Self {
        self.max_passes = passes;
        self
    }

    /// Sets the time after which the lock does not pass to another local waiter, counted from the
    /// time at which the ensemble granted it. It does not interrupt a holder.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.max_time = time;
        self
    }

    pub(super) fn is_in_time(self, granted_at: Instant) -> bool {
        now() - granted_at < self.max_time
    }
}
