//! The runtime of a session's driver: tasks, timers, and work that starts after a delay.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures::future::Either;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use zk_session_core::LeaseState;

use crate::clock::{now, timer};
use crate::limits::TIMEOUT_MAX;

/// Runtime of a session's driver, for tasks and timers beside the session; see
/// [`Client::runtime`](crate::Client::runtime).
#[derive(Debug)]
pub struct Runtime {
    /// The first runtime of the driver. It is unknown until the driver runs if the caller runs it.
    handle: OnceLock<Handle>,
    delayed: Arc<DelayedStarts>,
    lease_state: watch::Receiver<LeaseState>,
}

impl Runtime {
    pub(super) fn new(lease_state: watch::Receiver<LeaseState>) -> Self {
        Self { handle: OnceLock::new(), delayed: Arc::default(), lease_state }
    }

    /// Sets the runtime, unless it is known.
    pub(crate) fn init(&self, handle: impl FnOnce() -> Handle) {
        self.handle.get_or_init(handle);
    }

    /// Spawns a future, wherever the caller runs.
    ///
    /// Returns `None` if the caller runs the driver and has not begun
    /// ([`Config::into_parts`](crate::Config::into_parts)). Recipes use it to watch a node on behalf of a
    /// handle that no task polls.
    ///
    /// Pass a [weak](crate::Client::weak) handle to the future, so that the future does not keep the
    /// session open.
    #[must_use]
    pub fn spawn<F>(&self, future: F) -> Option<AbortHandle>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Some(self.handle.get()?.spawn(future).abort_handle())
    }

    /// [Starts](DelayedStart::start) the work of an object after a delay, unless the object is
    /// dropped before.
    ///
    /// This costs much less than a task that sleeps, so recipes use it for work that is seldom
    /// needed. Does nothing if the caller runs the driver and has not begun.
    pub fn start_after(&self, delay: Duration, object: Weak<dyn DelayedStart>) {
        if let Some(handle) = self.handle.get() {
            self.delayed.push(handle, delay, object);
        }
    }

    /// Waits for `duration` on the runtime of the caller.
    ///
    /// A caller without a runtime waits on the runtime of the session's driver. If that runtime shuts
    /// down, the wait ends with the session. Recipes use this method because their futures may be
    /// polled on any thread.
    ///
    /// # Panics
    /// If the caller's runtime has no timers. If the caller has no runtime and the driver of the
    /// session has never run.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleep_until(timer(now() + duration.min(TIMEOUT_MAX)))
    }

    /// As [`sleep`](Self::sleep), until `deadline`.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + Send + use<> {
        let driver = match Handle::try_current() {
            Ok(_) => None,
            Err(_) => self.handle.get(),
        };
        let Some(driver) = driver else {
            return Either::Left(tokio::time::sleep_until(deadline));
        };
        // A timer that is polled while its runtime shuts down panics. A task is dropped instead.
        let timer = driver.spawn(async move { tokio::time::sleep_until(deadline).await });
        let (mut timer, mut lease_state) = (AbortOnDrop(timer), self.lease_state.clone());
        Either::Right(async move {
            if (&mut timer.0).await.is_err() {
                // The driver is dropped with the runtime, which ends the session.
                drop(lease_state.wait_for(|state| state.ended.is_some()).await);
            }
        })
    }
}

/// A task that ends when its handle is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An object with work that starts later; see [`Runtime::start_after`].
pub trait DelayedStart: Send + Sync + 'static {
    /// Starts the work. One task on the runtime of the session's driver calls this for all objects,
    /// so it must neither block nor panic.
    fn start(self: Arc<Self>);
}

/// The objects of one session whose work has not started.
///
/// A lock that is held for a short time needs none of this work. So the delay of an object costs an
/// entry in a queue, and one task waits on behalf of all objects of the session.
#[derive(Debug, Default)]
struct DelayedStarts {
    queue: Mutex<Queue>,
    /// Wakes the task, because an object is due earlier than the task expects.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// The first one is due first.
    entries: VecDeque<Entry>,
    /// When the task wakes; `None` if there is no task.
    armed: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    due: Instant,
    object: Weak<dyn DelayedStart>,
}

impl DelayedStarts {
    fn push(self: &Arc<Self>, runtime: &Handle, delay: Duration, object: Weak<dyn DelayedStart>) {
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
        if self.entries.front().is_some_and(is_over) { self.entries.pop_front() } else { None }
    }
}
