//! The only clock that the simulation reads: tokio's, which is paused.

use tokio::time::Instant;

#[allow(clippy::disallowed_methods, reason = "the clock is virtual and only moves when all wait")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
