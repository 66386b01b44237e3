//! Subscription to the changes of a cache.

use std::fmt;
use std::sync::{Arc, Weak};

use super::change::Change;
use super::shared::Shared;
use super::snapshot::Snapshot;
use super::subscribers::{Received, Receiver};

/// Subscription to the changes of a [`Cache`](super::Cache): a snapshot to start from, and the
/// changes after it, in order.
///
/// It does not keep the cache alive.
pub struct Changes {
    shared: Weak<Shared>,
    receiver: Receiver,
    snapshot: Arc<Snapshot>,
    is_over: bool,
}

impl Changes {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (snapshot, receiver, is_over) = shared.subscribe();
        Self { shared: Arc::downgrade(shared), receiver, snapshot, is_over }
    }

    /// Returns the snapshot from which the changes continue: that of the subscription, or that of
    /// the last [`Change::Missed`].
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Waits for the next change.
    ///
    /// Returns `None` when the cache has stopped or its last handle is dropped.
    ///
    /// # Cancel safety
    /// This method is cancel safe. No change is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Change> {
        if self.is_over {
            return None;
        }
        let change = match self.receiver.receive().await {
            Received::Change(change) => change,
            Received::Closed => return None,
            Received::Missed(missed) => {
                let shared = self.shared.upgrade()?;
                (self.snapshot, self.receiver, self.is_over) = shared.subscribe();
                Change::Missed(missed)
            }
        };
        self.is_over |= matches!(change, Change::Stopped(_));
        Some(change)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}
