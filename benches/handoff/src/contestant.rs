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
    output: Receiver<Said>,
    log: PathBuf,
}

impl Contestant {
    /// Starts the process of `command` and waits until it is ready. Its standard error goes to `log`.
    /// A line on its standard output that is not of the protocol goes to this process's standard error,
    /// after the name of `log`.
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
        let (tell, said) = channel();
        let name = log.file_stem().unwrap_or_default().display().to_string();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                match Said::parse(line.trim_end()) {
                    // It fails only if the contestant is dropped, which ends its process.
                    Some(said) => drop(tell.send(said)),
                    None => eprintln!("{name}: {line}"),
                }
            }
        });
        let this = Self { process, input, output: said, log };
        match this.output.recv_timeout(START_LIMIT) {
            Ok(Said::Ready) => Ok(this),
            _ => Err(format!("does not come to be ready; see {}", this.log.display())),
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
            match self.output.recv_timeout(limit) {
                Ok(Said::Hold(hold)) => holds.push(hold),
                Ok(Said::Done) => return Answer::Holds(holds),
                Ok(Said::Refused(refusal)) => return Answer::Refused(refusal),
                Ok(Said::Ready) => {}
                Err(RecvTimeoutError::Timeout) if holds.is_empty() => return Answer::Silence,
                Err(_) => return Answer::Gone(format!("has ended; see {}", self.log.display())),
            }
        }
    }
}

/// A line of the protocol.
enum Said {
    Ready,
    Hold(Hold),
    Done,
    Refused(Refusal),
}

impl Said {
    /// Parses a line. Returns `None` for a line of a log, which some clients write to standard output.
    fn parse(line: &str) -> Option<Self> {
        match line {
            "ready" => Some(Self::Ready),
            "done" => Some(Self::Done),
            _ => Hold::parse(line)
                .map(Self::Hold)
                .or_else(|| Refusal::parse(line).map(Self::Refused)),
        }
    }
}

/// The outcome of a contest.
pub(crate) enum Answer {
    Holds(Vec<Hold>),
    Refused(Refusal),
    /// The process printed nothing within the limit.
    Silence,
    /// The process has ended.
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
const START_LIMIT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stray_lines_of_a_contestant_are_skipped() {
        let script = r"echo 'INFO starting'; echo ready; read job; printf 'WARN \377\n\n'
            echo hold 1 2 3 4 5 0; echo 'hold on'; echo done; read job";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut contestant = Contestant::start(command, "/dev/null".into()).unwrap();
        let job = Job::parse("run handoff a:1 /a 1 1 0 1 1 1 1").unwrap();
        contestant.tell(&job).unwrap();
        let Answer::Holds(holds) = contestant.answer(START_LIMIT) else { panic!("no holds") };
        let hold = Hold { call: 1, owner: 2, release: 3, released: 4, order: 5, shared: false };
        assert_eq!(holds, [hold]);
    }
}
