//! Linux: orphans become children of this process (a child subreaper), and `/proc` lists all processes.

use std::fs;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::Process;

/// Makes this process the parent of all processes whose parent ends, if they descend from it. Without that
/// it could not know of them. Returns false if the system does not do so.
pub(crate) fn adopt_orphans() -> bool {
    prctl::set_child_subreaper(true).is_ok()
}

/// Returns true if this process has children, except those of `spared`. The command has ended before.
/// Processes that have ended are removed from `spared`, because another process may get their number.
pub(crate) fn any_left(spared: &mut Vec<Pid>) -> bool {
    if !spared.is_empty() {
        reap(None);
        let all = super::all(Pid::this());
        spared.retain(|pid| all.contains(pid));
        return super::children().iter().any(|pid| !spared.contains(pid));
    }
    loop {
        // `/proc` may hide processes of other users.
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Err(Errno::ECHILD) => return false,
            // A status was collected. That of a real-time signal is an error.
            _ => {}
        }
    }
}

/// Collects the statuses of orphans that have ended. Another part of this program waits for `command`.
pub(crate) fn reap(command: Option<Pid>) {
    for pid in super::children().into_iter().filter(|pid| Some(*pid) != command) {
        let _still_runs = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }
}

pub(super) fn processes() -> Vec<Process> {
    let Ok(listed) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let stats = listed.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(entry.path().join("stat")).ok()?;
        process(Pid::from_raw(pid), &String::from_utf8_lossy(&stat))
    });
    stats.collect()
}

/// Reads the line of a process in `/proc`.
fn process(pid: Pid, stat: &str) -> Option<Process> {
    // The name before the last bracket may have blanks and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut numbers =
        fields.split_whitespace().skip(1).map(|field| field.parse().map(Pid::from_raw));
    Some(Process { pid, parent: numbers.next()?.ok()?, group: numbers.next()?.ok()? })
}

pub(super) fn name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_process_has_its_parent_and_group() {
        let read = |stat| {
            let read = process(Pid::from_raw(7), stat);
            read.map(|process| (process.parent.as_raw(), process.group.as_raw()))
        };
        assert_eq!(read("7 (a) Z 1 8 (b) S 3 42 41 0"), Some((3, 42)));
        assert_eq!(read("7 (sh) Z 1 42 41 0"), Some((1, 42)));
        assert_eq!(read(""), None);
    }
}
