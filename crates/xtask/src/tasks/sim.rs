//! `cargo xtask sim`: the deterministic simulation.

use super::{Failure, cargo, step, workspace_root};

/// Runs the simulation, with `arguments` for it. Planted faults are compiled in only where they are
/// asked for, into a target folder of their own.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let line = ["run", "--quiet", "--release", "--package", "zk-sim", "--"];
    let mut command = cargo(&line);
    command.args(arguments);
    if arguments.iter().any(|word| word == "--planted" || word.starts_with("--planted=")) {
        command.env("RUSTFLAGS", "--cfg zk_planted");
        command.env("CARGO_TARGET_DIR", workspace_root().join("target/planted"));
    }
    step(&mut command)
}

/// What every change must pass: seeds in which nothing may go wrong.
pub(crate) fn check() -> Result<(), Failure> {
    run(&["--seeds".to_owned(), CI_SEEDS.to_owned()])
}

const CI_SEEDS: &str = "5000";
