//! Times on the command line.

use std::time::Duration;

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| *duration <= Duration::from_secs(60 * 60 * 24 * 365))
        .ok_or_else(|| "write a number of seconds such as 5 or 0.5, at most a year".to_owned())
}

/// Parses a session timeout. With a shorter one, no server could renew the lease of a lock in time.
pub(crate) fn session_seconds(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|time| *time >= SESSION_TIMEOUT_MIN)
        .ok_or_else(|| "write a number of seconds from 0.1 to a year".to_owned())
}

const SESSION_TIMEOUT_MIN: Duration = Duration::from_millis(100);

pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write a number of seconds above 0, at most a year".to_owned())
}
