//! Checks of `fuzz/` that need no fuzzer. It is a separate workspace, which the steps for the main one
//! exclude.

use crate::tasks::{Failure, cargo_for, step};

/// Replays the seed corpora.
pub(crate) fn test() -> Result<(), Failure> {
    step(&mut cargo_for(MANIFEST, &["test", "--quiet"]))
}

/// Checks formatting and lints.
pub(crate) fn check() -> Result<(), Failure> {
    step(&mut cargo_for(MANIFEST, &["fmt", "--check"]))?;
    let clippy = ["clippy", "--all-targets", "--", "-D", "warnings"];
    step(&mut cargo_for(MANIFEST, &clippy))
}

/// Manifest of the workspace, relative to the root of the main workspace.
pub(super) const MANIFEST: &str = "fuzz/Cargo.toml";
