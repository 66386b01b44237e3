//! Timers of the writes that a handle repeats.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::builder::NodeMode;
use crate::limits::{TTL_REFRESH_MIN, TTL_REFRESH_PART, TTL_RETRY_PART};

/// Timer that is never due unless it runs.
#[derive(Default)]
pub(super) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    pub(super) fn restart(&mut self, pause: Duration) {
        self.0 = Some(Box::pin(sleep(pause)));
    }

    pub(super) fn start_unless_running(&mut self, pause: Duration) {
        if self.0.is_none() {
            self.restart(pause);
        }
    }

    pub(super) fn stop(&mut self) {
        self.0 = None;
    }

    /// Returns true if the timer was due, and was not stopped since.
    pub(super) fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|due| due.is_elapsed())
    }

    pub(super) async fn due(&mut self) {
        match &mut self.0 {
            Some(due) => due.await,
            None => pending().await,
        }
    }
}

/// Time of the next renewal of a time to live. Never due for other nodes.
pub(super) struct Renewal {
    pause: Option<Duration>,
    timer: Timer,
}

impl Renewal {
    pub(super) fn new(mode: NodeMode) -> Self {
        let pause = match mode {
            NodeMode::Ttl(ttl) => Some((ttl / TTL_REFRESH_PART).max(TTL_REFRESH_MIN)),
            _ => None,
        };
        Self { pause, timer: Timer::default() }
    }

    pub(super) fn restart(&mut self) {
        if let Some(pause) = self.pause {
            self.timer.restart(pause);
        }
    }

    /// Starts the time to the next attempt after a failed renewal.
    pub(super) fn restart_soon(&mut self) {
        if let Some(pause) = self.pause {
            self.timer.restart(pause / TTL_RETRY_PART);
        }
    }

    /// Returns true if a renewal was due, and none was tried since.
    pub(super) fn is_over(&self) -> bool {
        self.timer.is_over()
    }

    pub(super) async fn due(&mut self) {
        self.timer.due().await;
    }
}
