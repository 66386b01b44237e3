//! Implementations of the tasks.

pub(crate) mod api;
pub(crate) mod bench;
mod bill;
pub(crate) mod chaos;
pub(crate) mod ci;
pub(crate) mod conform;
pub(crate) mod cross;
pub(crate) mod deny;
pub(crate) mod docs;
pub(crate) mod fuzz;
mod gssapi;
pub(crate) mod msrv;
pub(crate) mod mutants;
pub(crate) mod nightly;
pub(crate) mod package;
pub(crate) mod planted;
pub(crate) mod protocol;
pub(crate) mod servers;
pub(crate) mod sim;
pub(crate) mod test;
mod tools;
pub(crate) mod zookeeper;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo_env::forget_package;
use crate::poll;
use crate::zookeeper::Error;

/// Failure of a task: a message for standard error, and the exit status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Creates a failure for an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 2 }
    }

    /// Creates a failure of a task that ran.
    pub(crate) fn task(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 1 }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn status(&self) -> u8 {
        self.status
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::task(error.to_string())
    }
}

/// Returns the folder of the workspace's `Cargo.toml`.
fn workspace_root() -> PathBuf {
    // `cargo run` sets the variable to the package's current folder. The compiled-in value is the folder at
    // build time, which differs only if the workspace was moved since.
    let package =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = Path::new(&package);
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// Returns cargo's target folder.
fn target_folder() -> PathBuf {
    let folder = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace_root().join(folder)
}

/// Returns the folder in which cargo keeps what it has fetched.
fn cargo_home() -> PathBuf {
    let home = || env::home_dir().unwrap_or_default().join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// Returns the options that select packages.
fn package_options(names: &[&'static str]) -> impl Iterator<Item = &'static str> {
    names.iter().flat_map(|name| ["--package", name])
}

/// Returns a command for the `cargo` that runs this program, in the workspace's folder.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace_root());
    forget_package(&mut command);
    command
}

/// Returns a command for a workspace beside the main one, with its `manifest` relative to the root. It builds
/// into the folder of the main workspace, so that what both have in common is built once.
fn cargo_for(manifest: &str, arguments: &[&str]) -> Command {
    let (verb, arguments) = arguments.split_at(1);
    let mut command = cargo(verb);
    command.args(["--manifest-path", manifest]).args(arguments);
    command.env("CARGO_TARGET_DIR", target_folder());
    command
}

/// Returns a command for another task of this program.
///
/// The program may have been built again meanwhile, and its file replaced.
fn this_program(words: &[&str]) -> Command {
    let mut command = Command::new(format!("/proc/{}/exe", std::process::id()));
    command.args(words);
    command
}

/// Runs one step of a task, and prints its command line and its duration.
fn step(command: &mut Command) -> Result<(), Failure> {
    run_program(command).map_err(|failure| Failure { status: 1, ..failure })
}

/// Runs a program like [`step`], and returns a failure with the program's exit status.
fn run_program(command: &mut Command) -> Result<(), Failure> {
    let name = display(command);
    println!("==> {name}");
    let (status, took) = timed(|| command.status());
    match status {
        Ok(status) if status.success() => {
            println!("==> done in {took:.1} s: {name}");
            Ok(())
        }
        Ok(status) => {
            let message = format!("failed after {took:.1} s ({status}): {name}");
            // A program terminated by a signal has no code.
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Err(Failure { message, status: code.unwrap_or(1) })
        }
        Err(error) => Err(Failure::task(format!("could not run {name}: {error}"))),
    }
}

/// Builds the program that `selection` names, with cargo's progress on the screen, then runs it.
///
/// # Errors
/// If the build fails, with status 1, or if the program fails, with its own status.
fn build_and_run(selection: &[&str], arguments: &[String]) -> Result<(), Failure> {
    step(&mut cargo(&[&["build"], selection].concat()))?;
    run_program(cargo(&[&["run", "--quiet"], selection, &["--"]].concat()).args(arguments))
}

/// Runs `work`, and returns its duration in seconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = poll::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

/// Runs a program, and returns its standard output. Its standard error is in the failure.
fn output_of(command: &mut Command) -> Result<String, Failure> {
    let name = display(command);
    let output = command.output();
    let output = output.map_err(|error| Failure::task(format!("could not run {name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::task(format!("{name} failed ({}): {said}", output.status)))
}

/// Returns the folder of the toolchain.
fn sysroot() -> Result<PathBuf, Failure> {
    let path = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(PathBuf::from(path.trim()))
}

fn display(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The crates that other projects use.
const LIBRARIES: [&str; 9] = [
    "zk-proto",
    "zk-session-core",
    "zk-session",
    "zk-tls",
    "zk-srv",
    "zk-recipes",
    "zk-testing",
    "zk-coordination",
    "zk-discovery",
];

/// The package of the command `zk`.
const COMMAND: &str = "zk-recipes-cli";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_status_is_passed_on() {
        let run = |script: &str| run_program(Command::new("sh").args(["-c", script]));
        assert_eq!(run("exit 0"), Ok(()));
        for status in [1, 2] {
            assert_eq!(run(&format!("exit {status}")).unwrap_err().status(), status);
        }
        assert_eq!(run("kill -KILL $$").unwrap_err().status(), 1);
        assert_eq!(step(Command::new("sh").args(["-c", "exit 2"])).unwrap_err().status(), 1);
    }
}
