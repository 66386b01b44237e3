//! `cargo xtask sim`: the deterministic simulation.

use super::{Failure, build_and_run};

/// Runs the simulation with `arguments`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    build_and_run(&["--profile", "bench", "--package", "zk-sim"], arguments)
}

/// Runs the seeds that every change must pass without a failure.
pub(crate) fn check() -> Result<(), Failure> {
    run(&["--seeds", CI_SEEDS].map(str::to_owned))?;
    run(&["--coordination", "--seeds", CI_COORDINATION_SEEDS].map(str::to_owned))
}

const CI_SEEDS: &str = "5000";
const CI_COORDINATION_SEEDS: &str = "2000";
