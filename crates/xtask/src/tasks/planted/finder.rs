//! Run that must fail with a fault: some tests, or seeds of the simulation.

use std::fmt;
use std::process::{Command, Output};

use super::workspace_copy::WorkspaceCopy;
use crate::tasks::{Failure, display};

/// Tests or simulation that must find a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finder {
    /// Seeds of the simulation, from 0: of locks, or of the recipes of `zk-coordination`.
    Sim { is_coordination: bool, seeds: u32 },
    /// `cargo test` with these arguments and environment variables.
    Test { variables: Vec<(String, String)>, arguments: Vec<String> },
}

/// Result of a finder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// The finder failed; the text says how.
    Found(String),
}

impl Finder {
    /// Parses `sim [--coordination] [--seeds N]` or `[NAME=VALUE...] test ARG...`. The last argument is a
    /// test's name.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let count = words.iter().take_while(|word| word.contains('=')).count();
        let (variables, command) = words.split_at(count);
        let invalid =
            || format!("`{line}` is neither `sim [--coordination] [--seeds N]` nor `test ARG...`");
        match command {
            ["sim", options @ ..] if count == 0 => {
                let is_coordination = options.first() == Some(&"--coordination");
                let seeds = match &options[usize::from(is_coordination)..] {
                    [] => SEEDS,
                    ["--seeds", seeds] => seeds.parse().map_err(|_| invalid())?,
                    _ => return Err(invalid()),
                };
                Ok(Self::Sim { is_coordination, seeds })
            }
            ["test", arguments @ ..] if !arguments.is_empty() => Ok(Self::Test {
                variables: variables
                    .iter()
                    .filter_map(|word| word.split_once('='))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            }),
            _ => Err(invalid()),
        }
    }

    /// Sets the number of seeds, if this is a simulation and there is a number.
    pub(super) fn set_seeds(&mut self, number: Option<u32>) {
        if let (Self::Sim { seeds, .. }, Some(number)) = (self, number) {
            *seeds = number;
        }
    }

    /// Returns the run that must pass without a fault. For the simulation, a few seeds suffice, because `ci`
    /// runs many.
    pub(super) fn without_fault(&self) -> Self {
        match self {
            &Self::Sim { is_coordination, .. } => {
                Self::Sim { is_coordination, seeds: SEEDS_WITHOUT_FAULT }
            }
            Self::Test { .. } => self.clone(),
        }
    }

    /// Returns the name of the test without its modules, if this is a test.
    #[cfg(test)]
    pub(super) fn test_name(&self) -> Option<&str> {
        match self {
            Self::Sim { .. } => None,
            Self::Test { arguments, .. } => arguments.last()?.rsplit("::").next(),
        }
    }

    /// Builds the run in a copy of the workspace, and runs it.
    ///
    /// # Errors
    /// If the copy does not build, has no such test, or if the simulation ends without a violation.
    pub(super) fn run(&self, copy: &WorkspaceCopy) -> Result<Verdict, Failure> {
        let (build, mut run) = match self {
            Self::Sim { is_coordination, seeds } => {
                let mut run = copy.limited(copy.sim_program().as_os_str(), SECONDS_MAX);
                run.args(is_coordination.then_some("--coordination"));
                run.args(["--seeds", &seeds.to_string()]);
                (copy.build_of_sim(), run)
            }
            Self::Test { variables, arguments } => {
                let mut build = copy.cargo(&["test", "--no-run"]);
                build.args(arguments);
                let mut run = copy.limited(build.get_program(), SECONDS_MAX);
                run.arg("test").args(arguments).envs(variables.iter().cloned());
                (build, run)
            }
        };
        let built = output(build)?;
        if !built.status.success() {
            let text = String::from_utf8_lossy(&built.stderr);
            return Err(Failure::task(format!("does not build:\n{text}")));
        }
        run.env("RUST_BACKTRACE", "0");
        let ended = output(run)?;
        Ok(match ended.status.code() {
            Some(0) if self.has_run(&ended) => Verdict::Passed,
            Some(0) => return Err(Failure::task(format!("there is no such test: {self}"))),
            code => match (self.first_failure(&ended), self) {
                (Some(failure), _) => Verdict::Found(failure),
                (None, Self::Sim { .. }) => {
                    let status = ended.status;
                    return Err(Failure::task(format!("no violation, but {status}: {self}")));
                }
                (None, _) if code == Some(TIMED_OUT) => {
                    Verdict::Found(format!("no end within {SECONDS_MAX} s: {self}"))
                }
                (None, _) => Verdict::Found(format!("{}: {self}", ended.status)),
            },
        })
    }

    /// Returns false if no test has the name that the finder selects.
    fn has_run(&self, ended: &Output) -> bool {
        let text = String::from_utf8_lossy(&ended.stdout);
        matches!(self, Self::Sim { .. }) || text.lines().any(|line| line.ends_with(" ... ok"))
    }

    /// Returns the part of a run's output that says what failed, if there is one.
    fn first_failure(&self, ended: &Output) -> Option<String> {
        let text = String::from_utf8_lossy(&ended.stdout);
        let is_failure = |line: &&str| match self {
            Self::Sim { .. } => line.contains(" is broken: "),
            Self::Test { .. } => line.starts_with("test ") && line.ends_with(" ... FAILED"),
        };
        let failures: Vec<&str> = text.lines().filter(is_failure).collect();
        let first = failures.first()?;
        Some(match self {
            Self::Sim { .. } => {
                let seed = text.lines().rev().find_map(|line| line.strip_prefix("seed "));
                let seed = seed.and_then(|line| line.split(';').next()).unwrap_or_default();
                let first: String = first.chars().take(FAILURE_LEN_MAX).collect();
                format!("sim, seed {seed}: {first}")
            }
            Self::Test { .. } => {
                let name = first.trim_start_matches("test ").trim_end_matches(" ... FAILED");
                match failures.len() - 1 {
                    0 => name.to_owned(),
                    more => format!("{name}, and {more} more"),
                }
            }
        })
    }
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sim { is_coordination: false, seeds } => write!(f, "sim --seeds {seeds}"),
            Self::Sim { is_coordination: true, seeds } => {
                write!(f, "sim --coordination --seeds {seeds}")
            }
            Self::Test { variables, arguments } => {
                variables.iter().try_for_each(|(name, value)| write!(f, "{name}={value} "))?;
                write!(f, "test {}", arguments.join(" "))
            }
        }
    }
}

