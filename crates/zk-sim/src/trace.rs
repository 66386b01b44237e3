//! Trace of a run: one line for each event, with virtual times.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};

use tokio::time::Instant;

/// The trace of one seed.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The time of the first line.
    start: Option<Instant>,
    text: String,
}

impl Trace {
    pub(crate) fn line(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        let at = now - *self.start.get_or_insert(now);
        let (secs, micros) = (at.as_secs(), at.subsec_micros());
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{secs:>6}.{micros:06}  {what}");
    }

    /// Returns a hash that is the same for two runs with the same course. The hasher has fixed
    /// keys.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.text.as_bytes());
        hasher.finish()
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}
