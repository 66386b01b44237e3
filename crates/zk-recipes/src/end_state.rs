//! The end of a hold, for any number of waiting futures.
//!
//! A node that passes from holder to holder has one [`EndState`]. A pass ends the hold of the
//! holder before. Everything else ends the hold of the last holder, and with it the node's.

use std::future::{Future, pending};

use tokio::sync::watch;

use crate::error::LossReason;

/// The end of a node's hold and of the holders before, for any number of waiting futures.
#[derive(Debug)]
pub(crate) struct EndState(watch::Sender<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Number of holders that have passed the node on.
    passes: u32,
    /// Why the last holder lost the lock or released it. The first value is final.
    end: Option<LossReason>,
    /// The node does not pass to another holder.
    is_last_holder: bool,
}

impl Default for EndState {
    fn default() -> Self {
        Self(watch::Sender::new(Progress::default()))
    }
}

impl EndState {
    /// Records why the hold ended, unless a reason is already recorded. Returns true if it was not.
    pub(crate) fn set(&self, reason: LossReason) -> bool {
        self.0.send_if_modified(|progress| {
            progress.end.is_none() && progress.end.replace(reason).is_none()
        })
    }

    /// Records that the holder has passed the node on.
    pub(crate) fn pass(&self) {
        self.0.send_modify(|progress| progress.passes += 1);
    }

    /// Keeps the node from passing to another holder.
    pub(crate) fn stop_passing(&self) {
        self.0.send_if_modified(|progress| {
            progress.is_last_holder = true;
            false // no future waits for this
        });
    }

    pub(crate) fn known(&self) -> Option<LossReason> {
        self.0.borrow().end
    }

    pub(crate) fn is_last_holder(&self) -> bool {
        self.0.borrow().is_last_holder
    }

    /// Waits until the hold of the holder after `passes` others has ended.
    pub(crate) fn reached(&self, passes: u32) -> impl Future<Output = LossReason> + Send + use<> {
        let mut end = self.0.subscribe();
        let reason = move |progress: &Progress| match progress.passes > passes {
            true => Some(LossReason::Released),
            false => progress.end,
        };
        async move {
            let told = end.wait_for(|progress| reason(progress).is_some()).await;
            // The sender is dropped with the last guard.
            told.ok().and_then(|progress| reason(&progress)).unwrap_or(LossReason::Released)
        }
    }

    /// Waits until the holder after `passes` others has passed the node on.
    pub(crate) fn passed(&self, passes: u32) -> impl Future<Output = ()> + Send + use<> {
        let mut end = self.0.subscribe();
        async move {
            if end.wait_for(|progress| progress.passes > passes).await.is_err() {
                pending().await
            }
        }
    }
}
