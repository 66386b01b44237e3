//! `cargo xtask sim`: the deterministic simulation.

use std::fs;
use std::process::Command;

use super::{Failure, build_and_run, cargo, step, workspace_root};

/// Runs the simulation with `arguments`.
///
/// Planted faults are compiled in only if `arguments` request them, into a separate target folder. If they
/// request all faults, those of the lease's rule also run against its model of the servers.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let wants_help = arguments.iter().any(|word| matches!(word.as_str(), "-h" | "--help"));
    let has_planted = !wants_help && arguments.iter().any(|word| is_planted(word));
    let cargo = |line: &[&str]| -> Command {
        let mut command = cargo(line);
        if has_planted {
            command.env("RUSTFLAGS", "--cfg zk_planted");
            command.env("CARGO_TARGET_DIR", workspace_root().join("target/planted"));
        }
        command
    };
    if *arguments == ["--planted"] {
        step(&mut cargo(&[
            "test",
            "--release",
            "--package",
            "zk-session-core",
            "--lib",
            "lease::tests",
        ]))?;
    }
    build_and_run(cargo, &["--release", "--package", "zk-sim"], arguments)
}

/// Runs the seeds that every change must pass without a failure.
pub(crate) fn check() -> Result<(), Failure> {
    run(&["--seeds".to_owned(), CI_SEEDS.to_owned()])
}

/// Rejects an unknown name of a planted fault before the build, which takes minutes.
pub(crate) fn check_fault_names(arguments: &[String]) -> Result<(), Failure> {
    for (nth, word) in arguments.iter().enumerate().filter(|(_, word)| is_planted(word)) {
        let next = || arguments.get(nth + 1).map(String::as_str).filter(|it| !it.starts_with('-'));
        let name = word.split_once('=').map(|(_, name)| name).or_else(next);
        let Some(name) = name else { continue };
        let all = fault_names()?;
        if !all.iter().any(|fault| fault == name) {
            let all = all.join(", ");
            return Err(Failure::usage(format!("no planted fault `{name}`; there are {all}")));
        }
    }
    Ok(())
}

fn is_planted(word: &str) -> bool {
    word == "--planted" || word.starts_with("--planted=")
}

/// Returns the names of all planted faults, parsed from the source code. The lists exist only in a build with
/// planted faults, and xtask depends on no crate of the workspace.
fn fault_names() -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for file in ["crates/zk-recipes/src/planted.rs", "crates/zk-session-core/src/planted.rs"] {
        let source = fs::read_to_string(workspace_root().join(file))
            .map_err(|error| Failure::task(format!("{file}: {error}")))?;
        let list = source.lines().skip_while(|line| !line.contains("const ALL: [Self;")).skip(1);
        let list = list.map(str::trim).take_while(|line| *line != "];");
        names.extend(
            list.filter_map(|it| it.strip_prefix("Self::")?.strip_suffix(',')).map(str::to_owned),
        );
    }
    Ok(names)
}

const CI_SEEDS: &str = "5000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_names_include_both_lists() {
        let names = fault_names().unwrap();
        assert_eq!(names.first().map(String::as_str), Some("DeletionNotTold"));
        assert_eq!(names.last().map(String::as_str), Some("LostAnswerAwaited"));
        // The simulation does not have this fault. Only the model of the lease detects it.
        assert!(!names.contains(&"LeaseFromAnswer".to_owned()));
    }
}
