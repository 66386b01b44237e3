//! The state and the progress of a persistent node, as the handle sees them.

use tokio::sync::watch;

use super::state::NodeState;
use crate::background::task_ended;

/// The channels to the handle.
#[derive(Debug)]
pub(super) struct Published {
    state: watch::Sender<NodeState>,
    progress: watch::Sender<Progress>,
}

impl Published {
    pub(super) fn new() -> (Self, watch::Receiver<NodeState>, watch::Receiver<Progress>) {
        let (state, states) = watch::channel(NodeState::Pending);
        let (progress, progresses) = watch::channel(Progress::default());
        (Self { state, progress }, states, progresses)
    }

    /// Publishes the result of an attempt with the data of this number.
    pub(super) fn set(&self, state: NodeState, number: u64) {
        let is_present = state.is_present();
        self.set_state(state);
        self.progress.send_modify(|progress| {
            if is_present { progress.written = number } else { progress.failed = number }
        });
    }

    pub(super) fn set_state(&self, state: NodeState) {
        self.state.send_if_modified(|current| {
            let is_new = *current != state;
            *current = state;
            is_new
        });
    }
}

impl Drop for Published {
    /// The runtime may drop the task before it has run.
    fn drop(&mut self) {
        if !self.state.borrow().is_closed() {
            self.set_state(NodeState::Closed { error: Some(task_ended()) });
        }
    }
}

/// Numbers of the newest data that was written, and that could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) written: u64,
    pub(super) failed: u64,
}
