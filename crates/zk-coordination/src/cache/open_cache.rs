//! The state that all handles of a cache share.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::shared::Shared;

/// A cache that somebody has a handle of. The cache ends with the last handle.
pub(super) struct OpenCache {
    pub(super) shared: Arc<Shared>,
    task: Option<AbortHandle>,
}

impl OpenCache {
    pub(super) fn new(shared: Arc<Shared>, task: Option<AbortHandle>) -> Self {
        Self { shared, task }
    }
}

impl Drop for OpenCache {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
