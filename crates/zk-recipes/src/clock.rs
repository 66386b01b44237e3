//! The clock.

use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "the only place of this crate that reads a clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
