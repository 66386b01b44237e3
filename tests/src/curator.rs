//! Java's Curator as a peer process, controlled line by line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use xtask::zookeeper::{Distribution, Privilege, curator_jars};

use crate::{LIMIT, java, or_skip};

/// A Java process with a session of Curator's; see `tests/java/Peer.java`. A dropped one that has answered
/// all commands serves another test of this process.
#[derive(Debug)]
pub struct Curator(Option<Peer>);

#[derive(Debug)]
struct Peer {
    /// The program and its arguments.
    key: String,
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    /// Answers that arrived while the caller waited for another actor's.
    early: HashMap<String, Vec<String>>,
    /// Number of commands that were not answered yet.
    open: usize,
}

/// Idle processes. They end with their input, which ends with this process.
static IDLE: Mutex<Vec<Peer>> = Mutex::new(Vec::new());

impl Curator {
    /// Starts `CuratorPeer.java` with options: `namespace=NAME`, or `digest=USER:SECRET`, which gives only
    /// that user access to its nodes. See [`Curator::with_program`].
    pub fn start(connect_string: &str, timeout: Duration, options: &[&str]) -> Option<Self> {
        Self::run_program("CuratorPeer.java", connect_string, timeout, options)
    }

    /// Starts a program of `tests/java/`. Without Java or Curator it prints the reason to standard error
    /// and returns `None`. The jars are Debian's, which are installed if they are missing, or all jars in
    /// the folder `CURATOR_HOME`.
    pub fn with_program(program: &str, connect_string: &str, timeout: Duration) -> Option<Self> {
        Self::run_program(program, connect_string, timeout, &[])
    }

    fn run_program(
        program: &str,
        connect_string: &str,
        timeout: Duration,
        options: &[&str],
    ) -> Option<Self> {
        let key = format!("{program} {connect_string} {timeout:?} {options:?}");
        let mut idle = IDLE.lock().unwrap();
        if let Some(index) = idle.iter().position(|peer| peer.key == key) {
            return Some(Self(Some(idle.swap_remove(index))));
        }
        drop(idle);
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
        Some(Self::run(command, key))
    }

    fn run(mut command: Command, key: String) -> Self {
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
        let input = process.stdin.take().unwrap();
        match answers.recv_timeout(2 * LIMIT) {
            Ok(line) if line == "ready" => {}
            Err(RecvTimeoutError::Disconnected) => {
                let said: Vec<String> = errors.join().unwrap();
                panic!("{key} does not start: {}", said.join("\n"));
            }
            unexpected => panic!("{key} is not ready: {unexpected:?}"),
        }
        Self(Some(Peer { key, process, input, answers, early: HashMap::new(), open: 0 }))
    }

    fn peer(&mut self) -> &mut Peer {
        self.0.as_mut().expect("it is not dropped")
    }

    /// Kills the process. Its session stays until it expires.
    pub fn kill(mut self) {
        self.0.take().expect("it is not dropped").kill();
    }

    /// Sends a command to an actor, without waiting for the answer.
    pub fn tell(&mut self, actor: &str, what: &str) {
        let peer = self.peer();
        peer.open += 1;
        writeln!(peer.input, "{actor} {what}").unwrap();
        peer.input.flush().unwrap();
    }

    /// Waits for the next answer of an actor and returns its words.
    pub fn answer(&mut self, actor: &str) -> Vec<String> {
        let peer = self.peer();
        loop {
            if let Some(line) = peer.early.get_mut(actor).filter(|lines| !lines.is_empty()) {
                peer.open = peer.open.saturating_sub(1);
                return line.remove(0).split(' ').map(str::to_owned).collect();
            }
            let line = peer.answers.recv_timeout(2 * LIMIT);
            peer.keep(&line.unwrap_or_else(|error| panic!("no answer of {actor}: {error}")));
        }
    }

    /// Returns true if an answer of an actor has arrived that was not taken yet.
    pub fn has_answered(&mut self, actor: &str) -> bool {
        let peer = self.peer();
        while let Ok(line) = peer.answers.try_recv() {
            peer.keep(&line);
        }
        peer.early.get(actor).is_some_and(|lines| !lines.is_empty())
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

impl Peer {
    fn keep(&mut self, line: &str) {
        let (from, said) = line.split_once(' ').expect("an actor and what it says");
        self.early.entry(from.to_owned()).or_default().push(said.to_owned());
    }

    fn kill(mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Curator {
    fn drop(&mut self) {
        let Some(peer) = self.0.take() else { return };
        let is_idle = peer.open == 0 && peer.early.values().all(Vec::is_empty);
        if is_idle && !thread::panicking() {
            IDLE.lock().unwrap().push(peer);
        } else {
            peer.kill();
        }
    }
}
