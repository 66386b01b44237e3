//! Statistics of the comparison.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use proto::ErrorCode;

use crate::player::play::Record;
use crate::player::script::{Action, Step};

/// Counts over all scripts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    scripts: u64,
    events: u64,
    steps: BTreeMap<String, u64>,
    errors: BTreeMap<i32, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, steps: &[Step], record: &Record) {
        self.scripts += 1;
        self.events += record.events;
        for step in steps {
            let kind = match &step.action {
                Action::Connect(_) => "connect",
                Action::Send(send) => send.text.split(' ').next().unwrap_or_default(),
                Action::Raw(_) => "malformed",
                Action::HangUp => "hang up",
            };
            *self.steps.entry(kind.to_owned()).or_default() += 1;
        }
        for (code, count) in &record.errors {
            *self.errors.entry(*code).or_default() += count;
        }
    }

    pub(crate) fn summary(&self, took: Duration) -> String {
        let seconds = took.as_secs_f64();
        let steps: u64 = self.steps.values().sum();
        let per_second = steps.checked_div(took.as_secs().max(1)).unwrap_or_default();
        let mut text = format!(
            "{} scripts, {steps} steps, {} notifications, alike on both sides; {seconds:.1} s, \
             {per_second} steps/s\nsteps:",
            self.scripts, self.events
        );
        for (kind, count) in &self.steps {
            let _ = write!(text, " {kind} {count}");
        }
        text.push_str("\nanswers:");
        for (code, count) in self.errors.iter().rev() {
            let _ = write!(text, " {} {count}", ErrorCode(*code));
        }
        text
    }
}
