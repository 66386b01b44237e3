//! State that the task of a cache shares with its handles.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

use super::CacheError;
use super::change::Change;
use super::edit::Edit;
use super::snapshot::Snapshot;
use crate::limits::CHANGES_KEPT_MAX;

/// How a [`Cache`](super::Cache) stands to the tree on the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheStatus {
    /// The first load is under way.
    Loading,
    /// The cache has the whole tree and follows its changes.
    Synced,
    /// The connection was lost, or events were. The nodes may be out of date until the cache is
    /// synced again.
    Stale,
    /// The cache has stopped for this reason. Its nodes stay as they are.
    Stopped(CacheError),
}

pub(super) struct Shared {
    current: Mutex<Arc<Snapshot>>,
    /// Changes are sent while `current` is locked, so that a subscriber gets a snapshot and exactly
    /// the changes after it.
    changes: broadcast::Sender<Change>,
    status: watch::Sender<CacheStatus>,
}

impl Shared {
    pub(super) fn new(root: Arc<str>, changes_kept: usize) -> Self {
        Self {
            current: Mutex::new(Arc::new(Snapshot::new(root))),
            changes: broadcast::Sender::new(changes_kept.clamp(1, CHANGES_KEPT_MAX)),
            status: watch::Sender::new(CacheStatus::Loading),
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.lock())
    }

    /// Returns a snapshot, the changes after it, and whether there will be none.
    pub(super) fn subscribe(&self) -> (Arc<Snapshot>, broadcast::Receiver<Change>, bool) {
        let current = self.lock();
        let is_over = matches!(*self.status.borrow(), CacheStatus::Stopped(_));
        (Arc::clone(&current), self.changes.subscribe(), is_over)
    }

    pub(super) fn status(&self) -> CacheStatus {
        self.status.borrow().clone()
    }

    pub(super) fn watch_status(&self) -> watch::Receiver<CacheStatus> {
        self.status.subscribe()
    }

    /// Edits the nodes, and reports each change. The nodes are copied only as far as a snapshot in
    /// use shares them.
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> T) -> T {
        let mut current = self.lock();
        change(&mut Edit::new(Arc::make_mut(&mut current), &self.changes))
    }

    pub(super) fn set_synced(&self) {
        let current = self.lock();
        self.status.send_replace(CacheStatus::Synced);
        self.announce(Change::Synced { zxid: current.zxid });
    }

    /// Reports that the nodes may be out of date, unless that is known.
    pub(super) fn set_stale(&self) {
        let _current = self.lock();
        let was_synced = self.status.send_if_modified(|status| {
            let is_synced = *status == CacheStatus::Synced;
            if is_synced {
                *status = CacheStatus::Stale;
            }
            is_synced
        });
        if was_synced {
            self.announce(Change::Stale);
        }
    }

    /// Reports the end, unless that is known.
    pub(super) fn stop(&self, error: CacheError) {
        let _current = self.lock();
        let is_first = self.status.send_if_modified(|status| {
            let is_first = !matches!(status, CacheStatus::Stopped(_));
            if is_first {
                *status = CacheStatus::Stopped(error.clone());
            }
            is_first
        });
        if is_first {
            self.announce(Change::Stopped(error));
        }
    }

    /// Ends without a report, because nobody has a handle any more. The changes end, too.
    pub(super) fn end(&self) {
        let _current = self.lock();
        self.status.send_replace(CacheStatus::Stopped(CacheError::TaskEnded));
    }

    fn announce(&self, change: Change) {
        drop(self.changes.send(change)); // an error means that there is no subscriber
    }

    /// Held only briefly. No user code runs under this lock.
    fn lock(&self) -> MutexGuard<'_, Arc<Snapshot>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("status", &self.status()).finish_non_exhaustive()
    }
}
