//! Clients of background tasks.

use std::time::Duration;

use zk_recipes::session::{Client, Error, SessionManager};

/// Returns the client of the current or the next session. No caller waits for its replies, so the
/// request timeout of the sessions does not apply.
pub(crate) async fn open_client(sessions: &SessionManager) -> Result<Client, Error> {
    Ok(sessions.open_client().await?.with_timeout(Duration::MAX))
}
