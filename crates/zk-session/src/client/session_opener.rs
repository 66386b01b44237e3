//! The attempts of a manager to open a session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_session_core::{Error, ErrorKind};

use super::config::leaves_it_unauthenticated;
use super::{Client, Config, RetryPolicy, SessionChange};
use crate::clock::now;
use crate::driver::{Connector, DriverThread};
use crate::limits::{NEXT_SESSION_PAUSE_MAX, TIMEOUT_MAX};

/// Opens the next session.
pub(super) struct Opener<C> {
    config: Config<C>,
    pub(super) thread: Option<Arc<DriverThread>>,
    /// Number of attempts so far, of which each has another seed; with a session that was open from the
    /// start, one more.
    pub(super) opened: u32,
    /// When the last session was opened, if there was one.
    opened_at: Option<Instant>,
    /// Number of consecutive sessions that ended early.
    short: u32,
}

impl<C: Connector + Clone> Opener<C> {
    /// Creates an opener for the sessions after the first one.
    pub(super) fn new(mut config: Config<C>, thread: Option<Arc<DriverThread>>) -> Self {
        config.resume_nothing();
        Self { config, thread, opened: 1, opened_at: Some(now()), short: 0 }
    }

    pub(super) fn of_first(config: Config<C>, thread: Option<Arc<DriverThread>>) -> Self {
        Self { config, thread, opened: 0, opened_at: None, short: 0 }
    }

    /// Retries until the policy ends. Reports each failed attempt, and gives up when `report` returns
    /// false.
    pub(super) async fn open(
        &mut self,
        last: &Client,
        report: impl Fn(SessionChange) -> bool,
    ) -> Result<Client, Error> {
        let policy: RetryPolicy = self.config.next_session();
        let mut attempts = policy.begin();
        // Pause if servers end every session at once, instead of opening sessions in a tight loop.
        let is_short = self.opened_at.is_some_and(|at| now() - at < NEXT_SESSION_PAUSE_MAX);
        self.short = if is_short { self.short + 1 } else { 0 };
        if is_short {
            let draw = |bound| last.shared.lock().random_below(bound);
            tokio::time::sleep(policy.pause(self.short, draw)).await;
        }
        loop {
            let left = attempts.time_left().unwrap_or(TIMEOUT_MAX);
            let error = match self.attempt(last, left).await {
                Ok(client) => {
                    self.opened_at = Some(now());
                    self.config.resume_nothing();
                    return Ok(client);
                }
                Err(error) => error,
            };
            if matches!(error.kind(), ErrorKind::SessionEnded(_)) {
                self.config.resume_nothing(); // the session to resume is over
            }
            let is_refused = leaves_it_unauthenticated(error.kind())
                && !matches!(error.kind(), ErrorKind::SessionEnded(end) if end.is_loss());
            let pause = attempts.next_pause(last, None);
            let (Some(pause), false) = (pause, is_refused) else { return Err(error) };
            let attempts = attempts.failed;
            let change = SessionChange::AttemptFailed { error: error.clone(), attempts, pause };
            if !report(change) {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&mut self, last: &Client, left: Duration) -> Result<Client, Error> {
        let servers = last.shared.lock().servers();
        let config = self.config.for_next(self.opened, servers, left);
        self.opened = self.opened.wrapping_add(1);
        config.connect_on(self.thread.clone()).await
    }
}
