//! Start of background tasks.

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use zk_recipes::session::Client;

/// Spawns a future on the caller's runtime. For a caller without one, spawns it on the runtime that
/// drives the session. A future that cannot be spawned is dropped.
pub(super) fn spawn<F>(client: &Client, future: F) -> Option<AbortHandle>
where
    F: Future<Output = ()> + Send + 'static,
{
    match Handle::try_current() {
        Ok(runtime) => Some(runtime.spawn(future).abort_handle()),
        Err(_) => client.spawn_beside(future),
    }
}
