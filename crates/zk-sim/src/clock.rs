//! The one place that reads a clock: tokio's, which the simulation has stopped.

use tokio::time::Instant;

#[allow(clippy::disallowed_methods, reason = "the clock is virtual and only moves when all wait")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