fn output(mut command: Command) -> Result<Output, Failure> {
    command
        .output()
        .map_err(|error| Failure::task(format!("could not run {}: {error}", display(&command))))
}

/// Seeds of the simulation within which it must find a fault, unless the fault has its own number.
const SEEDS: u32 = 1_000;
const SEEDS_WITHOUT_FAULT: u32 = 200;

/// Seconds that a run may take. Under some faults a test waits for ever.
const SECONDS_MAX: u32 = 300;
/// Exit status of `timeout` in that case.
const TIMED_OUT: i32 = 124;

const FAILURE_LEN_MAX: usize = 70;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_finders_parse_and_print() {
        let sims = ["sim --seeds 20", "sim --coordination --seeds 20"];
        for line in
            sims.into_iter().chain(["test -p zk-proto --lib x", "A=1 test -p zk-proto x::y"])
        {
            assert_eq!(Finder::parse(line).unwrap().to_string(), line);
        }
        let default = Finder::Sim { is_coordination: false, seeds: SEEDS };
        assert_eq!(Finder::parse("sim").unwrap(), default);
        let finder = Finder::parse("test -p zk-recipes --test in_memory guard::x").unwrap();
        assert_eq!(finder.test_name(), Some("x"));
    }

    #[test]
    fn invalid_finders_are_rejected() {
        for line in [
            "",
            "test",
            "sim --seeds",
            "sim --seeds many",
            "sim --coordination x",
            "A=1 sim",
            "run x",
        ] {
            assert!(Finder::parse(line).is_err(), "{line}");
        }
    }
}
