//! `cargo xtask bench`: benchmarks that need more than cargo to run.

use super::{Failure, cargo, step};

/// Runs the hand-off benchmark, with `arguments` for it.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let line = ["run", "--quiet", "--release", "--package", "zk-handoff", "--bin", "handoff", "--"];
    let mut command = cargo(&line);
    command.args(arguments);
    step(&mut command)
}
