//! What of `fuzz/` needs no fuzzer: it is a workspace of its own, which the steps for the main one
//! leave out.

use crate::tasks::{Failure, cargo, step};

/// Replays the seed corpora.
pub(crate) fn test() -> Result<(), Failure> {
    step(&mut cargo(&["test", "--quiet", "--manifest-path", MANIFEST]))
}

/// Formatting and lints.
pub(crate) fn check() -> Result<(), Failure> {
    step(&mut cargo(&["fmt", "--manifest-path", MANIFEST, "--check"]))?;
    let clippy = ["clippy", "--manifest-path", MANIFEST, "--all-targets"];
    step(cargo(&clippy).args(["--", "-D", "warnings"]))
}

/// Relative to the root of the main workspace.
pub(super) const MANIFEST: &str = "fuzz/Cargo.toml";
