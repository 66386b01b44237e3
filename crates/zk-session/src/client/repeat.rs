//! Classes of failed requests that a retry repeats.

use zk_session_core::{Error, ErrorKind, RetryOn};

/// Class of failed requests to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeat {
    /// Requests that the server did not apply.
    NotApplied,
    /// Also requests without a reply, which the caller can apply twice safely, or whose effect the
    /// caller recognises.
    Unanswered,
}

impl Repeat {
    /// Returns true if another attempt on the same session may succeed after this error.
    #[must_use]
    pub fn covers(self, error: &Error) -> bool {
        let is_unanswered =
            matches!(error.kind(), ErrorKind::ConnectionLost(_) | ErrorKind::TimedOut);
        error.retry_on() == RetryOn::SameSession || (is_unanswered && self == Self::Unanswered)
    }
}
