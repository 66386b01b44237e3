//! Run of many seeds on several threads, and its summary.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::oracle::Violation;
use crate::run::{Outcome, run};
use crate::suite::Suite;

/// One seed in this many is run twice, to check that both runs take the same course.
const REPEAT_EVERY: u64 = 50;

/// A range of seeds to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// The recipes.
    pub suite: Suite,
    /// The first seed.
    pub first: u64,
    /// The number of seeds.
    pub count: u64,
    /// The number of seeds that run at a time.
    pub threads: usize,
}

/// Totals of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that were run.
    pub seeds: u64,
    /// Seeds that were run twice.
    pub repeated: u64,
    /// Requests of the session workload.
    pub requests: u64,
    /// Locks granted, and successful operations of the other recipes.
    pub handoffs: u64,
    /// Hand-offs of seeds without the session workload, and the time that those seeds were on a
    /// core.
    pub of_locks_only: (u64, Duration),
    /// Steps of the longest run.
    pub steps_max: u64,
    /// Time that passed on the virtual clocks.
    pub virtual_time: Duration,
    /// Time that all threads together were on a core.
    pub busy: Duration,
    /// Wall-clock time of the campaign.
    pub elapsed: Duration,
    /// Number of faults of each kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The failure with the lowest seed.
    pub failure: Option<Outcome>,
}

impl Campaign {
    /// Runs seeds until all are done or one fails.
    #[must_use]
    pub fn run(self) -> Summary {
        let start = clock();
        let next = AtomicU64::new(0);
        let failed = AtomicBool::new(false);
        let total = Mutex::new(Summary::default());
        let work = || {
            let start = on_core();
            let mut own = Summary::default();
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.count {
                    break;
                }
                let before = on_core();
                let ran = run_checked(self.suite, self.first.wrapping_add(number), number);
                own.merge(Summary::of(ran, on_core().saturating_sub(before)));
                if own.failure.is_some() {
                    failed.store(true, Ordering::Relaxed);
                }
            }
            own.busy = on_core().saturating_sub(start);
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(own);
        };
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(work);
            }
        });
        let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        total.elapsed = start.elapsed();
        total
    }
}

/// Runs a seed. One seed in [`REPEAT_EVERY`] is run twice.
fn run_checked(suite: Suite, seed: u64, number: u64) -> (Outcome, bool) {
    let mut outcome = run(suite, seed);
    let again = number.is_multiple_of(REPEAT_EVERY) && outcome.is_repeatable;
    if again && outcome.violation.is_none() {
        let second = run(suite, seed);
        if second.hash != outcome.hash {
            let lines = outcome.trace.lines().zip(second.trace.lines());
            let differ = lines.enumerate().find(|(_, (one, other))| one != other);
            let text = format!("the second run took another course: {differ:?}");
            outcome.violation = Some(Violation { invariant: "I10", text });
        }
    }
    (outcome, again)
}

impl Summary {
    /// Returns the totals of one seed. A seed that was run twice took twice the time.
    fn of((outcome, again): (Outcome, bool), busy: Duration) -> Self {
        let times = if again { 2 } else { 1 };
        let all = |count: u64| count * u64::from(times);
        let locks =
            if outcome.is_locks_only { (all(outcome.handoffs), busy) } else { Default::default() };
        Self {
            seeds: 1,
            repeated: u64::from(again),
            requests: all(outcome.requests),
            handoffs: all(outcome.handoffs),
            of_locks_only: locks,
            steps_max: outcome.steps,
            virtual_time: outcome.virtual_time * times,
            faults: outcome.faults.iter().map(|(kind, count)| (*kind, all(*count))).collect(),
            failure: outcome.violation.is_some().then_some(outcome),
            ..Self::default()
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.repeated += other.repeated;
        self.requests += other.requests;
        self.handoffs += other.handoffs;
        self.of_locks_only.0 += other.of_locks_only.0;
        self.of_locks_only.1 += other.of_locks_only.1;
        self.steps_max = self.steps_max.max(other.steps_max);
        self.virtual_time += other.virtual_time;
        self.busy += other.busy;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.failure = match (self.failure.take(), other.failure) {
            (Some(one), Some(two)) => Some(if one.seed < two.seed { one } else { two }),
            (one, two) => one.or(two),
        };
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, repeated, requests, handoffs, elapsed, .. } = self;
        let per_sec = |count: u64, time: Duration| {
            let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
            count * 1_000 / millis
        };
        let elapsed_secs = elapsed.as_secs_f64();
        let compression = self.virtual_time.as_secs_f64() / self.busy.as_secs_f64().max(0.001);
        let speed = per_sec(*seeds, *elapsed);
        let on_core = per_sec(self.of_locks_only.0, self.of_locks_only.1);
        let of_sessions = self.busy.saturating_sub(self.of_locks_only.1);
        let asked = per_sec(*requests, of_sessions);
        writeln!(f, "{seeds} seeds, {repeated} of them twice, in {elapsed_secs:.1} s: {speed}/s")?;
        writeln!(f, "{handoffs} hand-offs, {on_core} per core-second")?;
        writeln!(f, "{requests} requests of sessions, {asked} per core-second")?;
        let virtual_secs = self.virtual_time.as_secs();
        writeln!(f, "{virtual_secs} s simulated, {compression:.0} times as fast as real time")?;
        writeln!(f, "{} steps in the longest run", self.steps_max)?;
        let all: u64 = self.faults.values().sum();
        write!(f, "{all} faults:")?;
        for (kind, count) in &self.faults {
            write!(f, " {kind} {count};")?;
        }
        Ok(())
    }
}

/// Returns how long this thread has been on a core. Other work on the machine does not count.
fn on_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[allow(clippy::disallowed_methods, reason = "how fast it is, which no simulation depends on")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
