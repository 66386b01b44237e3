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
    expected: Option<Instant>,
    last_turn: Instant,
    /// Delay of this turn, if it counts as a pause.
    this_turn: Option<Duration>,
    /// Total of the pauses since a server last acknowledged anything.
    since_acknowledged: Duration,
}

impl Pauses {
    pub(super) fn new(now: Instant) -> Self {
        Self { expected: None, last_turn: now, this_turn: None, since_acknowledged: Duration::ZERO }
    }

    /// Begins a turn.
    pub(super) fn turn(&mut self, now: Instant) {
        self.this_turn = self.late_by(now);
        self.since_acknowledged += self.this_turn.unwrap_or_default();
        self.last_turn = now;
        self.expected = None;
    }

    pub(super) fn expect_turn(&mut self, due: Option<Instant>) {
        // A request may have set a deadline before the last turn. It counts from that turn.
        self.expected = due.map(|due| due.max(self.last_turn));
    }

    pub(super) fn acknowledged(&mut self) {
        self.since_acknowledged = Duration::ZERO;
    }

    /// Returns the delay of this turn, if it counts as a pause.
    pub(super) fn this_turn(&self) -> Option<Duration> {
        self.this_turn
    }

    /// Returns the pauses that explain why nothing happened since `since`: at least half of that
    /// time.
    pub(super) fn since(&self, since: Instant, now: Instant) -> Option<Duration> {
        let paused = self.since_acknowledged + self.late_by(now).unwrap_or_default();
        let time = now.saturating_duration_since(since);
        (!paused.is_zero() && paused * 2 >= time).then(|| paused.min(time))
    }

    fn late_by(&self, now: Instant) -> Option<Duration> {
        let late = now.checked_duration_since(self.expected?)?;
        (late >= PAUSE_NOTICED).then_some(late)
    }
}
