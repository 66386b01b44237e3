//! Clients of background tasks, and the pauses between their attempts.

use std::time::Duration;

use zk_recipes::session::{Client, Error, ErrorKind, RetryPolicy, SessionEnd, SessionManager};

use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX};

/// Pauses of a background task between its attempts, whose requests may be rejected for hours.
pub(crate) static TASK_POLICY: RetryPolicy = RetryPolicy::exponential(BACKOFF_FIRST, BACKOFF_MAX);

/// Returns the client of the current or the next session. No caller waits for its replies, so the
/// request timeout of the sessions does not apply.
pub(crate) async fn open_client(sessions: &SessionManager) -> Result<Client, Error> {
    Ok(sessions.open_client().await?.with_timeout(Duration::MAX))
}

/// Returns the error of a background task that was dropped. Its runtime was shut down, which also closes
/// the sessions and their manager. So nothing helps to repeat the call.
pub(crate) fn task_ended() -> Error {
    Error::not_applied(ErrorKind::ManagerStopped(SessionEnd::Closed.into()))
}
