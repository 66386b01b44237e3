//! State that the task of a cache shares with its handles.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::CacheError;
use super::change::Change;
use super::edit::Edit;
use super::snapshot::Snapshot;
use super::subscribers::{QueueLimits, Receiver, Subscribers};

/// How a [`Cache`](super::Cache) stands to the tree on the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheStatus {
    /// The first load is under way. If the session can set no further watch, the cache stops.
    Loading,
    /// The cache has the whole tree and follows its changes. A change that the server does not report
    /// shows after the next [check](super::Cache#what-the-server-does-not-report).
    Synced,
    /// The cache is synced, except for nodes that the client may not read. Their data and their new
    /// children are unknown. The cache reads them again now and then, until they are readable or
    /// deleted.
    Partial {
        /// Number of these nodes, at least 1. [`Snapshot::unreadable`] has their paths.
        unreadable: usize,
    },
    /// The connection was lost, or events were. The nodes may be out of date until the cache is
    /// synced again. If the next session can set no further watch, the cache waits for one.
    Stale,
    /// The cache has stopped for this reason. Its nodes stay as they are.
    Stopped(CacheError),
}

impl CacheStatus {
    /// Returns the status of a cache that follows the changes.
    fn synced(nodes: &Snapshot) -> Self {
        match nodes.nodes.unreadable() {
            0 => Self::Synced,
            unreadable => Self::Partial { unreadable },
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        matches!(self, Self::Synced | Self::Partial { .. })
    }
}

pub(super) struct Shared {
    current: Mutex<Current>,
    status: watch::Sender<CacheStatus>,
}

/// The nodes and their subscribers, under one lock: a subscriber gets a snapshot and exactly the
/// changes after it.
struct Current {
    snapshot: Arc<Snapshot>,
    subscribers: Subscribers,
}

impl Shared {
    pub(super) fn new(root: Arc<str>, limits: QueueLimits) -> Self {
        let snapshot = Arc::new(Snapshot::new(root));
        Self {
            current: Mutex::new(Current { snapshot, subscribers: Subscribers::new(limits) }),
            status: watch::Sender::new(CacheStatus::Loading),
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.lock().snapshot)
    }

    /// Returns a snapshot, and the changes after it.
    pub(super) fn subscribe(&self) -> (Arc<Snapshot>, Receiver) {
        let mut current = self.lock();
        let receiver = match &*self.status.borrow() {
            CacheStatus::Stopped(error) => Receiver::ended(Change::Stopped(error.clone())),
            _ => current.subscribers.subscribe(),
        };
        (Arc::clone(&current.snapshot), receiver)
    }

    /// Returns the status after each change that a subscriber has received.
    pub(super) fn status(&self) -> CacheStatus {
        let _current = self.lock();
        self.status.borrow().clone()
    }

    pub(super) fn watch_status(&self) -> watch::Receiver<CacheStatus> {
        self.status.subscribe()
    }

    /// Edits the nodes, and reports each change. The nodes are copied only as far as a snapshot in
    /// use shares them.
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> T) -> T {
        let mut current = self.lock();
        let Current { snapshot, subscribers } = &mut *current;
        let done = change(&mut Edit::new(Arc::make_mut(snapshot), subscribers));
        let synced = CacheStatus::synced(snapshot);
        self.status.send_if_modified(|status| {
            let is_new = status.is_synced() && *status != synced;
            if is_new {
                *status = synced;
            }
            is_new
        });
        done
    }

    pub(super) fn set_synced(&self) {
        let mut current = self.lock();
        self.status.send_replace(CacheStatus::synced(&current.snapshot));
        let zxid = current.snapshot.zxid;
        current.subscribers.send(|| Change::Synced { zxid });
    }

    /// Reports that the nodes may be out of date, unless that is known.
    pub(super) fn set_stale(&self) {
        let mut current = self.lock();
        let was_synced = self.status.send_if_modified(|status| {
            let is_synced = status.is_synced();
            if is_synced {
                *status = CacheStatus::Stale;
            }
            is_synced
        });
        if was_synced {
            current.subscribers.send(|| Change::Stale);
        }
    }

    /// Reports the end, unless that is known.
    pub(super) fn stop(&self, error: CacheError) {
        let mut current = self.lock();
        let is_first = self.status.send_if_modified(|status| {
            let is_first = !matches!(status, CacheStatus::Stopped(_));
            if is_first {
                *status = CacheStatus::Stopped(error.clone());
            }
            is_first
        });
        if is_first {
            current.subscribers.send(|| Change::Stopped(error));
            current.subscribers.close();
        }
    }

    /// Ends without a report, because nobody has a handle any more. The changes end, too.
    pub(super) fn end(&self) {
        let mut current = self.lock();
        self.status.send_replace(CacheStatus::Stopped(CacheError::TaskEnded));
        current.subscribers.close();
    }

    /// Held only briefly. No user code runs under this lock.
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("status", &self.status()).finish_non_exhaustive()
    }
}
