//! Counts of passed, failed and skipped tests in the output of `cargo test`.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use crate::tasks::{Failure, display};
use crate::zookeeper::SKIPPED;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Tally {
    /// Runs `cargo test`, passes its output on line by line, and returns the counts and whether it succeeded.
    pub(super) fn of(command: &mut Command) -> Result<(Self, bool), Failure> {
        let name = display(command);
        println!("==> {name}");
        let mut run = || {
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let tally = thread::scope(|scope| {
                let skipped = scope.spawn(|| count_skips(stderr, io::stderr()));
                let tally = Self::count_results(stdout, io::stdout());
                tally.without(skipped.join().unwrap_or_default())
            });
            Ok((tally, child.wait()?.success()))
        };
        run().map_err(|error: io::Error| Failure::task(format!("could not run {name}: {error}")))
    }

    /// Sums the results in standard output.
    fn count_results(stdout: Option<impl Read>, to: impl Write) -> Self {
        let mut tally = Self::default();
        pass_on(stdout, to, |line| tally.add(line));
        tally
    }

    /// Moves the skipped tests, which the test runner counts as passed.
    fn without(self, skipped: u32) -> Self {
        Self { passed: self.passed.saturating_sub(skipped), skipped, ..self }
    }

    /// Adds the counts of a line like `test result: ok. 4 passed; 0 failed; 0 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let count = |what: &str| {
            let before = result.split(what).next().unwrap_or_default();
            before.rsplit(' ').nth(1)?.parse::<u32>().ok()
        };
        self.passed += count("passed").unwrap_or_default();
        self.failed += count("failed").unwrap_or_default();
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Counts the lines of [`skip`](crate::zookeeper::skip) in standard error.
fn count_skips(stderr: Option<impl Read>, to: impl Write) -> u32 {
    let mut skipped = 0;
    pass_on(stderr, to, |line| skipped += u32::from(line.starts_with(SKIPPED)));
    skipped
}

fn pass_on(from: Option<impl Read>, mut to: impl Write, mut each: impl FnMut(&str)) {
    let Some(from) = from else { return };
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        each(&String::from_utf8_lossy(&line));
        // A closed output is no reason to stop the tests.
        let _ = to.write_all(&[&line[..], b"\n"].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_sums_results_and_subtracts_skips() {
        let stdout = "test a ... ok\ntest result: ok. 4 passed; 0 failed; 0 ignored; 1 filtered out\n\
                      test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 filtered out\n";
        let stderr = "warning: one\nSKIPPED a_test: no Java\n";
        let mut output = Vec::new();
        let tally = Tally::count_results(Some(stdout.as_bytes()), &mut output);
        assert_eq!(output, stdout.as_bytes());
        let tally = tally.without(count_skips(Some(stderr.as_bytes()), io::sink()));
        assert_eq!(tally.to_string(), "15 passed, 2 failed, 1 skipped");
    }
}
