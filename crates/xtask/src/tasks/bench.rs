//! `cargo xtask bench`: benchmarks that need more than cargo to run.

use std::process::Command;

use super::{Failure, cargo, step, target_folder};

/// Runs the hand-off benchmark, with `arguments` for it.
pub(crate) fn handoff(arguments: &[String]) -> Result<(), Failure> {
    let mut command = cargo(&["run", "--quiet", "--profile", "bench", "--package", "zk-handoff"]);
    command.args(["--bin", "handoff", "--"]).args(arguments);
    step(&mut command)
}

/// Counts the instructions of a lock's code paths through the library.
///
/// Each path runs a fixed number of times and twice that number. The difference excludes set-up and
/// tear-down.
pub(crate) fn instructions() -> Result<(), Failure> {
    let package = ["--package", "zk-benches", "--bin", "core_paths"];
    let mut build = cargo(&["build", "--quiet", "--profile", "bench"]);
    build.args(package);
    step(&mut build)?;
    println!("| path | instructions | allocations |");
    println!("|---|---:|---:|");
    for (path, times) in PATHS {
        let ((once, _), (twice, allocations)) = (count(path, times)?, count(path, 2 * times)?);
        let each = (twice - once) / u64::from(times);
        println!("| {path} | {each} | {allocations} |");
    }
    Ok(())
}

/// Returns the instructions of the whole process, and the allocations that it printed.
fn count(path: &str, times: u32) -> Result<(u64, String), Failure> {
    // The folder of the profile `bench`.
    let program = target_folder().join("release/core_paths");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args([path, &times.to_string()]);
    let output = command.output().map_err(|error| {
        Failure::task(format!("valgrind does not run ({error}): install Debian's package valgrind"))
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said.lines().find_map(|line| line.split_once("Collected : "));
    match counted.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) if output.status.success() => {
            Ok((number, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
        }
        _ => Err(Failure::task(format!("core_paths {path}: {said}"))),
    }
}

/// Number of iterations of each path.
const PATHS: [(&str, u32); 7] = [
    ("encode-create", 10_000),
    ("decode-list-10", 10_000),
    ("rank-1000", 300),
    ("sort-1000", 300),
    ("session-request", 10_000),
    ("acquire-release", 1_000),
    ("hand-off", 1_000),
];
