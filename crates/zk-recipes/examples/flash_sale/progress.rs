//! The progress display of a sale.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::line::Answer;

/// Interval at which the line on a terminal is redrawn.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Without a terminal each update is a new line, so the updates are less frequent.
const TICKS_PER_LINE: u32 = 20;

const BAR_WIDTH: u32 = 24;

/// One line on the standard error output for one round.
pub(crate) struct Progress {
    round: &'static str,
    buyers: u32,
    bought: u32,
    sold_out: u32,
    ticks: u32,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(round: &'static str, buyers: u32) -> Self {
        Self {
            round,
            buyers,
            bought: 0,
            sold_out: 0,
            ticks: 0,
            terminal: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn count(&mut self, answer: Answer) {
        match answer {
            Answer::Bought => self.bought += 1,
            Answer::SoldOut => self.sold_out += 1,
        }
    }

    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        if self.terminal {
            write(&format!("\r{}\x1b[K", self.line()));
        } else if self.ticks % TICKS_PER_LINE == 0 {
            write(&format!("{}\n", self.line()));
        }
    }

    /// Writes the last line of the round.
    pub(crate) fn finish(&self) {
        match self.terminal {
            true => write(&format!("\r{}\x1b[K\n", self.line())),
            false => write(&format!("{}\n", self.line())),
        }
    }

    /// Ends the line, so that an error message starts on its own line.
    pub(crate) fn abandon(&self) {
        if self.terminal && self.ticks > 0 {
            write("\n");
        }
    }

    fn line(&self) -> String {
        let served = self.bought + self.sold_out;
        let filled = BAR_WIDTH * served / self.buyers.max(1);
        let mut line = format!("  {:18} [", self.round);
        for column in 0..BAR_WIDTH {
            line.push(if column < filled { '#' } else { '.' });
        }
        let width = self.buyers.to_string().len();
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "] {served:width$} of {} served: {} bought, {} told \"sold out\"",
            self.buyers, self.bought, self.sold_out
        );
        line
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // If this fails, the output has no reader.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
