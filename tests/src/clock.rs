//! The clock and the waiting functions of the tests. No other place in the tests reads the clock or
//! waits.

use std::time::{Duration, Instant};

/// Reads the monotonic clock.
#[allow(
    clippy::disallowed_methods,
    reason = "a test measures real processes; there is no caller to hand a clock in"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Reads `CLOCK_MONOTONIC` in microseconds: one clock for all processes of the machine.
pub fn monotonic_us() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    let (seconds, nanoseconds) = (time.tv_sec(), time.tv_nsec());
    u64::try_from(seconds * 1_000_000 + nanoseconds / 1_000).unwrap()
}

/// Calls `probe` repeatedly until it returns `Some`, or until `limit` has passed:
/// [`poll`](crate::poll) for tests that run on tokio. The probe is called once more after the limit
/// has passed.
pub async fn eventually<T>(
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let start = now();
    loop {
        let last = start.elapsed() >= limit;
        if let Some(answer) = probe().await {
            return Some(answer);
        }
        if last {
            return None;
        }
        // reason: this is the gap between two probes of a condition, never a wait by itself.
        tokio::time::sleep(PROBE_GAP).await;
    }
}

/// Waits until the condition holds, and panics with `says` if it does not within [`LIMIT`].
#[track_caller]
pub fn until(says: &str, mut condition: impl FnMut() -> bool) {
    let held = xtask::poll::poll(LIMIT, || condition().then_some(()));
    held.unwrap_or_else(|| panic!("{says}"));
}

/// Waits until `duration` has passed since `start`. For tests of effects of time.
pub fn pass(start: Instant, duration: Duration) {
    let left = duration.saturating_sub(start.elapsed());
    let passed = xtask::poll::poll(left, || (start.elapsed() >= duration).then_some(()));
    assert!(passed.is_some() || start.elapsed() >= duration);
}

/// Limit for steps that take milliseconds on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Short compared with every wait of the tests, long compared with a round trip.
const PROBE_GAP: Duration = Duration::from_millis(5);
