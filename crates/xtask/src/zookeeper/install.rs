//! Installation of missing Debian packages, if the rights suffice.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Error;
use crate::process;

/// Rights that an installation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Only the rights of this process: for tests that were started without a task.
    Own,
    /// Also `sudo`, if it needs no password: for commands that a person entered.
    Sudo,
}

impl Privilege {
    /// Returns the rights of this test: those of the task that runs it.
    #[must_use]
    pub fn of_tests() -> Self {
        match env::var_os(SUDO_VARIABLE) {
            Some(_) => Self::Sudo,
            None => Self::Own,
        }
    }
}

/// Variable that a task sets for tests that may use `sudo`.
pub(crate) const SUDO_VARIABLE: &str = "XTASK_TEST_SUDO";

/// Installs `packages` with `apt-get`, and prints a line on standard error.
///
/// The error is the reason of the failure, in one line.
pub(crate) fn install(packages: &[&str], privilege: Privilege) -> Result<(), String> {
    let wanted = packages.join(" ");
    let by_hand = format!("install {wanted} by hand");
    let Some(apt) = process::find_program("apt-get") else {
        return Err(format!("there is no apt-get here: {by_hand}"));
    };
    let Some(prefix) = rights(privilege) else {
        return Err(format!("not root: run `apt-get install {wanted}` as root"));
    };
    // apt-get fails if another process holds its locks, so parallel tests wait here for each other.
    let lock = lock_file("zk-xtask-apt").map_err(|error| format!("{error}; {by_hand}"))?;

    // Written to `stderr` directly, because the test runner hides the captured output of a passing test.
    let _ = writeln!(io::stderr(), "xtask: installing {wanted} with apt-get");
    // Without fresh lists, a new container knows no packages. With an unreachable mirror, the present lists
    // may suffice. Therefore only the second step decides.
    if !apt_get(&apt, prefix, &["update", "-q"]) {
        eprintln!("xtask: `apt-get update` failed; trying with the package lists at hand");
    }
    let mut arguments =
        vec!["install", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    arguments.extend(packages);
    let done = apt_get(&apt, prefix, &arguments);
    drop(lock);
    if done { Ok(()) } else { Err(format!("`apt-get install {wanted}` failed: {by_hand}")) }
}

/// Opens a lock file in the folder for temporary files and waits for its lock, which lasts as long as the
/// file is open.
pub(crate) fn lock_file(name: &str) -> Result<File, Error> {
    // The name includes the user id, because a file of another user cannot be opened.
    let user = process::user_id().unwrap_or_default();
    let path = env::temp_dir().join(format!("{name}-{user}.lock"));
    let doing = || format!("locking {}", path.display());
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::io(doing()))?;
    file.lock().map_err(Error::io(doing()))?;
    Ok(file)
}

/// Returns the prefix of a command to run it as root, or `None` if that is not possible.
fn rights(privilege: Privilege) -> Option<&'static [&'static str]> {
    if process::is_root() {
        return Some(&[]);
    }
    let sudo_without_password = || {
        Command::new("sudo")
            .args(["-n", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    (privilege == Privilege::Sudo && sudo_without_password()).then_some(&[
        "sudo",
        "-n",
        "env",
        "DEBIAN_FRONTEND=noninteractive",
    ])
}

fn apt_get(apt: &Path, prefix: &[&str], arguments: &[&str]) -> bool {
    let mut command = match prefix {
        [] => Command::new(apt),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(apt);
            command
        }
    };
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
