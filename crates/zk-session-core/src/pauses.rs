//! Times for which this process did not run: stopped, suspended with its machine, or kept from
//! running by a task that blocks its runtime. What ends meanwhile is not to be blamed on servers.

use std::time::{Duration, Instant};

use crate::limits::PAUSE_NOTICED;

/// Compares each turn with the time at which it was asked for.
#[derive(Debug)]
pub(super) struct Pauses {
    /// When the next turn is to come, at the latest.
    asked_for: Option<Instant>,
    last_turn: Instant,
    /// How late this turn is, if it is.
    this_turn: Option<Duration>,
    /// All since a server last acknowledged anything.
    unheard: Duration,
}

impl Pauses {
    pub(super) fn new(now: Instant) -> Self {
        Self { asked_for: None, last_turn: now, this_turn: None, unheard: Duration::ZERO }
    }

    /// The session is told the time.
    pub(super) fn turn(&mut self, now: Instant) {
        self.this_turn = self.late_by(now);
        self.unheard += self.this_turn.unwrap_or_default();
        self.last_turn = now;
        self.asked_for = None;
    }

    pub(super) fn ask_for(&mut self, due: Option<Instant>) {
        // A request may have put a deadline into the past: it is due from now on.
        self.asked_for = due.map(|due| due.max(self.last_turn));
    }

    /// A server has acknowledged something.
    pub(super) fn heard(&mut self) {
        self.unheard = Duration::ZERO;
    }

    /// How late this turn is, if that is a pause.
    pub(super) fn this_turn(&self) -> Option<Duration> {
        self.this_turn
    }

    /// The pauses that explain why nothing happened since then: at least half of the time.
    pub(super) fn since(&self, since: Instant, now: Instant) -> Option<Duration> {
        let paused = self.unheard + self.late_by(now).unwrap_or_default();
        let time = now.saturating_duration_since(since);
        (!paused.is_zero() && paused * 2 >= time).then(|| paused.min(time))
    }

    fn late_by(&self, now: Instant) -> Option<Duration> {
        let late = now.checked_duration_since(self.asked_for?)?;
        (late >= PAUSE_NOTICED).then_some(late)
    }
}
