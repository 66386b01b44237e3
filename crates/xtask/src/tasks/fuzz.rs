//! `cargo xtask fuzz`: runs the targets under `fuzz/`, or replays their corpora if no fuzzer is available.

mod build;
mod corpora;
mod libfuzzer;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use self::build::Build;
use super::{Failure, cargo, step, timed, workspace_root};

pub(crate) use self::corpora::{check, test};

/// Targets to fuzz, and the time for each.
pub(crate) struct Plan {
    /// Seconds for each target.
    pub(crate) secs: u32,
    /// Whether a quick build matters more than quick targets.
    pub(crate) is_quick: bool,
    /// Names of targets; all targets if empty.
    pub(crate) targets: Vec<String>,
}

/// Fuzzes, two targets at a time. Fails if one of them fails.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    let targets = chosen(&plan.targets)?;
    let build = match Build::prepare(plan.is_quick) {
        Ok(build) => build,
        Err(why) => {
            println!("==> no fuzzing here: {why}; replaying the corpora instead");
            return replay(&plan.targets);
        }
    };
    step(&mut build.command())?;
    let count = targets.len();
    println!("==> fuzzing {count} targets for {} s each, {JOBS} at a time", plan.secs);
    let (failures, took) = timed(|| run_all(&build, targets, plan.secs));
    println!("==> fuzzed {count} targets in {took:.1} s");
    match &failures[..] {
        [] => Ok(()),
        failures => Err(Failure::task(failures.join("\n"))),
    }
}

/// Runs all targets, on as many threads as targets may run at a time.
fn run_all(build: &Build, targets: Vec<String>, secs: u32) -> Vec<String> {
    let waiting = Mutex::new(VecDeque::from(targets));
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            // A separate statement, so that the mutex is not locked while the target runs.
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(target) = next else { return };
            match libfuzzer::run(build, &target, secs) {
                Ok(last_line) => println!("{target}: {last_line}"),
                Err(failure) => {
                    println!("{target}: FAILED");
                    failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(work);
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn replay(targets: &[String]) -> Result<(), Failure> {
    let manifest = corpora::MANIFEST;
    let line = ["run", "--quiet", "--manifest-path", manifest, "--bin", "replay", "--"];
    if targets.is_empty() {
        return step(&mut cargo(&line));
    }
    targets.iter().try_for_each(|target| step(cargo(&line).arg(target)))
}

/// Returns the targets in `names`, or all targets.
fn chosen(names: &[String]) -> Result<Vec<String>, Failure> {
    let folder = workspace_root().join("fuzz/fuzz_targets");
    let failure = |error: io::Error| Failure::task(format!("{}: {error}", folder.display()));
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failure)? {
        let file = entry.map_err(failure)?.file_name();
        all.extend(file.to_string_lossy().strip_suffix(".rs").map(str::to_owned));
    }
    all.sort();
    match names.iter().find(|name| !all.contains(name)) {
        Some(unknown) => {
            let all = all.join(", ");
            Err(Failure::usage(format!("no fuzz target `{unknown}`; there are {all}")))
        }
        None if names.is_empty() => Ok(all),
        None => Ok(names.to_vec()),
    }
}

/// Seconds for each target.
pub(crate) const SECS: u32 = 60;

/// Seconds for each target after a quick build.
pub(crate) const QUICK_SECS: u32 = 2;

/// Number of targets that run at a time. More would only share the cores of a small machine.
const JOBS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_targets_are_found_and_others_rejected() {
        let all = chosen(&[]).unwrap();
        assert!(all.len() > 8 && all.contains(&"frames".to_owned()), "{all:?}");
        let one = vec!["frames".to_owned()];
        assert_eq!(chosen(&one).unwrap(), one);
        let failure = chosen(&["farmes".to_owned()]).unwrap_err();
        assert_eq!(failure.status(), 2);
        assert!(failure.message().contains("frames"), "{}", failure.message());
    }
}
