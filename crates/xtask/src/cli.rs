//! Command line of `cargo xtask`.

use std::process::ExitCode;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::tasks::{
    Failure, api, bench, chaos, ci, conform, cross, deny, docs, fuzz, msrv, mutants, nightly,
    package, planted, protocol, servers, sim, test, zookeeper,
};

/// Runs the task that `arguments`, the first of which is the program's name, select.
///
/// The status is 0 on success, 1 if the task failed, and 2 if `arguments` are invalid. `chaos` and `sim`
/// return the status of the program that they run.
pub fn run(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    match run_task(&command().get_matches_from(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", failure.message());
            ExitCode::from(failure.status())
        }
    }
}

fn run_task(selected: &ArgMatches) -> Result<(), Failure> {
    let Some((task, options)) = selected.subcommand() else {
        print!("{}", page("everyday"));
        return Ok(());
    };
    let has = |option: &str| options.get_flag(option);
    match task {
        "zookeeper" => match options.subcommand() {
            Some(("start", options)) => zookeeper::start(options.get_one("port").copied()),
            Some(("stop", _)) => zookeeper::stop(),
            _ => zookeeper::status(),
        },
        "test" => run_tests(options),
        "fuzz" if has("check") => fuzz::check(),
        "fuzz" => {
            let is_quick = has("quick");
            let default = if is_quick { fuzz::QUICK_SECS } else { fuzz::SECS };
            let secs = options.get_one("secs").copied().unwrap_or(default);
            fuzz::run(&fuzz::Plan { secs, is_quick, targets: words(options) })
        }
        "sim" => sim::run(&words(options)),
        "planted" => planted::run(&words(options)),
        "mutants" => {
            let name = options.get_one::<String>("crate").map_or("", String::as_str);
            mutants::run(name, &words(options))
        }
        "conform" => conform::run(&words(options)),
        "chaos" => chaos::run(&words(options)),
        "bench" => match options.subcommand() {
            Some(("handoff", options)) => bench::handoff(&words(options)),
            _ => bench::instructions(),
        },
        "api" if has("check") => api::check(),
        "api" => api::write(),
        "docs" => docs::run(),
        "package" if has("no-build") => package::run_without_build(),
        "package" => package::run(),
        "deny" => deny::run(),
        "cross" => cross::run(),
        "protocol" => {
            let word = |name| options.get_one::<String>(name).map_or("HEAD", String::as_str);
            protocol::run(word("source"), word("revision"), has("write"))
        }
        "msrv" => msrv::run(&words(options)),
        "ci" => ci::run(),
        _ => nightly::run(),
    }
}

fn run_tests(options: &ArgMatches) -> Result<(), Failure> {
    let arguments = words(options);
    if let Some(version) = version(options) {
        return test::run_on(version, &arguments);
    }
    if let Some(address) = options.get_one::<String>("connect") {
        return test::connected::run(address, &arguments);
    }
    match options.subcommand() {
        Some((_kerberos, options)) => test::kerberos::run(&words(options)),
        None => test::run(&arguments),
    }
}

fn version(options: &ArgMatches) -> Option<&'static servers::Version> {
    options.get_one("server").copied()
}

/// Returns the arguments without a name.
fn words(options: &ArgMatches) -> Vec<String> {
    options.get_many("words").into_iter().flatten().cloned().collect()
}

fn command() -> Command {
    // `chaos`, `sim` and `conform` have help pages of their own.
    let program = |name| Command::new(name).disable_help_flag(true).arg(passed_on());
    let positive = || value_parser!(u32).range(1..);
    let version = ValueParser::new(servers::Version::parse);
    let server = Arg::new("server").long("server").value_parser(version);
    let connect = Arg::new("connect").long("connect").value_parser(address);
    let connect = connect.conflicts_with("server");
    let port = Arg::new("port").long("port").value_parser(value_parser!(u16).range(1..));
    let start = task("start").arg(port);
    let secs = Arg::new("secs").long("secs").value_parser(positive()).conflicts_with("quick");
    Command::new("cargo xtask")
        .bin_name("cargo xtask")
        .override_help(page("tasks"))
        .disable_help_subcommand(true)
        .subcommands([
            task("zookeeper").subcommand_required(true).subcommands([
                start.override_help(page("zookeeper")),
                task("stop").override_help(page("zookeeper")),
                task("status").override_help(page("zookeeper")),
            ]),
            task("test")
                .args([server, connect, passed_on()])
                .subcommand(Command::new("kerberos").override_help(page("test")).arg(passed_on())),
            task("fuzz").args([secs, flag("quick"), flag("check"), names()]),
            program("conform"),
            program("chaos"),
            program("sim"),
            task("planted").arg(names()),
            task("mutants").args([Arg::new("crate").required(true), passed_on()]),
            task("bench")
                .subcommand_required(true)
                .subcommands([program("handoff"), Command::new("instructions")]),
            task("api").arg(flag("check")),
            task("docs"),
            task("package").arg(flag("no-build")),
            task("deny"),
            task("cross"),
            task("protocol").args([
                Arg::new("source").required(true),
                Arg::new("revision"),
                flag("write"),
            ]),
            task("msrv").arg(names()),
            task("ci"),
            task("nightly"),
        ])
}

