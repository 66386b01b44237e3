//! Processes of a process group.

use std::fs;

use nix::unistd::Pid;

/// Returns true if the group has processes, and all of them have ended without a parent that has
/// collected their statuses. It returns false where the system does not list its processes in `/proc`.
pub(crate) fn has_only_zombies(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    let stats = processes.flatten().filter_map(|it| fs::read(it.path().join("stat")).ok());
    let members = stats.filter_map(|stat| member(&String::from_utf8_lossy(&stat), group));
    members.reduce(|all, is_zombie| all && is_zombie).unwrap_or(false)
}

/// Returns whether a process is a zombie, by its line in `/proc`, or `None` if it is not of the group.
fn member(stat: &str, group: Pid) -> Option<bool> {
    // The name before the last bracket may have blanks and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let its_group: i32 = fields.nth(1)?.parse().ok()?;
    // Other threads may go on after the first one has ended.
    let threads: u32 = fields.nth(14).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    (its_group == group.as_raw()).then_some(matches!(state, "Z" | "X") && threads <= 1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn line_of_a_process_has_its_group_and_state() {
        let group = Pid::from_raw(42);
        assert_eq!(member("7 (a) Z 1 8 (b) S 1 42 42 0", group), Some(false));
        assert_eq!(member("7 (sh) Z 1 42 42 0", group), Some(true));
        assert_eq!(member("7 (sh) Z 1 43 42 0", group), None);
        let threads =
            |it: u32| format!("7 (sh) Z 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {it} 0 99");
        assert_eq!(member(&threads(1), group), Some(true));
        assert_eq!(member(&threads(2), group), Some(false), "its first thread has ended");
        assert_eq!(member("", group), None);
    }

    #[test]
    fn ended_process_is_a_zombie_until_its_parent_collects_it() {
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(cat.id()).unwrap());
        assert!(!has_only_zombies(group));
        drop(cat.stdin.take());
        while !has_only_zombies(group) {
            std::thread::yield_now();
        }
        assert!(cat.wait().unwrap().success());
        assert!(!has_only_zombies(group));
    }
}
