//! The cooperative budget of a task, for calls that fail without waiting.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::coop::consume_budget;

/// Takes one unit of the task's budget. Without any, it lets other tasks run once, among them the driver.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    was_asked: bool,
}

impl Budget {
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Other code of the task may use up the budget in every poll.
        if std::mem::replace(&mut self.was_asked, true) {
            Poll::Ready(())
        } else {
            pin!(consume_budget()).poll(cx)
        }
    }
}
