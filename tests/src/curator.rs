//! Java's Curator as a peer process, controlled line by line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use xtask::zookeeper::{Distribution, Privilege, curator_jars};

use crate::{java, or_skip};

/// Longer than any test takes by accident.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Limit of every answer, far longer than an answer takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A Java process with a session of Curator's. `tests/java/CuratorPeer.java` lists its commands.
/// Dropping it ends the process.
#[derive(Debug)]
pub struct Curator {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    /// Answers that arrived while the caller waited for another actor's.
    early: HashMap<String, Vec<String>>,
}

impl Curator {
    /// Starts the process. Without Java or Curator it prints the reason to standard error and
    /// returns `None`. The jars are Debian's, which are installed if they are missing, or all jars in
    /// the folder `CURATOR_HOME`.
    pub fn start(connect_string: &str) -> Option<Self> {
        Self::with_timeout(connect_string, SESSION_TIMEOUT)
    }

    /// Starts the process with a session timeout, for tests that kill it and wait until its session
    /// expires. See [`Curator::start`].
    pub fn with_timeout(connect_string: &str, timeout: Duration) -> Option<Self> {
        Self::with_options(connect_string, timeout, &[])
    }

    /// Starts another program of `tests/java/`, which is controlled in the same way. See
    /// [`Curator::with_timeout`].
    pub fn with_program(program: &str, connect_string: &str, timeout: Duration) -> Option<Self> {
        Self::run_program(program, connect_string, timeout, &[])
    }

    /// Starts the process with options: `namespace=NAME`, or `digest=USER:SECRET`, which gives only
    /// that user access to its nodes. See [`Curator::with_timeout`].
    pub fn with_options(connect_string: &str, timeout: Duration, options: &[&str]) -> Option<Self> {
        Self::run_program("CuratorPeer.java", connect_string, timeout, options)
    }

    fn run_program(
        program: &str,
        connect_string: &str,
        timeout: Duration,
        options: &[&str],
    ) -> Option<Self> {
        let distribution = or_skip(Distribution::find())?;
        let jars = or_skip(curator_jars(Privilege::of_tests()))?;
        // Java uses the first Curator in the class path. A folder of ZooKeeper's jars may also have
        // one.
        let mut class_path = OsString::new();
        for jar in jars {
            class_path.push(jar);
            class_path.push(":");
        }
        class_path.push(distribution.class_path());
        let mut command = java::program(distribution.java(), &[], &class_path, program)?;
        command.arg(connect_string).arg(timeout.as_millis().to_string()).args(options);
        Some(Self::run(command, program))
    }

    fn run(mut command: Command, program: &str) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, answers) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The send fails if the receiver is dropped.
                let _ = tell.send(line);
            }
        });
        let errors = BufReader::new(process.stderr.take().unwrap());
        let errors = thread::spawn(move || errors.lines().map_while(Result::ok).collect());
        let input = process.stdin.take();
        let this = Self { process, input, answers, early: HashMap::new() };
        match this.answers.recv_timeout(LIMIT) {
            Ok(line) if line == "ready" => this,
            Err(RecvTimeoutError::Disconnected) => {
                let said: Vec<String> = errors.join().unwrap();
                panic!("{program} does not start: {}", said.join("\n"));
            }
            unexpected => panic!("{program} is not ready: {unexpected:?}"),
        }
    }

    /// Sends a command to an actor, without waiting for the answer.
    pub fn tell(&mut self, actor: &str, what: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{actor} {what}").unwrap();
        input.flush().unwrap();
    }

    /// Waits for the next answer of an actor and returns its words.
    pub fn answer(&mut self, actor: &str) -> Vec<String> {
        loop {
            if let Some(line) = self.early.get_mut(actor).filter(|lines| !lines.is_empty()) {
                return line.remove(0).split(' ').map(str::to_owned).collect();
            }
            let line = self.answers.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|error| panic!("no answer of {actor}: {error}"));
            let (from, said) = line.split_once(' ').expect("an actor and what it says");
            self.early.entry(from.to_owned()).or_default().push(said.to_owned());
        }
    }

    /// Returns true if an answer of an actor has arrived that was not taken yet.
    pub fn has_answered(&mut self, actor: &str) -> bool {
        while let Ok(line) = self.answers.try_recv() {
            let (from, said) = line.split_once(' ').expect("an actor and what it says");
            self.early.entry(from.to_owned()).or_default().push(said.to_owned());
        }
        self.early.get(actor).is_some_and(|lines| !lines.is_empty())
    }

    /// Sends a command to an actor and waits for the answer.
    pub fn ask(&mut self, actor: &str, what: &str) -> Vec<String> {
        self.tell(actor, what);
        self.answer(actor)
    }

    /// Sends a command to an actor, which must answer `ok`, and returns the words after `ok`.
    pub fn ok(&mut self, actor: &str, what: &str) -> Vec<String> {
        let mut said = self.ask(actor, what);
        assert_eq!(said[0], "ok", "{actor} {what}: {said:?}");
        said.remove(0);
        said
    }
}

impl Drop for Curator {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
