//! `cargo xtask conform`: compares the server of `zk-testing` with a real one.

use super::{Failure, cargo, step};

/// Runs the comparison; the program parses `arguments` itself.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    step(conform().args(arguments))
}

/// Runs the comparison for `ci`. A missing ZooKeeper is a failure.
pub(crate) fn run_without_skips() -> Result<(), Failure> {
    step(conform().env("CI", "true"))
}

fn conform() -> std::process::Command {
    cargo(&["run", "--quiet", "-p", "zk-tests", "--bin", "conform", "--"])
}
