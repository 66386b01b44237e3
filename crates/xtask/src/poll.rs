//! Polling of a condition: the only place of this crate that reads a clock or sleeps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Calls `probe` repeatedly until it returns `Some`, or until `limit` has passed.
///
/// It calls the probe at least once, and once more after the limit has passed. A slow machine therefore does
/// not look like a broken server.
///
/// ```
/// # use std::time::Duration;
/// let mut asked = 0;
/// let answer = xtask::poll::poll(Duration::from_secs(5), || {
///     asked += 1;
///     (asked == 3).then_some("done")
/// });
/// assert_eq!(answer, Some("done"));
/// ```
pub fn poll<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = now();
    loop {
        let last = start.elapsed() >= limit;
        if let Some(answer) = probe() {
            return Some(answer);
        }
        if last {
            return None;
        }
        pause();
    }
}

/// Reads the wall clock: seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "names and samples differ from run to run")]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Reads the monotonic clock.
#[allow(
    clippy::disallowed_methods,
    reason = "a task runner measures real processes; there is no caller to hand a clock in"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

// reason: another process changes the condition, and it offers no event to wait for.
#[allow(
    clippy::disallowed_methods,
    reason = "the gap between two probes of a condition, never a wait by itself"
)]
fn pause() {
    std::thread::sleep(PROBE_GAP);
}

/// Short compared with a server start (about a second), long compared with a probe (well under a
/// millisecond).
const PROBE_GAP: Duration = Duration::from_millis(10);
