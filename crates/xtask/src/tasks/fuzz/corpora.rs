//! Checks of `fuzz/` that need no fuzzer. It is a separate workspace, which the steps for the main one
//! exclude.

use crate::tasks::{Failure, cargo, step};

/// Replays the seed corpora.
pub(crate) fn test() -> Result<(), Failure> {
    step(&mut cargo(&["test", "--quiet", "--manifest-path", MANIFEST]))
}

/// Checks formatting and lints.
pub(crate) fn check() -> Result<(), Failure> {
    step(&mut cargo(&["fmt", "--manifest-path", MANIFEST, "--check"]))?;
    let clippy = ["clippy", "--manifest-path", MANIFEST, "--all-targets"];
    step(cargo(&clippy).args(["--", "-D", "warnings"]))
}

/// Manifest of the workspace, relative to the root of the main workspace.
pub(super) const MANIFEST: &str = "fuzz/Cargo.toml";
