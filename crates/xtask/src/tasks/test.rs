//! `cargo xtask test`: sets up what the tests need, and runs them.

pub(crate) mod connected;
pub(crate) mod kerberos;
mod tally;

use std::process::Command;

use super::servers::Version;
use super::{Failure, cargo, fuzz, step};
use crate::zookeeper::{
    Distribution, Error, Privilege, SUDO_VARIABLE, curator_jars, ensure_kazoo,
    ensure_namespace_tools,
};
use tally::Tally;

/// Runs the tests that `arguments` select, or all of them. Without ZooKeeper, the tests that need it are
/// skipped.
///
/// A run of all tests begins with the installation of their packages. A selected test installs its packages
/// itself, because only `cargo test` decides which tests run.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return plan(arguments).iter().try_for_each(|words| step(&mut command(words)));
    }
    if let Err(error) = set_up() {
        println!("==> tests against real servers will be skipped: {error}");
    }
    plan(&[]).iter().try_for_each(|words| step(&mut command(words)))?;
    fuzz::test()
}

/// Runs the tests of `zk-tests`, or those that `arguments` select, on a version of ZooKeeper. A missing Java
/// is a failure.
pub(crate) fn run_on(version: &Version, arguments: &[String]) -> Result<(), Failure> {
    let mut test = cargo(&["test", "--no-fail-fast"]);
    if !selects(arguments, &PACKAGE_OPTIONS) {
        test.args(["-p", TESTS]);
    }
    if !selects(arguments, &TARGET_OPTIONS) {
        test.arg("--tests");
    }
    version.select(&mut test)?;
    test.args(arguments).env(SUDO_VARIABLE, "true").env("CI", "true");
    let name = format!("tests on ZooKeeper {}", version.number());
    let (tally, succeeded) = Tally::of(&mut test)?;
    println!("==> {name}: {tally}");
    if succeeded { Ok(()) } else { Err(Failure::task(format!("{name}: {tally}"))) }
}

/// Installs what all tests need.
pub(crate) fn set_up() -> Result<(), Error> {
    let distribution = Distribution::find_or_install(Privilege::Sudo)?;
    println!("==> {distribution}");
    if let Err(error) = ensure_namespace_tools(Privilege::Sudo) {
        println!("==> tests that cut links between servers will be skipped: {error}");
    }
    if let Err(error) = curator_jars(Privilege::Sudo) {
        println!("==> tests beside Curator will be skipped: {error}");
    }
    if let Err(reason) = ensure_kazoo(Privilege::Sudo) {
        println!("==> the test of the benchmark will leave out kazoo: {reason}");
    }
    Ok(())
}

/// Returns the arguments of each `cargo test` to run. Without a selection in `arguments` there are two runs,
/// because `--all-targets` omits the examples in the documentation.
fn plan(arguments: &[String]) -> Vec<Vec<String>> {
    let scope = if selects(arguments, &PACKAGE_OPTIONS) { None } else { Some("--workspace") };
    let targets: &[Option<&str>] = if selects(arguments, &TARGET_OPTIONS) {
        &[None]
    } else {
        &[Some("--all-targets"), Some("--doc")]
    };
    let line = |target: &Option<&str>| {
        let own = ["test"].into_iter().chain(scope).chain(*target).map(str::to_owned);
        own.chain(arguments.iter().cloned()).collect()
    };
    targets.iter().map(line).collect()
}

/// Returns whether the arguments for `cargo test` contain one of the options.
fn selects(arguments: &[String], names: &[&str]) -> bool {
    let options = arguments.split(|word| word == "--").next().unwrap_or_default();
    options.iter().any(|word| names.contains(&word.split('=').next().unwrap_or(word)))
}

fn command(words: &[String]) -> Command {
    let mut command = cargo(&words.iter().map(String::as_str).collect::<Vec<_>>());
    command.env(SUDO_VARIABLE, "true");
    command
}

/// Package of the tests against real servers.
const TESTS: &str = "zk-tests";

const PACKAGE_OPTIONS: [&str; 5] = ["-p", "--package", "--workspace", "--all", "--manifest-path"];
const TARGET_OPTIONS: [&str; 10] = [
    "--lib",
    "--bin",
    "--bins",
    "--example",
    "--examples",
    "--test",
    "--tests",
    "--bench",
    "--doc",
    "--all-targets",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(line: &str) -> Vec<String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        plan(&arguments).iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn empty_selection_runs_targets_and_documentation() {
        assert_eq!(planned(""), ["test --workspace --all-targets", "test --workspace --doc"]);
    }

    #[test]
    fn target_selection_is_passed_on_unchanged() {
        assert_eq!(planned("--test tidy"), ["test --workspace --test tidy"]);
        assert_eq!(planned("-p xtask --doc"), ["test -p xtask --doc"]);
    }

    #[test]
    fn filter_applies_to_both_runs() {
        assert_eq!(
            planned("parse -- --nocapture --test"),
            [
                "test --workspace --all-targets parse -- --nocapture --test",
                "test --workspace --doc parse -- --nocapture --test"
            ]
        );
    }
}
