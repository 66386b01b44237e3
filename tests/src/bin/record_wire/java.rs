//! Runs the Java program that performs the operations, and answers its commands.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Child, Stdio};

use zk_tests::{Server, java};

use crate::Outcome;
use crate::proxy::Proxy;
use crate::transcript::Transcript;

/// One run of the program.
pub(crate) struct Scenario<'a> {
    pub(crate) name: &'a str,
    pub(crate) server: &'a Server,
    pub(crate) proxy: &'a Proxy,
    pub(crate) jvm_flags: &'a [String],
}

impl Scenario<'_> {
    /// Runs the program and records what it does.
    pub(crate) fn run(&self, transcript: &Transcript) -> Outcome<()> {
        let mut program = self.spawn()?;
        let directed = self.direct(&mut program, transcript);
        transcript.pause();
        // This ends the program if it is still running, because its standard input ends.
        drop(program.stdin.take());
        let status = program.wait()?;
        directed?;
        if status.success() { Ok(()) } else { Err(format!("RecordWire.java: {status}").into()) }
    }

    fn spawn(&self) -> Outcome<Child> {
        let [java, class_path] = run_like(self.server)?;
        let file = "RecordWire.java";
        let program = java::program(Path::new(&java), self.jvm_flags, &class_path, file)
            .ok_or("no compiler in this Java")?
            .args([self.name, &self.proxy.address().to_string(), &self.server.connect_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(program)
    }

    /// Executes the commands that the program prints, line by line.
    fn direct(&self, program: &mut Child, transcript: &Transcript) -> Outcome<()> {
        let output = program.stdout.take().ok_or("no output")?;
        let mut answer = program.stdin.take().ok_or("no input")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            let (order, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match order {
                "client" => transcript.note_client(rest),
                "step" => {
                    transcript.await_replies()?;
                    transcript.pause();
                    let (operation, title) = rest.split_once(' ').unwrap_or((rest, ""));
                    if operation != "-" {
                        transcript.begin(operation, &format!("Java: {title}"));
                    }
                }
                "quiet" => {
                    transcript.await_replies()?;
                    transcript.pause();
                }
                "ping" => transcript.await_replies()?,
                "cut" => self.proxy.cut(),
                "release" => self.proxy.release(),
                _ => return Err(format!("RecordWire.java said {line:?}").into()),
            }
            writeln!(answer, "go on")?;
        }
        Ok(())
    }
}

/// Returns the Java executable and the class path of a running server, which the harness has found.
fn run_like(server: &Server) -> Outcome<[OsString; 2]> {
    let pid = server.pid().ok_or("the server does not run")?;
    let command = fs::read(format!("/proc/{pid}/cmdline"))?;
    let mut words = command.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let java = words.next().ok_or("the server has no command")?;
    let class_path = words.skip_while(|word| word != "-cp").nth(1).ok_or("no class path")?;
    Ok([java, class_path])
}
