//! Summary of the runs of a scenario.

use std::collections::BTreeMap;
use std::fmt;

use zk_tests::chaos::checker::Verdict;
use zk_tests::chaos::report;
use zk_tests::chaos::round::HolderEnd;

use crate::Ending;

/// Sum over several runs.
#[derive(Debug)]
pub(crate) struct Summary {
    name: String,
    runs: usize,
    broken: usize,
    holder_ends: BTreeMap<String, usize>,
    verdict: Verdict,
}

impl Summary {
    pub(crate) fn new(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, runs: 0, broken: 0, holder_ends: BTreeMap::new(), verdict: Verdict::default() }
    }

    /// Adds the verdict of a run.
    pub(crate) fn add(&mut self, verdict: Verdict) {
        self.runs += 1;
        self.broken += usize::from(!verdict.violations.is_empty());
        self.verdict.add(verdict);
    }

    /// Counts the outcome for a holder.
    pub(crate) fn count(&mut self, holder_end: &HolderEnd) {
        *self.holder_ends.entry(describe(holder_end)).or_default() += 1;
    }

    pub(crate) fn broken(&self) -> usize {
        self.broken
    }

    /// Returns how the runs ended. `NotRun` if the scenario could not run here at all.
    pub(crate) fn ending(&self) -> Ending {
        match self.runs {
            0 => Ending::NotRun,
            _ if self.broken == 0 && self.verdict.grants > 0 => Ending::Sound,
            _ => Ending::Broken,
        }
    }
}

/// Describes the outcome for a holder in a word or a line.
pub(crate) fn describe(holder_end: &HolderEnd) -> String {
    match holder_end {
        HolderEnd::Lost => "lost".to_owned(),
        HolderEnd::Kept => "kept".to_owned(),
        HolderEnd::LostEarly => "lost before the fault".to_owned(),
        HolderEnd::Void(reason) => format!("void ({reason})"),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, runs, broken, verdict, .. } = self;
        writeln!(
            f,
            "\n{name}: {runs} runs, {} grants, {broken} runs with violations",
            verdict.grants
        )?;
        for (holder_end, count) in &self.holder_ends {
            writeln!(f, "  holder {holder_end}: {count}")?;
        }
        for (reason, count) in &verdict.losses {
            writeln!(f, "  losses because {reason}: {count}")?;
        }
        write!(f, "{}", report::margins(&verdict.margins_us))?;
        for violation in verdict.violations.iter().take(VIOLATIONS_MAX) {
            writeln!(f, "  VIOLATION: {violation}")?;
        }
        let more = verdict.violations.len().saturating_sub(VIOLATIONS_MAX);
        if more > 0 {
            writeln!(f, "  and {more} more; the histories have all of them")?;
        }
        Ok(())
    }
}

const VIOLATIONS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_without_a_run_is_not_a_success() {
        let mut summary = Summary::new("x");
        assert_eq!(summary.ending(), Ending::NotRun);
        summary.add(Verdict::default());
        assert_eq!(summary.ending(), Ending::Broken);
        summary.add(Verdict { grants: 1, ..Verdict::default() });
        assert_eq!(summary.ending(), Ending::Sound);
        assert!(Ending::Sound < Ending::NotRun && Ending::NotRun < Ending::Broken);
    }
}
