//! Subscription to the changes of a cache.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::change::Change;
use super::open_cache::OpenCache;
use super::snapshot::Snapshot;
use super::subscribers::{Received, Receiver};

/// Subscription to the changes of a [`Cache`](super::Cache): a snapshot to start from, and the
/// changes after it, in order.
///
/// It does not keep the cache alive. It also implements [`futures::Stream`].
pub struct Changes {
    cache: Weak<OpenCache>,
    receiver: Receiver,
    snapshot: Option<Arc<Snapshot>>,
}

impl Changes {
    pub(super) fn new(cache: &Arc<OpenCache>) -> Self {
        let (snapshot, receiver) = cache.shared.subscribe();
        Self { cache: Arc::downgrade(cache), receiver, snapshot: Some(snapshot) }
    }

    /// Returns the snapshot from which the changes continue: that of the subscription, or that of
    /// a [`Change::Missed`] that was just returned. Returns `None` after any other change, so that the
    /// subscription keeps no old nodes in memory.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// Waits for the next change.
    ///
    /// The last change of a cache that has stopped is [`Change::Stopped`], also for a later
    /// subscription. Returns `None` after it, and when the last handle of the cache is dropped.
    ///
    /// # Cancel safety
    /// This method is cancel safe. No change is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Change> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    fn poll_change(&mut self, cx: &Context<'_>) -> Poll<Option<Change>> {
        Poll::Ready(match ready!(self.receiver.poll_receive(cx)) {
            Received::Change(change) => {
                self.snapshot = None;
                Some(change)
            }
            Received::Closed => None,
            Received::Missed(missed) => self.cache.upgrade().map(|cache| {
                let (snapshot, receiver) = cache.shared.subscribe();
                (self.snapshot, self.receiver) = (Some(snapshot), receiver);
                Change::Missed(missed)
            }),
        })
    }
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        self.poll_change(cx)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}
