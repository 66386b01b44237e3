//! Processes that a command has started.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as system;

pub(crate) use system::{adopt_orphans, any_left, reap};

/// Returns the children of this process. The list is empty where the system does not list its processes.
pub(crate) fn children() -> Vec<Pid> {
    let own = system::processes().into_iter().filter(|process| process.parent == Pid::this());
    own.map(|process| process.pid).collect()
}

pub(crate) fn all(root: Pid) -> Vec<Pid> {
    below(root, &[]).into_iter().map(|process| process.pid).collect()
}

/// Sends a signal to the chosen ones of all descendants of this process, except `spared` and their
/// descendants. Returns false if there was none that could get it.
pub(crate) fn signal(signal: Signal, spared: &[Pid], is_chosen: impl Fn(Process) -> bool) -> bool {
    let chosen = below(Pid::this(), spared).into_iter().filter(|process| is_chosen(*process));
    // Some may have just ended.
    chosen.filter(|process| kill(process.pid, signal).is_ok()).count() > 0
}

/// Returns the descendants of `root`, except `spared` and their descendants.
fn below(root: Pid, spared: &[Pid]) -> Vec<Process> {
    let all = system::processes();
    let children = |parent: Pid| all.iter().filter(move |process| process.parent == parent);
    let mut descendants: Vec<Process> = Vec::new();
    let mut parent = Some(root);
    let mut done = 0;
    while let Some(pid) = parent {
        descendants.extend(children(pid).filter(|child| !spared.contains(&child.pid)));
        parent = descendants.get(done).map(|process| process.pid);
        done += 1;
    }
    descendants
}

/// Returns a process as text: its id, and its name if the system tells it.
pub(crate) fn described(pid: Pid) -> String {
    match system::name(pid) {
        Some(name) => format!("{pid} ({name})"),
        None => pid.to_string(),
    }
}

/// A process, its parent, and its process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    parent: Pid,
    pub(crate) group: Pid,
}
