//! Runs of a small world with every single fault, or with every pair, at every point.

use std::fmt;
use std::io::{IsTerminal, Write as _, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::campaign::clock;
use crate::oracle::Violation;
use crate::run::{Outcome, run_script};
use crate::script::{Fault, Strike};
use crate::small_world::SmallWorld;

/// One run in this many is repeated, to check that it takes the same course.
const REPEAT_EVERY: u64 = 100;

/// Faults to try at each point of a small world.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The world.
    pub world: SmallWorld,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Whether a second fault strikes at each later point of each run with one fault.
    pub has_pairs: bool,
    /// The number of runs at a time.
    pub threads: usize,
}

/// A script that breaks an invariant.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The world.
    pub world: SmallWorld,
    /// The script.
    pub strikes: Vec<Strike>,
    /// The broken invariant.
    pub violation: Violation,
}

/// Totals of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Points of the run without a fault.
    pub points: usize,
    /// Scripts that were run.
    pub runs: u64,
    /// Scripts that break an invariant.
    pub findings: Vec<Finding>,
    /// Wall-clock time.
    pub elapsed: Duration,
}

impl Sweep {
    /// Runs all scripts.
    #[must_use]
    pub fn run(&self) -> Swept {
        let start = clock();
        let whole = run_script(self.world, &[]);
        let total = Mutex::new(Swept { points: whole.points.len(), ..Swept::default() });
        self.add(&total, &[], &whole);
        let firsts = self.strikes(&whole.points, 0);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(first) = firsts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.check(&total, &[*first]);
                let is_ok = outcome.violation.is_none();
                let seconds = self.strikes(&outcome.points, first.point);
                for second in seconds.into_iter().filter(|_| self.has_pairs && is_ok) {
                    self.check(&total, &[*first, second]);
                }
                self.show_progress(next.load(Ordering::Relaxed).min(firsts.len()), firsts.len());
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(work);
            }
        });
        let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        total.findings.sort_by_key(|finding| {
            let mut points = finding.strikes.iter().map(|strike| strike.point);
            (points.next(), points.next())
        });
        total.elapsed = start.elapsed();
        total
    }

    /// Returns every fault at every point after `after`. A frame from a server cannot be late: its
    /// connection is closed.
    fn strikes(&self, points: &[bool], after: u64) -> Vec<Strike> {
        let numbered = (1..).zip(points).filter(|(point, _)| *point > after);
        let all = numbered.flat_map(|(point, is_sent)| {
            let faults = self.faults.iter().filter(|fault| *is_sent || **fault != Fault::Late);
            faults.map(move |fault| Strike { point, fault: *fault })
        });
        all.collect()
    }

    fn check(&self, total: &Mutex<Swept>, strikes: &[Strike]) -> Outcome {
        let outcome = run_script(self.world, strikes);
        self.add(total, strikes, &outcome);
        outcome
    }

    fn add(&self, total: &Mutex<Swept>, strikes: &[Strike], outcome: &Outcome) {
        let runs = {
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.runs += 1;
            total.runs
        };
        let differs = || run_script(self.world, strikes).hash != outcome.hash;
        let text = || "the second run took another course".to_owned();
        let violation = match &outcome.violation {
            None if runs % REPEAT_EVERY == 1 && differs() => {
                Some(Violation { invariant: "I10", text: text() })
            }
            other => other.clone(),
        };
        let finding =
            |violation| Finding { world: self.world, strikes: strikes.to_vec(), violation };
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.findings.extend(violation.map(finding));
    }

    fn show_progress(&self, done: usize, all: usize) {
        if stderr().is_terminal() {
            // Nothing depends on the progress that is shown.
            let _ = write!(stderr(), "\r{:?}: {done} of {all} first faults ", self.world);
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strikes: Vec<String> = self.strikes.iter().map(Strike::to_string).collect();
        let Violation { invariant, text } = &self.violation;
        writeln!(f, "{invariant} is broken: {text}")?;
        write!(f, "  cargo xtask sim script --world {} --strike {}", self.world, strikes.join(","))
    }
}
