//! Timer of the renewals of a time to live.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::builder::NodeMode;
use crate::limits::TTL_REFRESH_MIN;

/// Time of the next renewal of a time to live. Never due for other nodes.
pub(super) struct Renewal {
    pause: Option<Duration>,
    due: Option<Pin<Box<Sleep>>>,
}

impl Renewal {
    pub(super) fn new(mode: NodeMode) -> Self {
        let pause = match mode {
            NodeMode::Ttl(ttl) => Some((ttl / 2).max(TTL_REFRESH_MIN)),
            _ => None,
        };
        Self { pause, due: None }
    }

    pub(super) fn restart(&mut self) {
        self.due = self.pause.map(|pause| Box::pin(sleep(pause)));
    }

    /// Starts the time to the next attempt after a failed renewal. Three of them fit into the rest
    /// of the time to live.
    pub(super) fn restart_soon(&mut self) {
        self.due = self.pause.map(|pause| Box::pin(sleep(pause / 4)));
    }

    pub(super) async fn due(&mut self) {
        match &mut self.due {
            Some(due) => due.await,
            None => pending().await,
        }
    }
}
