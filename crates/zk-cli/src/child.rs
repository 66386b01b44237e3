//! Commands that this program runs: under a lock, or for an event.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{ChildStdin, Command};

use crate::failure::Failure;
use crate::process_group;
use crate::security::{SECRETS_REMOVED, secrets_to_keep_back};

/// Time in which a command may end after SIGTERM, before it gets SIGKILL, unless the user sets another.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Interval of the check whether all processes of the command have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Number of these checks for each search for zombies, which reads about every process of the machine.
const LOOKS_FOR_ZOMBIES: u32 = 50;

/// The command that runs, of which there is at most one, as an argument of kill(2). Zero if there is none.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Kills the command that runs, at once: for a panic, after which it would go on without the lock.
pub(crate) fn kill_running() {
    let running = RUNNING.swap(0, Ordering::SeqCst);
    if running != 0 {
        // It may have just ended.
        let _already_gone = kill(Pid::from_raw(running), Signal::SIGKILL);
    }
}

/// A running command.
pub(crate) struct Child {
    process: tokio::process::Child,
    reach: Reach,
    /// Whether a signal was sent to the command.
    is_signalled: bool,
}

/// The processes that a signal reaches.
#[derive(Clone, Copy)]
enum Reach {
    /// The command and all processes it has started, which form a process group.
    Group(Pid),
    /// The command alone. It shares the process group of `zk`, so that it can use the terminal: a
    /// process in the background could not read from it.
    Process(Pid),
}

impl Child {
    /// Starts `command` with these variables in its environment, and without the secrets of this
    /// command: programs print or send their environment when they fail. A variable has their
    /// names.
    pub(crate) fn spawn<const N: usize>(
        command: &[OsString],
        environment: [(&str, &str); N],
        stdin: Stdio,
    ) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::other("there is no command to run".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(environment).stdin(stdin).kill_on_drop(true);
        let removed = secrets_to_keep_back();
        for secret in &removed {
            command.env_remove(secret);
        }
        if !removed.is_empty() {
            command.env(SECRETS_REMOVED, removed.join(","));
        }
        let reach = match io::stdin().is_terminal() {
            true => Reach::Process,
            false => {
                command.process_group(0);
                Reach::Group
            }
        };
        let failed = |why: &dyn Display| {
            Failure::other(format!("cannot start {}: {why}", Path::new(program).display()))
        };
        let process = command.spawn().map_err(|error| failed(&error))?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok());
        let pid = pid.ok_or_else(|| failed(&"it has no process id"))?;
        let reach = reach(Pid::from_raw(pid));
        RUNNING.store(reach.argument().as_raw(), Ordering::SeqCst);
        Ok(Self { process, reach, is_signalled: false })
    }

    /// Returns the pipe to the standard input of the command, once.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    /// Waits for the command to end. Returns the exit status that a shell would report.
    ///
    /// If a signal that was sent has killed the command, it waits for all processes of the command. The
    /// signal kills a shell at once, and the program that the shell runs may shut down slowly. A command
    /// that ends by itself may leave processes in the background.
    pub(crate) async fn wait(&mut self) -> Result<u8, Failure> {
        let status = self.process.wait().await;
        let status =
            status.map_err(|error| Failure::other(format!("waiting for the command: {error}")))?;
        if self.is_signalled && status.signal().is_some() {
            self.all_gone().await;
        }
        // Its process id may become that of another process.
        RUNNING.store(0, Ordering::SeqCst);
        Ok(code(status))
    }

    /// Sends a signal to the command, if any of its processes is left.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.is_signalled = true;
        // The processes may have just ended, which is the purpose of the signal.
        let _already_gone = self.send(Some(signal));
    }

    /// Ends the command and all processes it has started: by SIGTERM, and after `grace` by SIGKILL.
    /// Without a grace, there is no SIGTERM.
    pub(crate) async fn end(&mut self, grace: Duration) {
        if !grace.is_zero() {
            self.signal(Signal::SIGTERM);
            drop(tokio::time::timeout(grace, self.all_gone()).await);
        }
        self.signal(Signal::SIGKILL);
        drop(self.process.wait().await);
    }

    async fn all_gone(&mut self) {
        drop(self.process.wait().await);
        for looks in (0..LOOKS_FOR_ZOMBIES).cycle() {
            // Another error means that a process is left which gets no signal from this one.
            if self.send(None) == Err(Errno::ESRCH) || (looks == 0 && self.has_only_zombies()) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns true if all processes of the command have ended, and the first process of a container, to
    /// which they are left, does not collect their statuses.
    fn has_only_zombies(&self) -> bool {
        match self.reach {
            Reach::Group(group) => process_group::has_only_zombies(group),
            Reach::Process(_) => false,
        }
    }

    fn send(&self, signal: Option<Signal>) -> nix::Result<()> {
        match self.reach {
            // `wait` has freed the process id for other processes.
            Reach::Process(_) if self.process.id().is_none() => Err(Errno::ESRCH),
            reach => kill(reach.argument(), signal),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        RUNNING.store(0, Ordering::SeqCst);
    }
}

impl Reach {
    /// Returns the argument of kill(2) for these processes.
    fn argument(self) -> Pid {
        match self {
            Self::Group(group) => Pid::from_raw(-group.as_raw()),
            Self::Process(pid) => pid,
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::sync::Mutex;

    use super::*;

    /// Tests run in threads of one process, which has at most one command.
    pub(crate) static ONE_COMMAND: Mutex<()> = Mutex::const_new(());

    #[tokio::test]
    async fn panic_kills_running_command() {
        let _turn = ONE_COMMAND.lock().await;
        let command = ["sleep".into(), "1000".into()];
        let mut child = Child::spawn(&command, [("A", "")], Stdio::null()).unwrap();
        kill_running();
        assert_eq!(child.wait().await.unwrap(), 128 + 9);
    }

    #[tokio::test]
    async fn command_that_has_ended_is_not_killed() {
        let _turn = ONE_COMMAND.lock().await;
        let command = ["true".into()];
        let mut child = Child::spawn(&command, [("A", "")], Stdio::null()).unwrap();
        assert_eq!(child.wait().await.unwrap(), 0);
        drop(child);
        assert_eq!(RUNNING.load(Ordering::SeqCst), 0, "its number may belong to others");
    }
}
