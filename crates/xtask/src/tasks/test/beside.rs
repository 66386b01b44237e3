//! Parallel runs of `cargo test`.
//!
//! The tests against real servers wait most of the time. One after the other they take 330 s, of which they
//! compute for 110 s. Here each of their files is a separate run, in parallel with two runs of all other
//! tests. The latter have a low priority, so that servers and clients get a processor when they need one.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::cargo_env::forget_package;
use crate::poll;
use crate::process;
use crate::tasks::{Failure, cargo, display, workspace_root};

/// Package of the tests that wait for real servers.
const WAITING: &str = "tests";

/// Number of waiting runs at a time. With more, starting the Java processes would keep two cores busy for
/// longer than a session timeout.
const JOBS: usize = 2;

/// Tests with sessions of 2 s that check that a lock is not lost too early. No other test against real
/// servers runs at the same time.
const ALONE: [&str; 2] = ["chaos_faults", "chaos_reproductions"];

/// Tests that compute for the longest time. They are a run of their own, because the last one of a run
/// may leave a processor idle.
const LONG: [&str; 2] = ["in_memory", "ten_thousand"];

/// Longest duration of one run. The longest run takes 5 min. A test that hangs would otherwise keep the other
/// results and its own name from being printed.
const RUN_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Runs all targets of the workspace, which must be built already. Fails if one of the runs fails. After a
/// failure no further run starts, and the current ones complete.
pub(super) fn run() -> Result<(), Failure> {
    let Plan { computing, alone, waiting } = Plan::of(&workspace_root())
        .map_err(|error| Failure::task(format!("looking for tests: {error}")))?;
    let (alone, waiting) = (Queue::of(alone), Queue::of(waiting));
    let failures = Mutex::new(Vec::new());
    let run = &|mut command: Command, log: &str| {
        let Err(failure) = run_one(&mut command, log) else { return };
        failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        alone.clear();
        waiting.clear();
    };
    let work = |queue: &Queue| {
        while let Some(test) = queue.next() {
            run(cargo(&["test", "--workspace", "--test", &test]), &test);
        }
    };
    thread::scope(|scope| {
        for (words, log) in computing.iter().zip(["long", "others"]) {
            scope.spawn(move || run(at_low_priority(words), log));
        }
        work(&alone);
        for _ in 0..JOBS {
            scope.spawn(|| work(&waiting));
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() { Ok(()) } else { Err(Failure::task(failures.join("\n"))) }
}

/// Queue of tests that have not started.
struct Queue(Mutex<VecDeque<String>>);

impl Queue {
    fn of(tests: Vec<String>) -> Self {
        Self(Mutex::new(tests.into()))
    }

    fn next(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Returns a cargo command with a low scheduling priority.
fn at_low_priority(words: &[String]) -> Command {
    let cargo = cargo(&[]);
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(cargo.get_program()).args(words);
    forget_package(command.current_dir(workspace_root()));
    command
}

/// Runs a command and prints its output at the end. The output goes to a file first, so that the lines of
/// parallel runs do not mix.
fn run_one(command: &mut Command, log: &str) -> Result<(), String> {
    let name = display(command);
    println!("==> {name}");
    let start = poll::now();
    let (end, output) = run_into_file(command.env("CI", "true"), log, RUN_LIMIT)
        .map_err(|error| format!("could not run {name}: {error}"))?;
    let took = start.elapsed().as_secs_f64();
    let (result, text) = match end {
        End::Succeeded => (Ok(()), "done in"),
        End::Failed => (Err("failed"), "FAILED after"),
        End::Hung => (Err("killed, because a test hung,"), "KILLED, because a test hung, after"),
    };
    // One `println!`, so that no other run prints in between.
    println!("{output}==> {text} {took:.1} s: {name}");
    result.map_err(|what| format!("{what} after {took:.1} s: {name}"))
}

/// End of a run.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
    /// It exceeded its limit and was killed.
    Hung,
}

/// Returns how the run ended, and its output with standard output and standard error in order.
fn run_into_file(command: &mut Command, log: &str, limit: Duration) -> io::Result<(End, String)> {
    let folder = workspace_root().join("target/xtask");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("test-{log}.log"));
    let file = File::create(&path)?;
    let mut run = command.stdout(file.try_clone()?).stderr(file).spawn()?;
    let status = poll::poll(limit, || run.try_wait().transpose());
    let end = match status.transpose()? {
        Some(status) if status.success() => End::Succeeded,
        Some(_) => End::Failed,
        None => {
            process::kill_with_descendants(run.id());
            run.wait()?;
            End::Hung
        }
    };
    Ok((end, String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
}

/// Distribution of the tests to runs. All runs select the same packages, so that cargo resolves the same
/// features for each of them and rebuilds nothing.
struct Plan {
    /// The arguments of the two runs of all tests that do not wait.
    computing: [Vec<String>; 2],
    /// Tests that wait and must not run in parallel with another such test.
    alone: Vec<String>,
    /// Tests that wait.
    waiting: Vec<String>,
}

impl Plan {
    fn of(root: &Path) -> io::Result<Self> {
        let mut others = BTreeSet::new();
        for member in members(root)? {
            if member != WAITING {
                others.extend(test_names(&root.join(member))?);
            }
        }
        let words = |kinds: &[&str], are_long: bool| {
            let tests = others.iter().filter(|name| LONG.contains(&name.as_str()) == are_long);
            let tests = tests.flat_map(|name| ["--test", name]);
            let words = ["test", "--workspace"].into_iter().chain(kinds.iter().copied());
            words.chain(tests).map(str::to_owned).collect()
        };
        let kinds = ["--lib", "--bins", "--examples", "--benches"];
        let computing = [words(&[], true), words(&kinds, false)];
        // A name that another package also has runs in that package's run.
        let waiting = &test_names(&root.join(WAITING))? - &others;
        let is_alone = |name: &String| ALONE.contains(&name.as_str());
        let (alone, waiting) = waiting.into_iter().partition(is_alone);
        Ok(Self { computing, alone, waiting })
    }
}

/// Returns the folders of the workspace's packages.
fn members(root: &Path) -> io::Result<Vec<String>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let listed = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().split('"').skip(1).step_by(2)
    };
    let mut members = Vec::new();
    for pattern in listed("members = ") {
        let Some(folder) = pattern.strip_suffix("/*") else {
            members.push(pattern.to_owned());
            continue;
        };
        for entry in fs::read_dir(root.join(folder))? {
            members.push(format!("{folder}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    members.retain(|member| listed("exclude = ").all(|excluded| excluded != member));
    Ok(members)
}

/// Returns the test targets of a package, found like cargo does: files and folders below `tests`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_has_every_test_file_once() {
        let root = workspace_root();
        let Plan { computing, alone, waiting } = Plan::of(&root).unwrap();
        let computing = computing.concat();
        for option in ["--workspace", "--lib", "--bins", "--examples", "--benches"] {
            assert!(computing.iter().any(|word| word == option), "{option}");
        }
        assert_eq!(alone, ALONE);
        let tests = computing.windows(2).filter(|two| two[0] == "--test").map(|two| &*two[1]);
        let waiting = alone.iter().chain(&waiting).map(String::as_str);
        let mut planned: Vec<&str> = tests.chain(waiting).collect();
        planned.sort_unstable();
        let mut found: Vec<String> = Vec::new();
        find_tests(&root, &mut found);
        found.sort_unstable();
        found.dedup();
        assert_eq!(planned, found, "each once");
        assert!(planned.contains(&"tidy") && planned.contains(&"ensemble"));
    }

    #[test]
    fn hanging_run_is_killed_and_its_output_is_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; sh -c 'echo $$; sleep 1000; :'; :"]);
        let limit = Duration::from_secs(1);
        let (end, output) = run_into_file(&mut command, "hanging-run", limit).unwrap();
        assert_eq!(end, End::Hung);
        let pids: Vec<u32> = output.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2, "{output}");
        for pid in pids {
            assert_eq!(poll::poll(limit, || (!process::is_alive(pid)).then_some(())), Some(()));
        }
    }

    /// Finds `tests/NAME.rs` and `tests/NAME/main.rs` in every folder with a manifest.
    fn find_tests(folder: &Path, found: &mut Vec<String>) {
        let is_outside = |name: &str| ["target", "fuzz", "compare", "zk-gssapi"].contains(&name);
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
