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
use crate::script::{Fault, Point, Strike};
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
    /// Steps of the longest run.
    pub steps_max: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
}

impl Sweep {
    /// Runs all scripts.
    #[must_use]
    pub fn run(&self) -> Swept {
        let start = clock();
        let whole = run_script(self.world, &[]);
        let total =
            Mutex::new(Swept { points: whole.points.iter().flatten().count(), ..Swept::default() });
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

    /// Returns every fault at every point after `after`.
    fn strikes(&self, points: &[Option<Point>], after: u64) -> Vec<Strike> {
        let numbered = (1..).zip(points).filter(|(point, _)| *point > after);
        let all = numbered.flat_map(|(point, kind)| {
            let has = |fault: &&Fault| kind.is_some_and(|kind| kind.has(**fault));
            self.faults.iter().filter(has).map(move |fault| Strike { point, fault: *fault })
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
            total.steps_max = total.steps_max.max(outcome.steps);
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

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// Returns the lines of a trace without those of faults.
    fn others(outcome: &Outcome) -> impl Iterator<Item = &str> {
        outcome.trace.lines().filter(|line| !line.contains("fault script"))
    }

    #[test]
    fn each_fault_strikes_at_its_point_and_changes_the_run() {
        let whole = run_script(SmallWorld::Mutex, &[]);
        let points = || (1..).zip(&whole.points).skip(20);
        let first = |kind| points().find(|(_, point)| **point == Some(kind)).unwrap().0;
        for fault in Fault::value_variants() {
            if Point::Woken.has(*fault) {
                let point = first(Point::Woken);
                let outcome = run_script(SmallWorld::Mutex, &[Strike { point, fault: *fault }]);
                assert!(outcome.trace.contains(&format!("{fault} at {point}")), "{fault}");
            }
            let point = first(Point::Sent);
            let script = [Strike { point, fault: *fault }];
            let outcome = run_script(SmallWorld::Mutex, &script);
            assert_eq!(outcome.violation, None, "{fault}");
            assert!(outcome.trace.contains(&format!("{fault} at {point}")), "{fault}");
            let is_same = others(&outcome).eq(others(&whole));
            assert!(!is_same, "{fault}");
            assert_eq!(run_script(SmallWorld::Mutex, &script).hash, outcome.hash, "{fault}");
        }
    }

    #[test]
    fn small_worlds_do_what_they_are_for() {
        let granted = |world: SmallWorld, what: &str| {
            let Outcome { trace, violation, .. } = run_script(world, &[]);
            assert_eq!(violation, None, "{world}");
            let (faults, _) = trace.split_once("all faults end").unwrap();
            faults.matches(what).count()
        };
        assert_eq!(granted(SmallWorld::Mutex, "granted"), 3);
        assert_eq!(granted(SmallWorld::RwLock, "granted #2"), 2, "as a writer and as a reader");
        assert!(granted(SmallWorld::Semaphore, "-lease-0000000001\"]") > 0, "two permits");
        assert_eq!(granted(SmallWorld::Election, "granted"), 3);
        assert!(granted(SmallWorld::Counter, "Applied") > 3);
        assert!(granted(SmallWorld::DoubleBarrier, "left with all others") > 1);
    }

    #[test]
    fn pairs_strike_at_later_points_of_the_run_with_one_fault() {
        let faults = vec![Fault::CutAfter];
        let sweep = Sweep { world: SmallWorld::Counter, faults, has_pairs: false, threads: 1 };
        let singles = sweep.run();
        assert_eq!(singles.runs, 1 + u64::try_from(singles.points).unwrap());
        assert!(singles.findings.is_empty());
        let points = [Point::Sent, Point::Received, Point::Woken, Point::Sent].map(Some);
        let later = sweep.strikes(&points, 1);
        assert_eq!(
            later.iter().map(Strike::to_string).collect::<Vec<_>>(),
            ["2:cut-after", "3:cut-after", "4:cut-after"]
        );
        let late = Sweep { faults: vec![Fault::Late], ..sweep };
        assert_eq!(late.strikes(&points, 0).len(), 2);
        let cuts = Sweep { faults: vec![Fault::CutBefore], ..late };
        assert_eq!(cuts.strikes(&points, 0).len(), 3);
    }
}
