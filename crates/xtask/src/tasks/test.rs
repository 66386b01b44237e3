//! `cargo xtask test`: sets up what the tests need, and runs them.

pub(crate) mod kerberos;
mod needs;

use std::process::Command;

use self::needs::Needs;
use super::{Failure, cargo, fuzz, step, target_folder, workspace_root};
use crate::poll;
use crate::zookeeper::{Error, Release};

/// Tests to run, and the servers that they run against.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) servers: Servers,
    /// Arguments of `cargo test`.
    pub(crate) arguments: Vec<String>,
}

/// Servers of the tests against real ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// Those that the environment names, or Debian's.
    Found,
    /// Those of a release, which is downloaded once.
    Of(&'static Release),
    /// One that runs already, `HOST:PORT`. Tests that need servers of their own are skipped.
    Running(String),
}

/// Runs the tests of a plan. Without ZooKeeper, the tests that need it are skipped.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    match &plan.servers {
        Servers::Found => run_on_found(&plan.arguments),
        Servers::Of(release) => run_on_release(release, &plan.arguments),
        Servers::Running(address) => run_on_running(address, &plan.arguments),
    }
}

fn run_on_found(arguments: &[String]) -> Result<(), Failure> {
    if let Err(error) = Needs::of(&workspace_root(), arguments).set_up() {
        println!("==> tests against real servers will be skipped: {error}");
    }
    lines(arguments).iter().try_for_each(|words| step(&mut command(words)))?;
    if arguments.is_empty() { fuzz::test() } else { Ok(()) }
}

/// Runs the tests against real servers on those of a release.
fn run_on_release(release: &Release, arguments: &[String]) -> Result<(), Failure> {
    let needs = Needs::of_real_servers(&workspace_root(), arguments);
    let mut test = command(&line_for_real_servers(arguments));
    match release.unpacked(&target_folder().join("servers"))? {
        Some(jars) => {
            needs.without_jars().set_up()?;
            test.env("ZOOKEEPER_HOME", &jars).env("CURATOR_HOME", &jars);
        }
        None => {
            needs.set_up()?;
            test.env_remove("ZOOKEEPER_HOME").env_remove("CURATOR_HOME");
        }
    }
    println!("==> ZooKeeper {}, Curator {}", release.version, release.curator);
    step(test.env("CI", "true"))
}

/// Runs the tests that use one server with its defaults on the one at `address`, below a path of their own.
fn run_on_running(address: &str, arguments: &[String]) -> Result<(), Failure> {
    let path = format!("/zk-tests-{}-{}", poll::unix_seconds(), std::process::id());
    let mut test = command(&line_for_real_servers(arguments));
    let result = step(test.env("ZK_TESTS_CONNECT", format!("{address}{path}")));
    println!(
        "==> what the tests left is below {path}: `zk --connect {address} delete --recursive {path}`"
    );
    result
}

/// Installs what all tests need.
pub(crate) fn set_up() -> Result<(), Error> {
    Needs::ALL.set_up()
}

/// Returns the arguments of each `cargo test` to run. Without a selection in `arguments` there are two runs,
/// because `--all-targets` omits the examples in the documentation.
fn lines(arguments: &[String]) -> Vec<Vec<String>> {
    let options = needs::options(arguments);
    let scope = if needs::selects(options, &PACKAGE_OPTIONS) { None } else { Some("--workspace") };
    let targets: &[Option<&str>] = match needs::selects(options, &TARGET_OPTIONS) {
        true => &[None],
        false => &[Some("--all-targets"), Some("--doc")],
    };
    let line = |target: &Option<&str>| {
        let own = ["test"].into_iter().chain(scope).chain(*target).map(str::to_owned);
        own.chain(arguments.iter().cloned()).collect()
    };
    targets.iter().map(line).collect()
}

/// Returns the arguments of the `cargo test` for the tests against real servers.
fn line_for_real_servers(arguments: &[String]) -> Vec<String> {
    let options = needs::options(arguments);
    let mut line = vec!["test".to_owned()];
    if !needs::selects(options, &PACKAGE_OPTIONS) {
        line.extend(["--package", "zk-tests"].map(str::to_owned));
    }
    if !needs::selects(options, &TARGET_OPTIONS) {
        line.push("--tests".to_owned());
    }
    // Each program is run, so that the summary of one version is whole.
    line.push("--no-fail-fast".to_owned());
    line.extend(arguments.iter().cloned());
    line
}

fn command(words: &[String]) -> Command {
    cargo(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

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

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn planned(line: &str) -> Vec<String> {
        lines(&words(line)).iter().map(|words| words.join(" ")).collect()
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

    #[test]
    fn release_runs_the_tests_against_real_servers() {
        let line = |text| line_for_real_servers(&words(text)).join(" ");
        assert_eq!(line(""), "test --package zk-tests --tests --no-fail-fast");
        assert_eq!(line("--test sasl"), "test --package zk-tests --no-fail-fast --test sasl");
        assert_eq!(line("-p xtask"), "test --tests --no-fail-fast -p xtask");
    }
}
