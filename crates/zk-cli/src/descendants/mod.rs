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
    let own = Pid::this();
    system::processes()
        .into_iter()
        .filter(|process| process.parent == own)
        .map(|it| it.pid)
        .collect()
}

/// Sends a signal to all descendants of `root`, except `spared` and their descendants. Returns false if
/// there was none that could get it.
pub(crate) fn signal(root: Pid, signal: Signal, spared: &[Pid]) -> bool {
    let all = system::processes();
    let mut reached = vec![root];
    let mut done = 0;
    while let Some(&parent) = reached.get(done) {
        let children = all.iter().filter(|process| process.parent == parent).map(|it| it.pid);
        reached.extend(children.filter(|child| !spared.contains(child)));
        done += 1;
    }
    // Some may have just ended.
    reached.iter().skip(1).filter(|pid| kill(**pid, signal).is_ok()).count() > 0
}

/// Returns a process as text: its id, and its name if the system tells it.
pub(crate) fn described(pid: Pid) -> String {
    match system::name(pid) {
        Some(name) => format!("{pid} ({name})"),
        None => pid.to_string(),
    }
}

/// A process and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: Pid,
}
