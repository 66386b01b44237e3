//! All test programs of the workspace: built and linted at once, and listed for the lanes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::lanes::Job;
use crate::tasks::{Failure, cargo, display, output_of, step, sysroot, timed, workspace_root};

/// Test programs, sorted by their load on the machine.
pub(super) struct TestPrograms {
    /// Tests with sessions of 2 s that check that a lock is not lost too early. No other test against real
    /// servers runs at the same time.
    pub(super) alone: Vec<Job>,
    /// Tests against real servers, which wait most of the time.
    pub(super) waiting: Vec<Job>,
    /// All others.
    pub(super) computing: Vec<Job>,
}

impl TestPrograms {
    /// Builds and lints all targets of the workspace, and the programs that tests run.
    pub(super) fn build() -> Result<Self, Failure> {
        let programs = built(&mut linted(cargo(&BUILD)))?;
        step(&mut linted(cargo(&BUILD_OF_WHAT_TESTS_RUN)))?;
        Ok(Self::sorted(programs))
    }

    fn sorted(mut programs: Vec<Program>) -> Self {
        // A long program that starts last leaves a processor idle.
        programs.sort_by_key(|program| !LONG.contains(&program.name()));
        let root = workspace_root();
        let is_waiting = |program: &Program| program.package == root.join(WAITING);
        let is_alone = |program: &Program| ALONE.contains(&program.name());
        let (waiting, computing) = programs.into_iter().partition::<Vec<_>, _>(is_waiting);
        let (alone, waiting) = waiting.into_iter().partition::<Vec<_>, _>(is_alone);
        let jobs = |programs: Vec<Program>| programs.iter().map(Program::job).collect();
        Self { alone: jobs(alone), waiting: jobs(waiting), computing: jobs(computing) }
    }
}

/// Test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    executable: PathBuf,
    /// Folder of its package, in which cargo runs it.
    package: PathBuf,
}

impl Program {
    /// Parses a line of cargo's messages. Returns `None` if the line does not name a test program.
    fn parse(line: &str) -> Option<Self> {
        let value = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
            rest.split_once('"').map(|(value, _)| PathBuf::from(value))
        };
        // The target has a field `test`, too, which says whether it could be one.
        let (_, profile) = line.split_once(r#""profile":{"#)?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains(r#""test":true"#) {
            return None;
        }
        let package = value("manifest_path")?.parent()?.to_owned();
        Some(Self { executable: value("executable")?, package })
    }

    /// Returns the name of the target.
    fn name(&self) -> &str {
        let file = self.executable.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        file.rsplit_once('-').map_or(file, |(name, _hash)| name)
    }

    fn job(&self) -> Job {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package);
        command.env("CARGO_MANIFEST_DIR", &self.package).env(IS_BUILT, "true");
        let name = self.name();
        if MANY_THAT_WAIT.contains(&name) {
            command.args(["--test-threads", "6"]);
        }
        command.env("ZK_WAITERS", WAITERS);
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        let (log, line) = (format!("test-{package}-{name}"), format!("tests: {package} {name}"));
        Job::new(&log, &line, command)
    }
}

/// Runs a cargo command that builds test programs, and returns these.
fn built(command: &mut Command) -> Result<Vec<Program>, Failure> {
    let name = display(command);
    println!("==> {name}");
    let (messages, took) = timed(|| output_of(command.stderr(Stdio::inherit())));
    println!("==> ended after {took:.1} s: {name}");
    let programs: Vec<Program> = messages?.lines().filter_map(Program::parse).collect();
    if programs.is_empty() {
        return Err(Failure::task("cargo's messages name no test program"));
    }
    Ok(programs)
}

/// Makes clippy's driver the compiler of the workspace's packages. It compiles as rustc does, and lints: as
/// two builds, both take twice as long.
pub(super) fn linted(mut command: Command) -> Command {
    let driver = sysroot().unwrap_or_default().join("bin/clippy-driver");
    command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

/// The feature brings what no other build has. The simulation and the packages are built without it.
const BUILD: [&str; 7] = [
    "test",
    "--workspace",
    "--all-targets",
    "--no-run",
    "--features",
    "zk-recipes/tracing",
    "--message-format=json-render-diagnostics",
];

/// Programs that tests run, in the folder in which they look for them.
const BUILD_OF_WHAT_TESTS_RUN: [&str; 10] = [
    "build",
    "--workspace",
    "--features",
    "zk-recipes/tracing",
    "--bin",
    "zk",
    "--bin",
    "flash-sale",
    "--example",
    "take_over",
];

/// Tells the tests that these programs are built: a cargo that checks it would wait for other ones.
const IS_BUILT: &str = "ZK_TESTS_ARE_BUILT";

/// Package of the tests that wait for real servers.
const WAITING: &str = "tests";

/// Tests with sessions of 2 s that check that a lock is not lost too early.
const ALONE: [&str; 2] = ["chaos_faults", "chaos_reproductions"];

/// Programs with many tests that wait for other programs, or for the end of sessions.
const MANY_THAT_WAIT: [&str; 2] = ["cli_contract", "curator"];

/// Waiters of the program `ten_thousand`: the work grows with the square.
const WAITERS: &str = "2000";

/// The programs that take the longest time.
const LONG: [&str; 5] = ["curator", "cli_contract", "in_memory", "ten_thousand", "short"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn line(executable: &str, is_test: bool) -> String {
        [
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/tests#zk-tests@0.1.0","#,
            r#""manifest_path":"/w/tests/Cargo.toml","target":{"name":"sasl","test":true},"#,
            &format!(
                r#""profile":{{"opt_level":"0","debuginfo":0,"test":{is_test}}},"features":[],"#
            ),
            &format!(r#""filenames":[],"executable":{executable},"fresh":true}}"#),
        ]
        .concat()
    }

    #[test]
    fn only_messages_about_test_programs_are_taken() {
        let program = Program::parse(&line(r#""/w/target/debug/deps/sasl-0c1d""#, true)).unwrap();
        assert_eq!(program.name(), "sasl");
        assert_eq!(program.package, Path::new("/w/tests"));
        assert_eq!(Program::parse(&line("null", true)), None, "a library");
        assert_eq!(Program::parse(&line(r#""/w/target/debug/zk""#, false)), None, "no test");
        assert_eq!(Program::parse(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn tests_are_sorted_by_what_they_do_to_the_machine() {
        let program = |folder: &str, name: &str| Program {
            executable: Path::new("/t").join(format!("{name}-0123")),
            package: workspace_root().join(folder),
        };
        let sorted = TestPrograms::sorted(vec![
            program("tests", "sasl"),
            program("tests", "chaos_faults"),
            program("tests", "cli_contract"),
            program("crates/zk-proto", "frames"),
            program("crates/zk-recipes", "in_memory"),
        ]);
        let names = |jobs: Vec<Job>| jobs.iter().map(Job::name).collect::<Vec<_>>().join(" ");
        assert_eq!(names(sorted.alone), "test-tests-chaos_faults");
        assert_eq!(names(sorted.waiting), "test-tests-cli_contract test-tests-sasl");
        assert_eq!(names(sorted.computing), "test-zk-recipes-in_memory test-zk-proto-frames");
    }
}
