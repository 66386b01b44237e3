//! `cargo xtask sim`: the deterministic simulation.

use super::{Failure, build_and_run};

/// Runs the simulation with `arguments`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    build_and_run(&["--profile", "bench", "--package", "zk-sim"], arguments)
}
