//! Lanes: queues of commands that run side by side.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::poll;
use crate::process;
use crate::tasks::{Failure, timed, workspace_root};

/// Commands that run one after the other, or as many at a time as there are workers.
pub(super) struct Lane {
    pub(super) name: &'static str,
    /// Commands that run before all others of the lane, one at a time.
    pub(super) first: Vec<Job>,
    pub(super) jobs: Vec<Job>,
    pub(super) workers: usize,
    /// Scheduling priority, as `nice` takes it.
    pub(super) niceness: u32,
}

/// Command of a lane.
pub(super) struct Job {
    /// Name of its log.
    name: String,
    /// Line that is printed for the command.
    line: String,
    command: Command,
}

impl Lane {
    /// Returns a lane for commands that compute all the time.
    pub(super) fn in_background(name: &'static str, jobs: Vec<Job>) -> Self {
        Self { name, first: Vec::new(), jobs, workers: 1, niceness: 10 }
    }
}

impl Job {
    pub(super) fn new(name: &str, line: &str, command: Command) -> Self {
        Self { name: name.to_owned(), line: line.to_owned(), command }
    }

    #[cfg(test)]
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Runs all lanes, side by side. Fails if a command fails: then no further one starts, and the current ones
/// complete.
pub(super) fn run<const N: usize>(lanes: [Lane; N]) -> Result<(), Failure> {
    let failures = Mutex::new(Vec::new());
    let has_failed = || !failures.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    let run_queue = |queue: &Queue, niceness| {
        while let Some(job) = queue.next() {
            if has_failed() {
                break;
            }
            if let Err(failure) = run_one(job, niceness) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    let run_lane = |lane: Lane| {
        let Lane { name, first, jobs, workers, niceness } = lane;
        let ((), took) = timed(|| {
            run_queue(&Queue::of(first), niceness);
            let rest = Queue::of(jobs);
            thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| run_queue(&rest, niceness));
                }
            });
        });
        println!("==> {took:.1} s: lane of {name}");
    };
    thread::scope(|scope| {
        for lane in lanes {
            scope.spawn(|| run_lane(lane));
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() { Ok(()) } else { Err(Failure::task(failures.join("\n"))) }
}

/// Jobs that have not started.
struct Queue(Mutex<VecDeque<Job>>);

impl Queue {
    fn of(jobs: Vec<Job>) -> Self {
        Self(Mutex::new(jobs.into()))
    }

    fn next(&self) -> Option<Job> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Runs a command and prints its output at the end. The output goes to a file first, so that the lines of
/// commands that run side by side do not mix.
fn run_one(job: Job, niceness: u32) -> Result<(), String> {
    let Job { name, line, command } = job;
    println!("==> {line}");
    let run = || run_into_file(&mut at_priority(&command, niceness), &name, RUN_LIMIT);
    let (ended, took) = timed(run);
    let (end, output) = ended.map_err(|error| format!("could not run {line}: {error}"))?;
    let (result, text) = match end {
        End::Succeeded => (Ok(()), "done in"),
        End::Failed => (Err("failed"), "FAILED after"),
        End::Hung => (Err("killed, because it hung,"), "KILLED, because it hung, after"),
    };
    // One `println!`, so that nothing else prints in between.
    println!("{output}==> {text} {took:.1} s: {line}");
    result.map_err(|what| format!("{what} after {took:.1} s: {line}"))
}

/// Returns the command with a scheduling priority, and with `CI=true`: a missing server is a failure.
fn at_priority(command: &Command, niceness: u32) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", &niceness.to_string()]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice.env("CI", "true");
    nice
}

/// End of a command.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
    /// It exceeded its limit and was killed.
    Hung,
}

/// Returns how the command ended, and its output with standard output and standard error in order.
fn run_into_file(command: &mut Command, log: &str, limit: Duration) -> io::Result<(End, String)> {
    let path = log_file(log)?;
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

fn log_file(name: &str) -> io::Result<PathBuf> {
    let folder = workspace_root().join("target/xtask");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.log")))
}

/// Longest duration of one command. The slowest command takes 3 min. A command that hangs would keep all
/// results from being printed.
const RUN_LIMIT: Duration = Duration::from_secs(12 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job::new(name, script, command)
    }

    #[test]
    fn no_job_starts_after_a_failure() {
        let mark = std::env::temp_dir().join(format!("xtask-lane-{}", std::process::id()));
        let touch = shell("lane-later", &format!("touch {}", mark.display()));
        let lane = Lane::in_background("test", vec![shell("lane-fails", "exit 3"), touch]);
        let failure = run([lane]).unwrap_err();
        assert!(failure.message().contains("exit 3"), "{}", failure.message());
        assert!(!mark.exists());
    }

    #[test]
    fn first_jobs_of_a_lane_end_before_the_others_start() {
        let file = std::env::temp_dir().join(format!("xtask-first-{}", std::process::id()));
        let append = |name: &str| shell(name, &format!("echo {name} >> {}", file.display()));
        let mut lane = Lane::in_background("test", vec![append("lane-b")]);
        lane.first = vec![append("lane-a")];
        run([lane]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "lane-a\nlane-b\n");
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn hanging_command_is_killed_and_its_output_is_kept() {
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
}
