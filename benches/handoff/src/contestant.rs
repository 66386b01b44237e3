//! A contestant: a process that runs contests and reports its holds.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use zk_benches::contest::{Hold, Job, Refusal};

/// A contestant process. Dropping it kills the process.
pub(crate) struct Contestant {
    process: Child,
    input: ChildStdin,
    output: Receiver<String>,
    log: PathBuf,
}

impl Contestant {
    /// Starts the process of `command` and waits until it is ready. Its standard error goes to
    /// `log`.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Result<Self, String> {
        let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|error| format!("cannot start: {error}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("no pipes to talk through".to_owned());
        };
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let this = Self { process, input, output: lines, log };
        match this.output.recv_timeout(START_LIMIT) {
            Ok(line) if line == "ready" => Ok(this),
            Ok(line) => Err(format!("says `{line}` instead of being ready")),
            Err(_) => Err(format!("does not come to be ready; see {}", this.log.display())),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a job to the process. [`Contestant::answer`] returns the outcome.
    pub(crate) fn tell(&mut self, job: &Job) -> Result<(), Refusal> {
        writeln!(self.input, "{}", job.to_line())?;
        Ok(self.input.flush()?)
    }

    /// Waits for the outcome, up to `limit` from line to line. After [`Answer::Gone`] the process
    /// cannot be used any more.
    pub(crate) fn answer(&self, limit: Duration) -> Answer {
        let mut holds = Vec::new();
        loop {
            let line = match self.output.recv_timeout(limit) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if holds.is_empty() => return Answer::Silence,
                Err(_) => return Answer::Gone(format!("has ended; see {}", self.log.display())),
            };
            if line == "done" {
                return Answer::Holds(holds);
            }
            match (Hold::parse(&line), Refusal::parse(&line)) {
                (Some(hold), _) => holds.push(hold),
                (None, Some(refusal)) => return Answer::Refused(refusal),
                (None, None) => return Answer::Gone(format!("says `{line}`")),
            }
        }
    }
}

/// The outcome of a contest.
pub(crate) enum Answer {
    Holds(Vec<Hold>),
    Refused(Refusal),
    /// The process printed nothing within the limit.
    Silence,
    /// The process has ended, or prints invalid lines.
    Gone(String),
}

impl Drop for Contestant {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Enough for a JVM that compiles the contestant on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(30);
