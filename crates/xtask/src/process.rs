//! Queries about processes. They use `/proc` and the shell, so that no binding to the C library is needed.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns whether process `pid` exists and has not ended. A zombie has ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Returns the state letter of process `pid`: `R`, `S`, `T` (stopped), `Z` (ended) and so on.
pub(crate) fn state(pid: u32) -> Option<char> {
    stat_field(pid, 3)?.parse().ok()
}

fn parent(pid: u32) -> Option<u32> {
    stat_field(pid, 4)?.parse().ok()
}

/// Returns the field of `/proc/PID/stat` with this number in proc(5), where 3 is the first after the
/// command.
fn stat_field(pid: u32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses. It may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?).map(str::to_owned)
}

/// Returns whether `text` occurs in the command line of process `pid`.
pub(crate) fn command_line_mentions(pid: u32, text: &str) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|raw| String::from_utf8_lossy(&raw).contains(text))
}

/// Sends `signal` ("TERM", "KILL", ...) to process `pid`.
///
/// It uses the `kill` built into the shell, because a minimal system may lack the program `kill`.
pub(crate) fn signal(pid: u32, signal: &str) -> bool {
    Command::new("sh")
        .args(["-c", r#"kill -s "$1" "$2""#, "sh", signal, &pid.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Kills process `pid`, which this process has started, and all of its descendants.
pub(crate) fn kill_with_descendants(pid: u32) {
    // A stopped process starts no further child, and its children keep it as their parent.
    signal(pid, "STOP");
    for child in children(pid) {
        kill_with_descendants(child);
    }
    signal(pid, "KILL");
}

fn children(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&candidate| parent(candidate) == Some(pid)).collect()
}

/// Returns the id of the user that this process runs as.
pub(crate) fn user_id() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|process| process.uid())
}

/// Returns whether this process runs as root.
pub(crate) fn is_root() -> bool {
    user_id() == Some(0)
}

/// Finds `program` on the `PATH`, or in the folders of system programs, which a `PATH` often omits.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}
