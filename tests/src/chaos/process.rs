//! Processes of contenders: the engine starts, commands and stops them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::contender::CONNECTED;
use super::event::{Event, What};
use super::history::History;
use crate::{poll, signal};

/// A contender process. Dropping it kills the process.
#[derive(Debug)]
pub struct Process {
    number: u32,
    child: Child,
    input: Option<ChildStdin>,
    history: History,
}

/// Arguments of a new contender process.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The program with the subcommand `contender`.
    pub program: &'a Path,
    /// Number of the contender.
    pub number: u32,
    /// Servers of its session.
    pub connect_string: &'a str,
    /// Timeout of its session.
    pub timeout: Duration,
    /// The server at which the session begins.
    pub first: Option<&'a str>,
}

impl Process {
    /// Starts a process whose events go to `history`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(start: &Start<'_>, history: &History) -> std::io::Result<Self> {
        let mut child = Command::new(start.program)
            .args(["contender", &start.number.to_string(), start.connect_string])
            .arg(start.timeout.as_millis().to_string())
            .args(start.first)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(output) = child.stdout.take() {
            let (history, number) = (history.clone(), start.number);
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let event = line.parse();
                    history.push(event.unwrap_or_else(|error| Event::note(0, number, error)));
                }
            });
        }
        let input = child.stdin.take();
        Ok(Self { number: start.number, child, input, history: history.clone() })
    }

    /// Returns the number of the contender.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Waits until the session is connected, and returns the time of the connection.
    pub fn connected(&self, limit: Duration) -> Option<u64> {
        self.noted(CONNECTED, 0, limit).map(|event| event.at_us)
    }

    /// Waits for a note that starts with `text` and is not older than `since_us`.
    pub fn noted(&self, text: &str, since_us: u64, limit: Duration) -> Option<Event> {
        self.event(
            since_us,
            limit,
            |what| matches!(what, What::Note(note) if note.starts_with(text)),
        )
    }

    /// Waits for a grant.
    pub fn granted(&self, limit: Duration) -> Option<Event> {
        self.event(0, limit, |what| matches!(what, What::Granted { .. }))
    }

    /// Waits for an event of this contender.
    pub fn event(
        &self,
        since_us: u64,
        limit: Duration,
        is_it: impl Fn(&What) -> bool,
    ) -> Option<Event> {
        let number = self.number;
        self.history.wait_for(limit, |events| {
            let found = events.iter().rev().find(|event| {
                event.contender == number && event.at_us >= since_us && is_it(&event.what)
            });
            found.cloned()
        })
    }

    /// Sends a command.
    pub fn send(&mut self, command: &str) {
        if let Some(input) = &mut self.input {
            // A process that has ended has left its events in the history.
            let _ = writeln!(input, "{command}");
        }
    }

    /// Stops the process, and waits until it is stopped.
    pub fn stop(&self) {
        self.history.note(self.number, What::Stopped);
        signal(self.child.id(), "STOP");
        let is_stopped = || matches!(self.state(), None | Some('T' | 'Z')).then_some(());
        poll(SIGNAL_LIMIT, is_stopped).expect("SIGSTOP has no effect");
    }

    /// Continues the process.
    pub fn resume(&self) {
        signal(self.child.id(), "CONT");
        self.history.note(self.number, What::Continued);
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        // Both calls fail only if the process has ended.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.history.note(self.number, What::Killed);
        }
    }

    /// Makes the process close its session and end.
    pub fn close(mut self) {
        self.input = None;
        poll(CLOSE_LIMIT, || self.child.try_wait().ok().flatten());
    }

    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

const SIGNAL_LIMIT: Duration = Duration::from_secs(5);
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
