//! Pauses between attempts, and the failures that pass by themselves.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use zk_recipes::session::{Client, Error, ErrorKind, RetryOn};

use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX};
use crate::requests::is_unanswered;

/// Returns true if the session repairs the cause of the error: it reconnects, or a server is
/// temporarily unable to serve. The caller can do nothing about it.
pub(crate) fn is_passing(error: &Error) -> bool {
    let is_limited = matches!(error.kind(), ErrorKind::LimitReached(_));
    is_unanswered(error) || !is_limited && error.retry_on() == RetryOn::SameSession
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
    shortened(client.session_id(), path, failures)
}

fn shortened(session_id: i64, path: &str, failures: u32) -> Duration {
    let doubled = BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    let step = doubled.min(BACKOFF_MAX);
    let mut hasher = DefaultHasher::new();
    (session_id, path, failures).hash(&mut hasher);
    let share = u32::from(hasher.finish().to_be_bytes()[0]); // of 256
    step - step / 512 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_differ_by_path() {
        let pauses = |path: &str| -> Vec<Duration> {
            (1..20).map(|failures| shortened(7, path, failures)).collect()
        };
        let mut step = BACKOFF_FIRST;
        for pause in pauses("/a") {
            assert!(pause <= step && pause >= step / 2, "{pause:?} of {step:?}");
            step = (2 * step).min(BACKOFF_MAX);
        }
        assert_eq!(pauses("/a"), pauses("/a"));
        assert_ne!(pauses("/a"), pauses("/b"));
        assert!(shortened(7, "/a", u32::MAX) <= BACKOFF_MAX);
    }
}