fn task(name: &'static str) -> Command {
    Command::new(name).override_help(page(name))
}

fn flag(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

fn names() -> Arg {
    Arg::new("words").num_args(0..)
}

/// Returns the arguments for another program.
fn passed_on() -> Arg {
    names().trailing_var_arg(true).allow_hyphen_values(true)
}

fn address(text: &str) -> Result<String, &'static str> {
    let port = text.split_once(':').filter(|(host, _)| !host.is_empty());
    match port.map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(1..)) => Ok(text.to_owned()),
        _ => Err("it takes one HOST:PORT"),
    }
}

/// Returns the help page whose heading contains `name`.
fn page(name: &str) -> &'static str {
    let mut pages = HELP.split("=== ").filter_map(|page| page.split_once('\n'));
    let page = pages.find(|(names, _)| names.split(' ').any(|one| one == name));
    page.map_or("", |(_, text)| text.trim_end_matches("\n\n"))
}

const HELP: &str = include_str!("help.txt");

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ArgMatches, clap::Error> {
        command().try_get_matches_from(["xtask"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn command_is_consistent_and_every_task_has_help() {
        let mut command = command();
        command.clone().debug_assert();
        for task in command.get_subcommands_mut().filter(|task| !task.is_disable_help_flag_set()) {
            let help = task.render_help().to_string();
            assert!(help.contains(&format!("cargo xtask {}", task.get_name())), "{help}");
        }
        assert!(!page("everyday").is_empty() && !page("tasks").is_empty());
    }

    #[test]
    fn arguments_of_other_programs_are_passed_on() {
        for (line, expected) in [
            ("chaos --help", "--help"),
            ("sim --seed 1", "--seed 1"),
            ("conform -h x", "-h x"),
            ("bench handoff --short", "--short"),
            ("test --test x -- --nocapture", "--test x -- --nocapture"),
            ("test --server 3.9.3 --test x", "--test x"),
            ("test --server=3.9.3 --test x", "--test x"),
            ("test --connect a:1 b", "b"),
            ("test kerberos --nocapture", "--nocapture"),
            ("test x kerberos", "x kerberos"),
            ("mutants zk-proto --shard 0/50", "--shard 0/50"),
        ] {
            let mut selected = parse(line).unwrap();
            while let Some((_, options)) = selected.remove_subcommand() {
                selected = options;
            }
            assert_eq!(words(&selected).join(" "), expected, "{line}");
        }
        let selected = parse("test --server 3.9.3").unwrap();
        let version = version(selected.subcommand_matches("test").unwrap());
        assert_eq!(version.unwrap().number(), "3.9.3");
    }

    #[test]
    fn invalid_lines_are_usage_errors() {
        for line in [
            "tset",
            "test --server",
            "test --server 3.7",
            "test --server=",
            "test --connect",
            "test --connect localhost",
            "test --connect :2181",
            "test --connect localhost:0",
            "test --connect a:1,b:2/c",
            "nightly now",
            "zookeeper",
            "zookeeper sttart",
            "zookeeper start now",
            "zookeeper start --port",
            "zookeeper start --port 0",
            "zookeeper start --port 70000",
            "zookeeper start --port=x",
            "zookeeper start --port 1 2",
            "zookeeper stop it",
            "fuzz --secs",
            "fuzz --secs 0",
            "fuzz --secs=x",
            "fuzz --jobs 2",
            "planted --quick",
            "mutants",
            "bench",
            "bench speed",
            "api --chekc",
            "docs all",
            "package all",
            "cross all",
            "protocol",
            "msrv --all",
            "ci fast",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
