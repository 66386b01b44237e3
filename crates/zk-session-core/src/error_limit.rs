//! Limits of a session that an error names.

use std::fmt;

/// Limit of a session, as [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached) names it.
///
/// `Display` prints the name of the constant in [`limits`](crate::limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Requests without a reply: [`REQUESTS_MAX`](crate::limits::REQUESTS_MAX).
    Requests,
    /// Bytes of the requests that no connection has accepted:
    /// [`QUEUED_BYTES_MAX`](crate::limits::QUEUED_BYTES_MAX).
    QueuedBytes,
    /// Watches: [`WATCHES_MAX`](crate::limits::WATCHES_MAX), or `Config::max_watches`.
    Watches,
    /// Credentials: [`CREDENTIALS_MAX`](crate::limits::CREDENTIALS_MAX).
    Credentials,
    /// Pending guaranteed deletes: [`CLEAN_UPS_MAX`](crate::limits::CLEAN_UPS_MAX). The delete waits
    /// in the [backlog](crate::SessionEvent::CleanUpBacklog).
    CleanUps,
    /// Bytes of the paths of pending guaranteed deletes:
    /// [`QUEUED_BYTES_MAX`](crate::limits::QUEUED_BYTES_MAX). The delete waits in the
    /// [backlog](crate::SessionEvent::CleanUpBacklog).
    CleanUpBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Requests => "REQUESTS_MAX",
            Self::QueuedBytes | Self::CleanUpBytes => "QUEUED_BYTES_MAX",
            Self::Watches => "WATCHES_MAX",
            Self::Credentials => "CREDENTIALS_MAX",
            Self::CleanUps => "CLEAN_UPS_MAX",
        })
    }
}
