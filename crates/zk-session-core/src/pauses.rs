//! Pauses of this process: it was stopped, suspended with its machine, or blocked by a task in its
//! runtime. A lease or session that ends during a pause is not blamed on the servers.

use std::fmt;
use std::time::{Duration, Instant};

use crate::limits::PAUSE_NOTICED;

/// Message about a time for which this process did not run.
#[derive(Clone, Copy, Debug)]
pub struct NotRunning(pub Duration);

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        write!(f, "this process did not run for {seconds:.1} s (stopped, suspended or blocked)")
    }
}

/// Detector of pauses. It compares the time of each turn with the time requested for it.
#[derive(Debug)]
pub(super) struct Pauses {
    /// Latest time requested for the next turn.
    asked_for: Option<Instant>,
    last_turn: Instant,
    /// Delay of this turn, if it counts as a pause.
    this_turn: Option<Duration>,
    /// Total of the pauses since a server last acknowledged anything.
    unheard: Duration,
}

impl Pauses {
    pub(super) fn new(now: Instant) -> Self {
        Self { asked_for: None, last_turn: now, this_turn: None, unheard: Duration::ZERO }
    }

    /// Begins a turn.
    pub(super) fn turn(&mut self, now: Instant) {
        self.this_turn = self.late_by(now);
        self.unheard += self.this_turn.unwrap_or_default();
        self.last_turn = now;
        self.asked_for = None;
    }

    pub(super) fn ask_for(&mut self, due: Option<Instant>) {
        // A request may have set a deadline before the last turn. It counts from that turn.
        self.asked_for = due.map(|due| due.max(self.last_turn));
    }

    /// Notes that a server has acknowledged something.
    pub(super) fn heard(&mut self) {
        self.unheard = Duration::ZERO;
    }

    /// Returns the delay of this turn, if it counts as a pause.
    pub(super) fn this_turn(&self) -> Option<Duration> {
        self.this_turn
    }

    /// Returns the pauses that explain why nothing happened since `since`: at least half of that
    /// time.
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
