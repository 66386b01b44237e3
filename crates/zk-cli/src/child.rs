//! Commands that this program runs: under a lock, or for an event.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{ChildStdin, Command};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout_at;

use crate::descendants::{self, Process};
use crate::prelude::{Duration, Failure, Instant, Output, Result, clock};
use crate::security::{SECRETS_REMOVED, secrets_to_keep_back};
use crate::signals::number;

/// Time in which a command may end after SIGTERM, before it gets SIGKILL, unless the user sets another.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Time of the wait for processes that the command has left, before a note names them.
const SILENCE: Duration = Duration::from_secs(1);

/// Maximum number of processes that the note about them names.
const PROCESSES_TOLD: usize = 10;

/// Interval of the check whether all processes of the command have ended, where the system does not report
/// it.
const LOOK: Duration = Duration::from_millis(20);

/// Process id of the command that runs, of which there is at most one. Zero if there is none. While this
/// process waits for those that the command has left, it is its own id.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Kills the command that runs, at once: for a panic, after which it would go on without the lock.
pub(crate) fn kill_running() {
    let running = Pid::from_raw(RUNNING.swap(0, Ordering::SeqCst));
    if running.as_raw() == 0 {
        return;
    }
    let started = descendants::all(running);
    if running != Pid::this() {
        // It may have just ended, or have no process group of its own. A shell whose child is killed first
        // would go on.
        let _already_gone = kill(group_of(running), Signal::SIGKILL);
        let _already_gone = kill(running, Signal::SIGKILL);
    }
    for pid in started {
        let _already_gone = kill(pid, Signal::SIGKILL);
    }
}

/// Collects the statuses of orphans for as long as this process runs: those of its commands, and all of a
/// container if it is the first process there.
pub(crate) async fn reap_orphans() {
    let Ok(mut ended) = unix::signal(SignalKind::child()) else {
        return;
    };
    while ended.recv().await.is_some() {
        descendants::reap(Some(Pid::from_raw(RUNNING.load(Ordering::SeqCst))));
    }
}

/// When a command has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// When its first process has.
    FirstProcess,
    /// When all processes have that it has started. The output tells which are left.
    AllProcesses(Output),
}

/// A running command.
pub(crate) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    /// Whether the command has a process group of its own. Without one, it shares that of `zk`, so that it
    /// can use the terminal: a process in the background could not read from it.
    has_group: bool,
    end: End,
    /// Reports each end of a child of this process.
    child_ends: unix::Signal,
    /// Whether orphans become children of this process.
    adopts: bool,
    /// Descendants that this process had before, for example those of a script that became `zk` by `exec`.
    earlier: Vec<Pid>,
    /// The last signal to the command that was meant to end it.
    ending: Option<Signal>,
    /// The signal that was meant to end the processes which the first one has left.
    interrupted: Option<Signal>,
    /// When the first process was found to have ended.
    ended_at: Option<Instant>,
    /// Whether a note has named the processes that are left.
    is_told: bool,
}

impl Child {
    /// Starts `command` with these variables in its environment, and without the secrets of this
    /// command: programs print or send their environment when they fail. A variable has their
    /// names.
    pub(crate) fn spawn<const N: usize>(
        command: &[OsString],
        environment: [(&str, &str); N],
        stdin: Stdio,
        end: End,
    ) -> Result<Self> {
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
        let has_group = !io::stdin().is_terminal();
        if has_group {
            command.process_group(0);
        }
        let child_ends = unix::signal(SignalKind::child())
            .map_err(|error| Failure::other(format!("no signals: {error}")))?;
        let adopts = descendants::adopt_orphans();
        let earlier = descendants::all(Pid::this());
        let process = command.spawn().map_err(|error| Failure::not_started(program, &error))?;
        let no_id = || format!("{}: it has no process id", Path::new(program).display());
        let pid = pid(&process).ok_or_else(|| Failure::other(no_id()))?;
        RUNNING.store(pid.as_raw(), Ordering::SeqCst);
        Ok(Self {
            process,
            pid,
            has_group,
            end,
            child_ends,
            adopts,
            earlier,
            ending: None,
            interrupted: None,
            ended_at: None,
            is_told: false,
        })
    }

    /// Returns the pipe to the standard input of the command, once.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    /// Waits for the command to end. Returns the exit status that a shell would report.
    ///
    /// If a signal has ended the processes that the first one has left, it is the status of that signal.
    pub(crate) async fn wait(&mut self) -> Result<u8> {
        let status = self.first_process().await;
        let status =
            status.map_err(|error| Failure::other(format!("waiting for the command: {error}")))?;
        if let End::AllProcesses(output) = self.end {
            self.all_told(output).await;
        }
        RUNNING.store(0, Ordering::SeqCst);
        Ok(match self.interrupted {
            Some(signal) => 128 + number(signal),
            None => code(status),
        })
    }

