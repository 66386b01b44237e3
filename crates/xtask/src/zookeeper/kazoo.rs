//! Search for the Python client kazoo, for the benchmark beside it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::install::{self, Privilege};

/// Returns whether a Python has kazoo.
#[must_use]
pub fn has_kazoo(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import kazoo.recipe.lock"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs Debian's package, unless `python3` has kazoo. The error is the reason of the failure.
pub(crate) fn ensure_kazoo(privilege: Privilege) -> Result<(), String> {
    if has_kazoo(Path::new("python3")) {
        return Ok(());
    }
    install::install(&["python3-kazoo"], privilege)
}
