//! The results of a run, which the table, the plots and the record show.

use crate::stats::Samples;
use crate::throughput::Throughput;
use crate::traffic::Traffic;

/// All results of a run.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    /// Contestants and scenarios that were skipped, with the reasons.
    pub(crate) skipped: Vec<String>,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) throughput: Vec<Throughput>,
}

/// One measurement, with a line of the table for each contestant.
pub(crate) struct Row {
    /// The scenario, and the call if the scenario measures several.
    pub(crate) name: String,
    pub(crate) title: String,
    /// With the nodes behind them.
    pub(crate) waiters: usize,
    pub(crate) behind: usize,
    pub(crate) hold_ms: u128,
    pub(crate) sessions: usize,
    /// Holds of each turn.
    pub(crate) holds: usize,
    pub(crate) entries: Vec<(&'static str, Samples)>,
    /// How long each contestant held the lock.
    pub(crate) held: Vec<(&'static str, Samples)>,
}

impl Row {
    pub(crate) fn of(&self, contestant: &str) -> Option<&Samples> {
        self.entries.iter().find(|(name, _)| *name == contestant).map(|(_, samples)| samples)
    }
}
