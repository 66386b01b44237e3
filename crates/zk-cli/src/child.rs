//! The command that runs under a lock.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::failure::Failure;

/// How long the command has to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How often is looked whether what the command started has ended as well.
const LOOK: Duration = Duration::from_millis(20);

/// A running command.
pub(crate) struct Child {
    process: tokio::process::Child,
    reach: Reach,
}

/// Whom a signal reaches.
#[derive(Clone, Copy)]
enum Reach {
    /// The command and all it has started, which are a process group of their own.
    Group(Pid),
    /// The command alone. It shares this process's group, so that it can use the
    /// terminal: one in the background could not read from it.
    Process(Pid),
}

impl Child {
    /// Starts `command` and tells it of what it runs under.
    pub(crate) fn spawn(command: &[OsString], nodes: &str, tokens: &str) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::other("there is no command to run".to_owned()));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("ZK_LOCK_NODE", nodes)
            .env("ZK_FENCING_TOKEN", tokens)
            .kill_on_drop(true);
        let reach = match stdin().is_terminal() {
            true => Reach::Process,
            false => {
                command.process_group(0);
                Reach::Group
            }
        };
        let failed = |why: &dyn Display| Failure::other(format!("{}: {why}", program.display()));
        let process = command.spawn().map_err(|error| failed(&error))?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok());
        let pid = pid.ok_or_else(|| failed(&"it has no process id"))?;
        Ok(Self { process, reach: reach(Pid::from_raw(pid)) })
    }

    /// Waits for the end; the exit status as a shell would have it.
    pub(crate) async fn wait(&mut self) -> Result<u8, Failure> {
        let status = self.process.wait().await;
        let status =
            status.map_err(|error| Failure::other(format!("waiting for the command: {error}")))?;
        Ok(code(status))
    }

    /// Passes a signal on, if there is anybody left.
    pub(crate) fn signal(&self, signal: Signal) {
        // They may have ended this moment, which is what the signal is for.
        let _already_gone = self.send(Some(signal));
    }

    /// Ends the command, and what it has started: by SIGTERM, or else by SIGKILL.
    pub(crate) async fn end(&mut self) {
        self.signal(Signal::SIGTERM);
        drop(tokio::time::timeout(GRACE, self.all_gone()).await);
        self.signal(Signal::SIGKILL);
        drop(self.process.wait().await);
    }

    async fn all_gone(&mut self) {
        drop(self.process.wait().await);
        while self.send(None).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn send(&self, signal: Option<Signal>) -> nix::Result<()> {
        match self.reach {
            Reach::Group(group) => killpg(group, signal),
            // Its number belongs to it only until it was waited for.
            Reach::Process(pid) if self.process.id().is_some() => kill(pid, signal),
            Reach::Process(_) => Err(nix::errno::Errno::ESRCH),
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
