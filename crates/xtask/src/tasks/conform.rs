//! `cargo xtask conform`: compares the server of `zk-testing` with a real one.

use super::{Failure, cargo, step};

/// Runs the comparison; it reads `arguments` itself.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    step(conform().args(arguments))
}

/// Compares what a change must not break. A missing ZooKeeper is a failure.
pub(crate) fn run_without_skips() -> Result<(), Failure> {
    step(conform().env("CI", "true"))
}

fn conform() -> std::process::Command {
    cargo(&["run", "--quiet", "-p", "zk-tests", "--bin", "conform", "--"])
}
