//! Limit on the steps of a run, so that a run that spins ends, and is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Steps that a run may take: twenty times those of the longest one.
const STEPS_MAX: u64 = 5_000_000;

/// Counter of the polls of a run: of the tasks of its clients, and of their connections.
#[derive(Debug)]
pub(crate) struct Steps {
    taken: AtomicU64,
    /// Wakes the task that ends the run.
    wake: Arc<Notify>,
}

impl Steps {
    pub(crate) fn new(wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { taken: AtomicU64::new(0), wake })
    }

    /// Counts one step.
    ///
    /// # Panics
    ///
    /// Panics if a task spins within one poll, so that nothing else can end the run.
    pub(crate) fn take(&self) {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        if taken == STEPS_MAX {
            self.wake.notify_one();
        }
        assert!(taken < STEPS_MAX * 2, "a task spins within one poll");
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.taken() >= STEPS_MAX
    }
}
