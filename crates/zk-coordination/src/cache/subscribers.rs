//! Changes that wait for the subscribers of a cache.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use super::change::Change;
use crate::limits::CHANGES_KEPT_MAX;

/// The subscribers of a cache. Each has its own queue.
///
/// A waiting change keeps its old node in memory, which is no longer in the snapshot. The new node is
/// in the snapshot, or is the old node of a later change. So the bytes of the old nodes are all that a
/// subscriber keeps besides the snapshot, and subscribers share them.
#[derive(Debug)]
pub(super) struct Subscribers {
    all: Vec<Weak<Subscriber>>,
    limits: QueueLimits,
}

/// Limits on what waits for one subscriber.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    pub(super) changes: usize,
    /// Bytes of the old nodes.
    pub(super) bytes: usize,
}

/// The reading end of a subscription.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Subscriber>);

/// Result of a wait for a change.
pub(super) enum Received {
    Change(Change),
    /// The queue was full, and this many changes were dropped.
    Missed(u64),
    /// No change will follow.
    Closed,
}

#[derive(Debug, Default)]
struct Subscriber {
    queue: Mutex<Queue>,
    /// The one task that waits for a change.
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<Change>,
    bytes: usize,
    missed: u64,
    is_closed: bool,
}

impl Subscribers {
    pub(super) fn new(limits: QueueLimits) -> Self {
        let changes = limits.changes.clamp(1, CHANGES_KEPT_MAX);
        Self { all: Vec::new(), limits: QueueLimits { changes, ..limits } }
    }

    pub(super) fn subscribe(&mut self) -> Receiver {
        self.all.retain(|subscriber| subscriber.strong_count() > 0);
        let subscriber = Arc::default();
        self.all.push(Arc::downgrade(&subscriber));
        Receiver(subscriber)
    }

    pub(super) fn send(&mut self, change: impl FnOnce() -> Change) {
        if self.all.is_empty() {
            return;
        }
        let (change, limits) = (change(), self.limits);
        self.all.retain(|subscriber| {
            let Some(subscriber) = subscriber.upgrade() else { return false };
            subscriber.queue().push(change.clone(), limits);
            subscriber.waker.wake();
            true
        });
    }

    /// Ends the changes after those that wait.
    pub(super) fn close(&mut self) {
        for subscriber in self.all.drain(..).filter_map(|subscriber| subscriber.upgrade()) {
            subscriber.queue().is_closed = true;
            subscriber.waker.wake();
        }
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.close();
    }
}

impl Receiver {
    /// Returns a receiver to which no change comes after this one.
    pub(super) fn ended(last: Change) -> Self {
        let queue = Queue { changes: [last].into(), is_closed: true, ..Queue::default() };
        Self(Arc::new(Subscriber { queue: Mutex::new(queue), waker: AtomicWaker::new() }))
    }

    /// Returns the next change. After [`Received::Missed`], changes are missing.
    pub(super) fn poll_receive(&self, cx: &Context<'_>) -> Poll<Received> {
        self.0.waker.register(cx.waker());
        let received = self.0.queue().pop();
        received.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Subscriber {
    /// Held only briefly, never across an await.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, change: Change, limits: QueueLimits) {
        self.bytes += bytes(&change);
        self.changes.push_back(change);
        while self.changes.len() > limits.changes || self.bytes > limits.bytes {
            let Some(dropped) = self.changes.pop_front() else { return };
            self.bytes -= bytes(&dropped);
            self.missed += 1;
        }
    }

    fn pop(&mut self) -> Option<Received> {
        if self.missed > 0 {
            return Some(Received::Missed(std::mem::take(&mut self.missed)));
        }
        if let Some(change) = self.changes.pop_front() {
            self.bytes -= bytes(&change);
            return Some(Received::Change(change));
        }
        self.is_closed.then_some(Received::Closed)
    }
}

/// Returns the memory that only the change keeps.
fn bytes(change: &Change) -> usize {
    change.old_node().map_or(0, |node| node.bytes())
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { changes, bytes, missed, .. } = self;
        write!(f, "{} changes, {bytes} bytes, {missed} missed", changes.len())
    }
}
