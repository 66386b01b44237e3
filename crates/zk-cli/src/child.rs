//! The command that runs under a lock.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use zk_recipes::{FencingToken, Guard};

use crate::failure::Failure;

/// How long the command has to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// A running command.
pub(crate) struct Child {
    process: tokio::process::Child,
}

impl Child {
    /// Starts `command` and tells it of the lock.
    pub(crate) fn spawn(
        command: &[OsString],
        guard: &Guard,
        token: FencingToken,
    ) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::other("there is no command to run".to_owned()));
        };
        let process = Command::new(program)
            .args(arguments)
            .env("ZK_LOCK_NODE", guard.node())
            .env("ZK_FENCING_TOKEN", token.to_string())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::other(format!("{}: {error}", program.display())))?;
        Ok(Self { process })
    }

    /// Waits for the end; the exit status as a shell would have it.
    pub(crate) async fn wait(&mut self) -> Result<u8, Failure> {
        let status = self.process.wait().await;
        let status =
            status.map_err(|error| Failure::other(format!("waiting for the command: {error}")))?;
        Ok(code(status))
    }

    /// Passes a signal on, if the command still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.process.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid {
            // It may have ended this moment, which is what the signal is for.
            let _already_gone = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Ends the command: by SIGTERM, or else by SIGKILL.
    pub(crate) async fn end(&mut self) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(GRACE, self.process.wait()).await.is_err() {
            self.signal(Signal::SIGKILL);
            drop(self.process.wait().await);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
