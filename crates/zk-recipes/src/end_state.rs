//! The end of a hold, for any number of waiting futures.
//!
//! A node that passes from holder to holder has one [`EndState`]. A pass ends the hold of the
//! holder before. Everything else ends the hold of the last holder, and with it the node's.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::LossReason;

/// The end of a node's hold and of the holders before, for any number of waiting futures.
///
/// A hold records its end before it is dropped, so a future never waits for a hold that is gone.
#[derive(Debug, Default)]
pub(crate) struct EndState {
    progress: Mutex<Progress>,
    /// Wakes the waiting futures.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Progress {
    /// Number of holders that have passed the node on.
    passes: u32,
    /// Why the last holder lost the lock or released it. The first value is final.
    end: Option<LossReason>,
    /// The node does not pass to another holder.
    is_last_holder: bool,
}

impl EndState {
    /// Records why the hold ended, unless a reason is already recorded. Returns true if it was not.
    pub(crate) fn set(&self, reason: LossReason) -> bool {
        let is_first = {
            let mut progress = self.progress();
            progress.end.is_none() && progress.end.replace(reason).is_none()
        };
        if is_first {
            self.changed.notify_waiters();
        }
        is_first
    }

    /// Records that the holder has passed the node on.
    pub(crate) fn pass(&self) {
        self.progress().passes += 1;
        self.changed.notify_waiters();
    }

    /// Keeps the node from passing to another holder.
    pub(crate) fn stop_passing(&self) {
        self.progress().is_last_holder = true; // no future waits for this
    }

    pub(crate) fn known(&self) -> Option<LossReason> {
        self.progress().end
    }

    pub(crate) fn is_last_holder(&self) -> bool {
        self.progress().is_last_holder
    }

    /// Waits until the hold of the holder after `passes` others has ended.
    pub(crate) fn reached(
        self: &Arc<Self>,
        passes: u32,
    ) -> impl Future<Output = LossReason> + Send + use<> {
        Arc::clone(self).wait_for(move |progress| match progress.passes > passes {
            true => Some(LossReason::Released),
            false => progress.end,
        })
    }

    /// Waits until the holder after `passes` others has passed the node on.
    pub(crate) fn passed(self: &Arc<Self>, passes: u32) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(self).wait_for(move |progress| (progress.passes > passes).then_some(()))
    }

    async fn wait_for<T>(self: Arc<Self>, value: impl Fn(&Progress) -> Option<T>) -> T {
        loop {
            // This future is notified of all changes after its creation.
            let changed = self.changed.notified();
            let found = value(&self.progress());
            match found {
                Some(found) => return found,
                None => changed.await,
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
