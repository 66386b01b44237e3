//! Pauses between attempts, and the failures that pass by themselves.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use zk_recipes::session::{Client, Error, ErrorKind, RetryOn};

use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX};

/// Returns true if the session repairs the cause of the error: it reconnects, or a server is
/// temporarily unable to serve. The caller can do nothing about it.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ConnectionLost(_) | ErrorKind::TimedOut => true,
        ErrorKind::LimitReached(_) => false,
        _ => error.retry_on() == RetryOn::SameSession,
    }
}

/// Returns true if the session has ended.
pub(crate) fn is_session_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionEnded(_))
}

/// Returns the pause after the given number of consecutive failures.
///
/// It is shortened by up to half. The share depends on the session and the path, so that nodes that
/// fail together are not retried together.
pub(crate) fn pause(client: &Client, path: &str, failures: u32) -> Duration {
    let doubled = BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    let step = doubled.min(BACKOFF_MAX);
    let mut hasher = DefaultHasher::new();
    (client.session_id(), path, failures).hash(&mut hasher);
    let share = u32::from(hasher.finish().to_be_bytes()[0]); // of 256
    step - step / 512 * share
}
