//! The tasks behind the command line.

pub(crate) mod bench;
pub(crate) mod chaos;
pub(crate) mod ci;
pub(crate) mod conform;
pub(crate) mod fuzz;
pub(crate) mod sim;
pub(crate) mod test;
mod timing;
pub(crate) mod zookeeper;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::zookeeper::Error;

/// Why a task was not done: a message for standard error, and the exit status that goes with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// The task was asked for in a way that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 2 }
    }

    /// The task was tried and did not succeed.
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

/// Returns the folder that holds the workspace's `Cargo.toml`.
fn workspace_root() -> PathBuf {
    // Set by `cargo run` to where this package lies now; the compiled-in value is where it lay when
    // it was built, which is the same unless the workspace has been moved since.
    let package =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = Path::new(&package);
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// Returns the `cargo` that runs us, ready to run in the workspace.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace_root());
    command
}

/// Runs one step of a task, and prints what it is and how long it took.
fn step(command: &mut Command) -> Result<(), Failure> {
    run_program(command).map_err(|failure| Failure { status: 1, ..failure })
}

/// Runs a program like [`step`], and passes on its exit status.
fn run_program(command: &mut Command) -> Result<(), Failure> {
    let name = display(command);
    println!("==> {name}");
    let (status, took) = timing::timed(&name, || command.status());
    let took = took.as_secs_f64();
    match status {
        Ok(status) if status.success() => {
            println!("==> done in {took:.1} s: {name}");
            Ok(())
        }
        Ok(status) => {
            let message = format!("failed after {took:.1} s ({status}): {name}");
            // A program that a signal has ended has no code.
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Err(Failure { message, status: code.unwrap_or(1) })
        }
        Err(error) => Err(Failure::task(format!("could not run {name}: {error}"))),
    }
}

/// Builds the program that `selection` names, with cargo's progress on the screen, then runs it.
/// `cargo` makes the command lines.
///
/// # Errors
/// The build fails, with status 1, or the program does, with its own status.
fn build_and_run(
    cargo: impl Fn(&[&str]) -> Command,
    selection: &[&str],
    arguments: &[String],
) -> Result<(), Failure> {
    step(&mut cargo(&[&["build"], selection].concat()))?;
    run_program(cargo(&[&["run", "--quiet"], selection, &["--"]].concat()).args(arguments))
}

fn display(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

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
