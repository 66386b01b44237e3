//! The progress of long work: a line on standard error, on a terminal only.

use crate::prelude::{Duration, Instant, clock};
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

/// The number of nodes so far.
pub(crate) struct Progress {
    what: &'static str,
    pub(crate) done: usize,
    all: Option<usize>,
    line: ProgressLine,
}

impl Progress {
    /// Creates the progress of work, for example "exported", on `all` nodes if the number is known.
    pub(crate) fn new(what: &'static str, all: Option<usize>) -> Self {
        Self { what, done: 0, all, line: ProgressLine::new() }
    }

    pub(crate) fn silent() -> Self {
        Self { line: ProgressLine { due: None, is_shown: false }, ..Self::new("", None) }
    }

    pub(crate) fn one_more(&mut self) {
        self.done += 1;
        if self.line.is_due() {
            let all = self.all.map(|all| format!(" of {all}")).unwrap_or_default();
            self.line.show(format_args!("{}{all} nodes {}", self.done, self.what));
        }
    }

    /// Removes the line, so that another one can be printed.
    pub(crate) fn hide(&mut self) {
        self.line.remove();
    }
}

/// A line of a terminal that each call writes anew. It is removed when this value is dropped.
pub(crate) struct ProgressLine {
    /// Time from which the line is written; `None` if standard error is no terminal.
    due: Option<Instant>,
    is_shown: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        let due = stderr().is_terminal().then(|| clock() + SHOWN_EVERY);
        Self { due, is_shown: false }
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= clock())
    }

    /// Writes the line on a terminal.
    pub(crate) fn show(&mut self, text: impl Display) {
        if let Some(due) = &mut self.due {
            *due = clock() + SHOWN_EVERY;
            self.is_shown = true;
            drop(write!(stderr(), "\r{text}\u{1b}[K"));
        }
    }

    /// Removes the line, if it was written.
    pub(crate) fn remove(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            drop(write!(stderr(), "\r\u{1b}[K"));
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Interval between two states of the line. Shorter work shows none.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