    /// Sends a signal to the command, or to the processes that remain after the end of its first one. If it
    /// is meant to end the command, those that remain get SIGTERM: a shell makes processes in the background
    /// ignore SIGINT and SIGQUIT.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let is_ending = matches!(signal, Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM);
        self.ending = is_ending.then_some(signal).or(self.ending);
        if self.is_running() {
            // The processes may have just ended, which is the purpose of the signal.
            let _already_gone = kill(self.target(), signal);
        } else {
            self.interrupted = is_ending.then_some(signal).or(self.interrupted);
            self.signal_all(if is_ending { Signal::SIGTERM } else { signal });
        }
    }

    /// Sends SIGTERM to the remaining processes if a signal was meant to end the command: to those which it
    /// did not reach, or which ignore it in the background of a shell.
    fn end_rest(&mut self) {
        let Some(signal) = self.ending.take() else { return };
        let has_group = self.has_group && signal == Signal::SIGTERM;
        let is_left_out = |process: Process| !has_group || process.group != self.pid;
        descendants::signal(Signal::SIGTERM, &self.earlier, is_left_out);
    }

    /// Ends the command and all processes it has started: by SIGTERM, and after `grace` by SIGKILL.
    /// Without a grace, there is no SIGTERM.
    pub(crate) async fn end(&mut self, grace: Duration) {
        if !grace.is_zero() {
            self.signal_all(Signal::SIGTERM);
            drop(tokio::time::timeout(grace, self.all_gone()).await);
        }
        // A process that is killed leaves its children to this one. Processes of other users cannot be
        // killed, and the wait for them ends, except for the first process.
        let mut pause = LOOK;
        while self.signal_all(Signal::SIGKILL) && self.adopts {
            drop(tokio::time::timeout(pause, self.all_gone()).await);
            pause = SILENCE.min(2 * pause);
        }
        drop(self.first_process().await);
    }

    async fn first_process(&mut self) -> io::Result<ExitStatus> {
        let command = pid(&self.process);
        loop {
            tokio::select! {
                biased;
                status = self.process.wait() => {
                    // Its process id may become that of another process.
                    RUNNING.store(Pid::this().as_raw(), Ordering::SeqCst);
                    return status;
                }
                _ = self.child_ends.recv() => descendants::reap(command),
            }
        }
    }

    /// Waits for the end of all processes, and tells after a while which are left.
    async fn all_told(&mut self, output: Output) {
        self.end_rest();
        let told_at = *self.ended_at.get_or_insert_with(clock) + SILENCE;
        if !self.is_told {
            if timeout_at(told_at, self.all_gone()).await.is_ok() {
                return;
            }
            self.is_told = true;
            let left =
                descendants::children().into_iter().filter(|pid| !self.earlier.contains(pid));
            let mut left: Vec<String> = left.map(descendants::described).collect();
            let others = left.len().saturating_sub(PROCESSES_TOLD);
            left.truncate(PROCESSES_TOLD);
            left.extend((others > 0).then(|| format!("{others} more")));
            let left = if left.is_empty() { "processes".to_owned() } else { left.join(", ") };
            output.note(&format!("waiting for {left} that the command has left; see --no-wait"));
        }
        self.all_gone().await;
    }

    async fn all_gone(&mut self) {
        drop(self.first_process().await);
        if self.adopts {
            while descendants::any_left(&mut self.earlier) {
                self.child_ends.recv().await;
            }
        } else if self.has_group {
            // Another error means that a process is left which gets no signal from this one.
            while kill(self.target(), None) != Err(Errno::ESRCH) {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Sends a signal to all processes of the command, once. Returns false if there was none that could get
    /// it.
    fn signal_all(&self, signal: Signal) -> bool {
        // Without processes, the number of the group may belong to another one.
        let may_reach = self.is_running() || self.has_group && !self.adopts;
        let is_reached = may_reach && kill(self.target(), signal).is_ok();
        let is_other = |process: Process| {
            let own = if self.has_group { process.group } else { process.pid };
            !may_reach || own != self.pid
        };
        descendants::signal(signal, &self.earlier, is_other) || is_reached
    }

    /// Returns the argument of kill(2) for the command.
    fn target(&self) -> Pid {
        if self.has_group { group_of(self.pid) } else { self.pid }
    }

    /// Returns false after the status of the first process was collected, which frees its process id.
    fn is_running(&self) -> bool {
        self.process.id().is_some()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        RUNNING.store(0, Ordering::SeqCst);
    }
}

/// Returns the process id of a command, until its status was collected.
fn pid(process: &tokio::process::Child) -> Option<Pid> {
    Some(Pid::from_raw(i32::try_from(process.id()?).ok()?))
}

/// Returns the argument of kill(2) for a process group.
fn group_of(pid: Pid) -> Pid {
    Pid::from_raw(-pid.as_raw())
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
        let mut child =
            Child::spawn(&command, [("A", "")], Stdio::null(), End::FirstProcess).unwrap();
        kill_running();
        assert_eq!(child.wait().await.unwrap(), 128 + 9);
    }

    #[tokio::test]
    async fn command_that_has_ended_is_not_killed() {
        let _turn = ONE_COMMAND.lock().await;
        let command = ["true".into()];
        let mut child =
            Child::spawn(&command, [("A", "")], Stdio::null(), End::FirstProcess).unwrap();
        assert_eq!(child.wait().await.unwrap(), 0);
        drop(child);
        assert_eq!(RUNNING.load(Ordering::SeqCst), 0, "its number may belong to others");
    }
}
