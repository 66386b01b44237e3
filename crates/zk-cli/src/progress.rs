//! The progress of long work: a line on standard error, on a terminal only.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The number of nodes so far.
pub(crate) struct Progress {
    what: &'static str,
    done: usize,
    all: Option<usize>,
    line: ProgressLine,
}

impl Progress {
    /// Creates the progress of work such as "exported", on `all` nodes if the number is known.
    pub(crate) fn new(what: &'static str, all: Option<usize>) -> Self {
        Self { what, done: 0, all, line: ProgressLine::default() }
    }

    pub(crate) fn one_more(&mut self) {
        self.done += 1;
        if self.line.is_due() {
            self.show();
        }
    }

    /// Returns the number of nodes so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Prints the last number, if any was printed.
    pub(crate) fn end(&mut self) {
        if self.line.is_shown() {
            self.show();
        }
        self.line.end();
    }

    fn show(&mut self) {
        let all = self.all.map(|all| format!(" of {all}")).unwrap_or_default();
        self.line.show(format_args!("{} {}{all} nodes", self.what, self.done));
    }
}

/// A line of a terminal that each call writes anew.
#[derive(Default)]
pub(crate) struct ProgressLine {
    shown: Option<Instant>,
}

impl ProgressLine {
    /// Returns true on a terminal, if the line is older than [`SHOWN_EVERY`].
    fn is_due(&self) -> bool {
        stderr().is_terminal() && self.shown.is_none_or(|shown| now() - shown >= SHOWN_EVERY)
    }

    fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Writes the line on a terminal.
    pub(crate) fn show(&mut self, text: impl Display) {
        if stderr().is_terminal() {
            self.shown = Some(now());
            drop(write!(stderr(), "\r{text}\u{1b}[K"));
        }
    }

    /// Ends the line, if it was written.
    pub(crate) fn end(&mut self) {
        if self.shown.take().is_some() {
            drop(writeln!(stderr()));
        }
    }

    /// Removes the line, if it was written.
    pub(crate) fn remove(&mut self) {
        if self.shown.take().is_some() {
            drop(write!(stderr(), "\r\u{1b}[K"));
        }
    }
}

const SHOWN_EVERY: Duration = Duration::from_millis(200);

#[allow(clippy::disallowed_methods, reason = "the progress that people watch")]
fn now() -> Instant {
    Instant::now()
}
