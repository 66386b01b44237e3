//! Runs of `cargo test` beside each other.
//!
//! The tests against real servers wait most of the time: one after the other they take 330 s, of
//! which they compute for 110 s. Each file of them is a run of its own here, beside one run of all
//! other tests.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::poll;
use crate::tasks::{Failure, cargo, display, workspace_root};

/// The package of the tests that wait for real servers.
const WAITING: &str = "tests";

/// Runs at a time: one that computes, and two that mostly wait. With more, two cores would be so
/// busy that servers and clients could miss their session timeouts.
const JOBS: usize = 3;

/// Runs all targets of the workspace, which have been built. Fails if one of the runs does; those
/// that have begun by then are seen to their ends.
pub(super) fn run() -> Result<(), Failure> {
    let waiting = Mutex::new(VecDeque::from(plan(&workspace_root()).map_err(read_failure)?));
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(words) = next else { return };
            if let Err(failure) = run_one(&words) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() { Ok(()) } else { Err(Failure::task(failures.join("\n"))) }
}

/// One run. What it prints goes to a file first, so that runs do not mix their lines.
fn run_one(words: &[String]) -> Result<(), String> {
    let mut command = cargo(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let name = display(&command);
    println!("==> {name}");
    let start = poll::now();
    let (status, output) = run_into_file(command.env("CI", "true"), words)
        .map_err(|error| format!("{name}: {error}"))?;
    let took = start.elapsed().as_secs_f64();
    let end = if status { "done in" } else { "FAILED after" };
    // In one go, so that no other run prints in between.
    println!("{output}==> {end} {took:.1} s: {name}");
    if status { Ok(()) } else { Err(format!("failed after {took:.1} s: {name}")) }
}

/// Tells whether the run succeeded, and what it printed, in the order in which it did.
fn run_into_file(command: &mut Command, words: &[String]) -> io::Result<(bool, String)> {
    let folder = workspace_root().join("target/xtask");
    fs::create_dir_all(&folder)?;
    let name = if words.len() > 4 { "others" } else { words.last().map_or("", String::as_str) };
    let path = folder.join(format!("test-{name}.log"));
    let file = File::create(&path)?;
    let status = command.stdout(file.try_clone()?).stderr(file).status()?;
    Ok((status.success(), String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
}

/// The arguments of each run. All select the same packages, so that cargo resolves the same
/// features for each of them and builds nothing again.
fn plan(root: &Path) -> io::Result<Vec<Vec<String>>> {
    let waiting = test_names(&root.join(WAITING))?;
    let mut others = BTreeSet::new();
    for member in members(root)? {
        if member != WAITING {
            others.extend(test_names(&root.join(member))?);
        }
    }
    let run = |options: &[&str], names: &mut dyn Iterator<Item = &String>| {
        let words = ["test", "--workspace"].iter().chain(options).copied();
        let names = names.flat_map(|name| ["--test", name]);
        words.chain(names).map(str::to_owned).collect::<Vec<_>>()
    };
    let rest = ["--lib", "--bins", "--examples", "--benches"];
    // The longest first.
    let mut runs = vec![run(&rest, &mut others.iter())];
    // What has a name twice has run already.
    runs.extend(waiting.difference(&others).map(|name| run(&[], &mut [name].into_iter())));
    Ok(runs)
}

/// The folders of the workspace's packages.
fn members(root: &Path) -> io::Result<Vec<String>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("members = "));
    let patterns = line.unwrap_or_default().split('"').skip(1).step_by(2);
    let mut members = Vec::new();
    for pattern in patterns {
        let Some(folder) = pattern.strip_suffix("/*") else {
            members.push(pattern.to_owned());
            continue;
        };
        for entry in fs::read_dir(root.join(folder))? {
            members.push(format!("{folder}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    Ok(members)
}

/// The test targets of a package, as cargo finds them: files and folders below `tests`.
fn test_names(package: &Path) -> io::Result<BTreeSet<String>> {
    let folder = package.join("tests");
    let mut names = BTreeSet::new();
    if !folder.is_dir() {
        return Ok(names);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".rs") {
            names.insert(name.to_owned());
        } else if entry.path().join("main.rs").is_file() {
            names.insert(name);
        }
    }
    Ok(names)
}

fn read_failure(error: io::Error) -> Failure {
    Failure::task(format!("looking for tests: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_every_test_file_of_the_workspace() {
        let root = workspace_root();
        let runs = plan(&root).unwrap();
        let mut planned: Vec<&str> = Vec::new();
        for run in &runs {
            assert_eq!(run[..2], ["test", "--workspace"]);
            planned.extend(run.windows(2).filter(|two| two[0] == "--test").map(|two| &*two[1]));
        }
        for option in ["--lib", "--bins", "--examples", "--benches"] {
            assert!(runs[0].iter().any(|word| word == option), "{option}");
        }
        planned.sort_unstable();
        let mut found: Vec<String> = Vec::new();
        find_tests(&root, &mut found);
        found.sort_unstable();
        found.dedup();
        assert_eq!(planned, found, "each once");
        assert!(planned.contains(&"tidy") && planned.contains(&"ensemble"));
    }

    /// Looks for `tests/NAME.rs` and `tests/NAME/main.rs` wherever there is a manifest.
    fn find_tests(folder: &Path, found: &mut Vec<String>) {
        let is_outside = |name: &str| ["target", "fuzz", "compare"].contains(&name);
        if folder.join("Cargo.toml").is_file() {
            found.extend(test_names(folder).unwrap());
        }
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && !name.starts_with('.') && !is_outside(&name) {
                find_tests(&entry.path(), found);
            }
        }
    }
}
