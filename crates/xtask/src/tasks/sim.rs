//! `cargo xtask sim`: the deterministic simulation.

use super::{Failure, cargo, step, workspace_root};

/// Runs the simulation, with `arguments` for it. Planted faults are compiled in only where they are
/// asked for, into a target folder of their own. With all of them asked for, those of the lease's
/// rule are run against its model of the servers, too.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_planted = |word: &String| word == "--planted" || word.starts_with("--planted=");
    let has_planted = arguments.iter().any(is_planted);
    let run = |line: &[&str], arguments: &[String]| {
        let mut command = cargo(line);
        command.args(arguments);
        if has_planted {
            command.env("RUSTFLAGS", "--cfg zk_planted");
            command.env("CARGO_TARGET_DIR", workspace_root().join("target/planted"));
        }
        step(&mut command)
    };
    if *arguments == ["--planted"] {
        run(
            &["test", "--quiet", "--release", "--package", "zk-session", "--lib", "lease::tests"],
            &[],
        )?;
    }
    run(&["run", "--quiet", "--release", "--package", "zk-sim", "--"], arguments)
}

/// What every change must pass: seeds in which nothing may go wrong.
pub(crate) fn check() -> Result<(), Failure> {
    run(&["--seeds".to_owned(), CI_SEEDS.to_owned()])
}

const CI_SEEDS: &str = "5000";
