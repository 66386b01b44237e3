//! The clock that all processes of a sale share.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the nanoseconds since 1970. The standard library has no monotonic clock with readings
/// that can be compared across processes. All processes run on one machine and read the same wall
/// clock. Only a change of that clock during a sale falsifies the figures.
#[expect(clippy::disallowed_methods, reason = "the only place of this program that reads a clock")]
pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
