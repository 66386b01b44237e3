//! Work that starts after a delay, unless the object it belongs to is dropped before.
//!
//! A lock that is held for a short time needs none of this work. So the delay of an object costs an
//! entry in a queue, and one task waits on behalf of all objects of the session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::clock::{now, timer};
use crate::limits::TIMEOUT_MAX;

/// An object with work that starts later; see [`Client::start_after`](crate::Client::start_after).
pub trait DelayedStart: Send + Sync + 'static {
    /// Starts the work. One task on the runtime of the session's driver calls this for all objects,
    /// so it must neither block nor panic.
    fn start(self: Arc<Self>);
}

/// The objects of one session whose work has not started.
#[derive(Default)]
pub(crate) struct DelayedStarts {
    queue: Mutex<Queue>,
    /// Wakes the task, because an object is due earlier than the task expects.
    earlier: Notify,
}

#[derive(Default)]
struct Queue {
    /// The first one is due first.
    entries: VecDeque<Entry>,
    /// When the task wakes; `None` if there is no task.
    armed: Option<Instant>,
}

struct Entry {
    due: Instant,
    object: Weak<dyn DelayedStart>,
}

impl DelayedStarts {
    pub(crate) fn push(
        self: &Arc<Self>,
        runtime: &Handle,
        delay: Duration,
        object: Weak<dyn DelayedStart>,
    ) {
        let due = timer(now() + delay.min(TIMEOUT_MAX));
        let mut queue = self.lock();
        queue.forget_dropped();
        let at = queue.entries.partition_point(|entry| entry.due <= due);
        queue.entries.insert(at, Entry { due, object });
        if queue.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        match queue.armed.replace(due) {
            Some(_) => self.earlier.notify_one(),
            None => drop(runtime.spawn(Arc::clone(self).run())),
        }
    }

    /// Starts the work that is due, until none is left.
    async fn run(self: Arc<Self>) {
        while let Some(due) = self.next_due() {
            if timeout_at(due, self.earlier.notified()).await.is_ok() {
                continue;
            }
            if let Some(object) = self.pop(due) {
                object.start();
            }
        }
    }

    /// Returns when the next work is due. Returns `None` if there is none; the task then ends.
    fn next_due(&self) -> Option<Instant> {
        let mut queue = self.lock();
        queue.forget_dropped();
        queue.armed = queue.entries.front().map(|entry| entry.due);
        queue.armed
    }

    /// Removes the first entry if it is due at `now`, and returns its object if that still exists.
    fn pop(&self, now: Instant) -> Option<Arc<dyn DelayedStart>> {
        self.lock().pop_if(|entry| entry.due <= now)?.object.upgrade()
    }

    /// No object is dropped under this lock: the entries do not keep one.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Mostly, all objects have the same delay, and the first one is dropped first.
    fn forget_dropped(&mut self) {
        while self.pop_if(|entry| entry.object.strong_count() == 0).is_some() {}
    }

    fn pop_if(&mut self, is_over: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        match self.entries.front().is_some_and(is_over) {
            true => self.entries.pop_front(),
            false => None,
        }
    }
}
