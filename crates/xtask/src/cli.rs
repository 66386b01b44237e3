//! Command line of `cargo xtask`: parsing, help pages and usage errors.

use std::process::ExitCode;

use crate::tasks::{
    Failure, api, bench, chaos, ci, conform, cross, deny, docs, fuzz, msrv, mutants, nightly,
    package, planted, servers, sim, test, zookeeper,
};

/// Runs the task that `arguments` (without the program's name) select.
///
/// The status is 0 on success, 1 if the task failed, and 2 if `arguments` are invalid. `chaos` and `sim`
/// return the status of the program that they run.
pub fn run(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let failure = match Request::parse(&arguments) {
        Ok(request) => match request.run() {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => failure,
        },
        Err(failure) => failure,
    };
    eprintln!("xtask: {}", failure.message());
    ExitCode::from(failure.status())
}

/// Task with its arguments, or a help page.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Help(&'static str),
    ZookeeperStart { port: Option<u16> },
    ZookeeperStop,
    ZookeeperStatus,
    Test { arguments: Vec<String> },
    TestOnVersion { version: &'static servers::Version, arguments: Vec<String> },
    TestConnected { address: String, arguments: Vec<String> },
    TestKerberos { arguments: Vec<String> },
    Fuzz(fuzz::Plan),
    FuzzCheck,
    Sim { arguments: Vec<String> },
    Planted { names: Vec<String> },
    Mutants { name: String, arguments: Vec<String> },
    Conform { arguments: Vec<String> },
    Chaos { arguments: Vec<String> },
    Bench { arguments: Vec<String> },
    BenchInstructions,
    Api,
    ApiCheck,
    Docs,
    Deny,
    Package,
    PackageWithoutBuild,
    Cross,
    Msrv { names: Vec<String> },
    Ci,
    Nightly,
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words[..] {
            [] => Ok(Self::Help(EVERYDAY)),
            ["-h" | "--help" | "help"] => Ok(Self::Help(HELP)),
            ["zookeeper", ref rest @ ..] => Self::parse_zookeeper(rest),
            ["test", "-h" | "--help"] | ["test", "kerberos", "-h" | "--help"] => {
                Ok(Self::Help(TEST_HELP))
            }
            ["test", "kerberos", ..] => {
                Ok(Self::TestKerberos { arguments: arguments[2..].to_vec() })
            }
            ["test", ..] => Self::parse_test(&arguments[1..]),
            ["fuzz", "-h" | "--help"] => Ok(Self::Help(FUZZ_HELP)),
            ["fuzz", "--check"] => Ok(Self::FuzzCheck),
            ["fuzz", ref rest @ ..] => Self::parse_fuzz(rest),
            ["sim", ..] => Ok(Self::Sim { arguments: arguments[1..].to_vec() }),
            ["planted", "-h" | "--help"] => Ok(Self::Help(PLANTED_HELP)),
            ["planted", option, ..] if option.starts_with('-') => Err(surplus("planted", option)),
            ["planted", ..] => Ok(Self::Planted { names: arguments[1..].to_vec() }),
            ["mutants"] => Err(Failure::usage("which crate? see `cargo xtask mutants --help`")),
            ["mutants", "-h" | "--help"] => Ok(Self::Help(MUTANTS_HELP)),
            ["mutants", name, ..] => {
                Ok(Self::Mutants { name: name.to_owned(), arguments: arguments[2..].to_vec() })
            }
            ["conform", "-h" | "--help"] => Ok(Self::Help(CONFORM_HELP)),
            ["conform", ..] => Ok(Self::Conform { arguments: arguments[1..].to_vec() }),
            ["chaos", ..] => Ok(Self::Chaos { arguments: arguments[1..].to_vec() }),
            ["bench", "-h" | "--help"] => Ok(Self::Help(BENCH_HELP)),
            ["bench", "handoff", ..] => Ok(Self::Bench { arguments: arguments[2..].to_vec() }),
            ["bench", "instructions"] => Ok(Self::BenchInstructions),
            ["bench", "instructions", extra, ..] => Err(surplus("bench", extra)),
            ["bench", ..] => Err(Failure::usage(
                "which benchmark? use `cargo xtask bench handoff` or `cargo xtask bench instructions`",
            )),
            ["api", "-h" | "--help"] => Ok(Self::Help(API_HELP)),
            ["api"] => Ok(Self::Api),
            ["api", "--check"] => Ok(Self::ApiCheck),
            ["docs", "-h" | "--help"] => Ok(Self::Help(DOCS_HELP)),
            ["docs"] => Ok(Self::Docs),
            ["package" | "cross" | "msrv" | "deny", "-h" | "--help"] => {
                Ok(Self::Help(RELEASE_HELP))
            }
            ["package"] => Ok(Self::Package),
            ["package", "--no-build"] => Ok(Self::PackageWithoutBuild),
            ["cross"] => Ok(Self::Cross),
            ["deny"] => Ok(Self::Deny),
            ["msrv", option, ..] if option.starts_with('-') => Err(surplus("msrv", option)),
            ["msrv", ..] => Ok(Self::Msrv { names: arguments[1..].to_vec() }),
            [task @ ("api" | "docs" | "package" | "cross" | "deny"), extra, ..] => {
                Err(surplus(task, extra))
            }
            ["ci", "-h" | "--help"] => Ok(Self::Help(CI_HELP)),
            ["ci"] => Ok(Self::Ci),
            ["nightly", "-h" | "--help"] => Ok(Self::Help(NIGHTLY_HELP)),
            ["nightly"] => Ok(Self::Nightly),
            [task @ ("ci" | "nightly"), extra, ..] => Err(surplus(task, extra)),
            [unknown, ..] => {
                Err(Failure::usage(format!("no task `{unknown}`; see `cargo xtask --help`")))
            }
        }
    }

    fn parse_zookeeper(words: &[&str]) -> Result<Self, Failure> {
        match *words {
            ["-h" | "--help"] | [_, "-h" | "--help"] => Ok(Self::Help(ZOOKEEPER_HELP)),
            ["start"] => Ok(Self::ZookeeperStart { port: None }),
            ["start", "--port"] => Err(Failure::usage("--port needs a number")),
            ["start", "--port", port] => Self::parse_start(port),
            ["start", option] if option.starts_with("--port=") => {
                Self::parse_start(option.trim_start_matches("--port="))
            }
            ["start", "--port", _, extra, ..] | ["start", extra, ..] => {
                Err(surplus("zookeeper start", extra))
            }
            ["stop"] => Ok(Self::ZookeeperStop),
            ["status"] => Ok(Self::ZookeeperStatus),
            [task @ ("stop" | "status"), extra, ..] => {
                Err(surplus(&format!("zookeeper {task}"), extra))
            }
            _ => Err(Failure::usage(
                "use `cargo xtask zookeeper start [--port PORT]`, `... stop` or `... status`",
            )),
        }
    }

    fn parse_start(port: &str) -> Result<Self, Failure> {
        match port.parse() {
            Ok(number) if number != 0 => Ok(Self::ZookeeperStart { port: Some(number) }),
            _ => Err(Failure::usage(format!("`{port}` is no port: it takes 1 to 65535"))),
        }
    }

    /// Parses the arguments of `test`. Only the first one may be an option of the task.
    fn parse_test(arguments: &[String]) -> Result<Self, Failure> {
        let Some((first, rest)) = arguments.split_first() else {
            return Ok(Self::Test { arguments: Vec::new() });
        };
        let (option, value, rest) = match (first.split_once('='), rest.split_first()) {
            (Some((option, value)), _) => (option, Some(value), rest),
            (None, Some((value, others))) => (first.as_str(), Some(value.as_str()), others),
            (None, None) => (first.as_str(), None, rest),
        };
        let needed = |what: &str| {
            value.ok_or_else(|| {
                Failure::usage(format!("{option} needs {what}; see `cargo xtask test --help`"))
            })
        };
        match option {
            "--server" => {
                let version = servers::Version::parse(needed("a version of ZooKeeper")?)?;
                Ok(Self::TestOnVersion { version, arguments: rest.to_vec() })
            }
            "--connect" => {
                let address = needed("HOST:PORT")?;
                Self::check_address(address)?;
                Ok(Self::TestConnected { address: address.to_owned(), arguments: rest.to_vec() })
            }
            _ => Ok(Self::Test { arguments: arguments.to_vec() }),
        }
    }

    fn check_address(address: &str) -> Result<(), Failure> {
        let port = address.split_once(':').filter(|(host, _)| !host.is_empty());
        match port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(number)) if number != 0 => Ok(()),
            _ => Err(Failure::usage(format!("`{address}` is no HOST:PORT"))),
        }
    }

    fn parse_fuzz(words: &[&str]) -> Result<Self, Failure> {
        let mut plan = fuzz::Plan::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match (*word, word.strip_prefix("--secs=")) {
                (_, Some(secs)) => plan.secs = Self::parse_secs(secs)?,
                ("--secs", _) => {
                    let secs =
                        words.next().ok_or_else(|| Failure::usage("--secs needs a number"))?;
                    plan.secs = Self::parse_secs(secs)?;
                }
                ("--quick", _) => (plan.is_quick, plan.secs) = (true, fuzz::QUICK_SECS),
                (option, _) if option.starts_with('-') => return Err(surplus("fuzz", option)),
                (target, _) => plan.targets.push(target.to_owned()),
            }
        }
        Ok(Self::Fuzz(plan))
    }

    fn parse_secs(secs: &str) -> Result<u32, Failure> {
        match secs.parse() {
            // libFuzzer treats 0 as unlimited.
            Ok(number) if number != 0 => Ok(number),
            _ => Err(Failure::usage(format!("`{secs}` is no number of seconds"))),
        }
    }

    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Help(page) => {
                print!("{page}");
                Ok(())
            }
            Self::ZookeeperStart { port } => zookeeper::start(port),
            Self::ZookeeperStop => zookeeper::stop(),
            Self::ZookeeperStatus => zookeeper::status(),
            Self::Test { arguments } => test::run(&arguments),
            Self::TestOnVersion { version, arguments } => test::run_on(version, &arguments),
            Self::TestConnected { address, arguments } => {
                test::connected::run(&address, &arguments)
            }
            Self::TestKerberos { arguments } => test::kerberos::run(&arguments),
            Self::Fuzz(plan) => fuzz::run(&plan),
            Self::FuzzCheck => fuzz::check(),
            Self::Sim { arguments } => sim::run(&arguments),
            Self::Planted { names } => planted::run(&names),
            Self::Mutants { name, arguments } => mutants::run(&name, &arguments),
            Self::Conform { arguments } => conform::run(&arguments),
            Self::Chaos { arguments } => chaos::run(&arguments),
            Self::Bench { arguments } => bench::handoff(&arguments),
            Self::BenchInstructions => bench::instructions(),
            Self::Api => api::write(),
            Self::ApiCheck => api::check(),
            Self::Docs => docs::run(),
            Self::Package => package::run(),
            Self::PackageWithoutBuild => package::run_without_build(),
            Self::Cross => cross::run(),
            Self::Deny => deny::run(),
            Self::Msrv { names } => msrv::run(&names),
            Self::Ci => ci::run(),
            Self::Nightly => nightly::run(),
        }
    }
}

fn surplus(task: &str, extra: &str) -> Failure {
    Failure::usage(format!("`{task}` does not take `{extra}`; see `cargo xtask {task} --help`"))
}

/// Page of `cargo xtask` alone.
const EVERYDAY: &str = "\
What a contributor needs every day:

  cargo test -p zk-recipes                      test one crate; this needs nothing but Rust
  cargo xtask test --test session_basics NAME   run one test on a real server
  cargo xtask test --server 3.9.5               run all of those on a version of ZooKeeper
  cargo xtask zookeeper start                   run a server on 127.0.0.1:2181
  cargo xtask sim --seeds 1000                  simulate clients and locks under faults
  cargo xtask ci                                check everything, before a change is proposed

`cargo xtask --help` lists all tasks, and CONTRIBUTING.md has the rules.
";

const HELP: &str = "\
Development tasks of this workspace.

Usage: cargo xtask TASK

Tasks:
  zookeeper start [--port PORT]   run a ZooKeeper server in the background
  zookeeper stop                  stop it
  zookeeper status                tell whether it runs
  test [ARG...]                   set up what tests need, then run them, also on a chosen server
  fuzz [--secs N] [TARGET...]     fuzz whatever reads bytes from somebody else
  conform [ARG...]                compare the server of zk-testing with a real one
  chaos [--scenario NAME] [...]   break real ensembles while locks are held
  sim [--seeds N | --seed S]      simulate clients and locks under faults, deterministically
  planted [NAME...]               check that tests or the simulation find known faults
  mutants CRATE [ARG...]          check that tests fail when the code changes in small ways
  bench handoff [ARG...]          measure the hand-off of locks, beside other clients
  bench instructions              count instructions and allocations, without noise
  api [--check]                   write or compare the lists of public items
  docs                            build the guide in docs/ as a book
  package                         build each package as it would be published
  deny                            check licences, sources and known faults of all packages
  cross                           check the library crates for other operating systems
  msrv                            check with the oldest supported compiler
  ci                              everything a change must pass: format, lints, docs, tests, fuzzing
  nightly                         what takes too long for each change: more servers, seeds, faults

`cargo xtask TASK --help` has the details.
";

const ZOOKEEPER_HELP: &str = "\
A ZooKeeper server on 127.0.0.1 for development, in the background.

Usage: cargo xtask zookeeper start [--port PORT]
       cargo xtask zookeeper stop
       cargo xtask zookeeper status

`start` waits until the server serves; the port is 2181 by default. Data, log and process id are
kept in .zookeeper at the root of the workspace; data stays over a restart.
`stop` waits until the server is gone.
`status` prints address, version and mode, and exits with 1 if the server does not run.

The server is the one in ZOOKEEPER_HOME (an unpacked distribution, or a folder of its jars), else
that of Debian's package `zookeeper`, which `start` installs with apt-get where it may. Java is
JAVA_HOME's, else the one on the PATH, else Debian's, installed likewise.
";

const TEST_HELP: &str = "\
Runs every test, documentation examples included, or those that ARGs select.

Usage: cargo xtask test [ARG...]
       cargo xtask test --server VERSION [ARG...]
       cargo xtask test --connect HOST:PORT [ARG...]
       cargo xtask test kerberos [ARG...]

ARGs go to `cargo test`. With one that selects targets, such as `--test NAME` or `--doc`, only those
are run; with `-p NAME` only that package. Without any, the corpora under fuzz/ are replayed as well.

Missing packages (ZooKeeper, Java, Curator, tools for network namespaces) are installed with apt-get
where that is possible; a line says so first. Without ARGs this is the first step. With ARGs a test
installs what it needs when it starts.

--server runs the package zk-tests on another version of ZooKeeper, with a Curator of its time:
  3.6.3   Curator 2.13.0, from PyPI's pyspark 3.5.7
  3.8.0   Curator 5.4.0, the packages of Debian 12
  3.9.3   Curator 5.7.1, from PyPI's pyspark 4.0.0
  3.9.5   Curator 5.9.0, from PyPI's pyspark 4.3.0
A download has up to 460 MB, of which some 25 MB stay in target/servers. python3 and pip are installed
if they are missing.

--connect runs the tests of zk-tests that can use a server that is already there, with ZooKeeper's
default settings. They stay below /zk-tests-NUMBER, which is removed at the end. All others are skipped.

`kerberos` runs the checks and tests of crates/zk-gssapi instead, which is no part of the workspace. It
starts a Kerberos realm on loopback, and installs krb5-kdc, krb5-admin-server, libkrb5-dev and
libclang-dev for it.

Tests that need what this machine does not have are skipped with a line that says so, unless
CI=true.
";

const FUZZ_HELP: &str = "\
Runs the fuzz targets under fuzz/, two at a time, and fails if one of them does.

Usage: cargo xtask fuzz [--quick | --secs N] [TARGET...]
       cargo xtask fuzz --check

Each TARGET, by default every target, runs for N seconds (default: 60). New inputs go to
fuzz/corpus-grown/TARGET. An input on which a target fails goes to fuzz/artifacts/TARGET, and a line says
how to replay it.

`--quick` runs each for 2 s, after a build that takes half as long.
`--check` checks formatting and lints, and fuzzes nothing.
Without a C++ compiler the seed corpora are replayed instead.
";

const PLANTED_HELP: &str = "\
Plants known faults into a copy of the workspace, one after the other, and fails if the tests or the
simulation do not find one of them.

Usage: cargo xtask planted [NAME...]

Each NAME, by default every fault, is a file tests/planted/NAME.patch; tests/planted/README.md describes
it. The copy and its build results are in target/planted.
";

const CONFORM_HELP: &str = "\
Plays scripts at the server of zk-testing and at a real one, and compares the answers. The first
scripts are the files in crates/zk-testing/tests/conformance/scripts, the others are random.

Usage: cargo xtask conform [--scripts N] [--seed S] [--version 3.8|3.9] [--record]

N, the number of random scripts, is 300 by default. Their seeds are S, S + 1 and so on; S is 1 by
default. The default version is that of the real server.

A script with different answers is shortened and printed, and the exit status is 1. Without a
real server nothing is compared, unless CI=true.

With --record, the answers of the real server replace those of its release in the files. The tests
of zk-testing compare them without a real server.
";

const BENCH_HELP: &str = "\
Benchmarks that need more than cargo to run.

Usage: cargo xtask bench handoff [ARG...]
       cargo xtask bench instructions

`handoff` measures how long a lock takes from one owner to the next, on a real server, beside other
clients. `instructions` counts the processor's instructions and the allocations of a lock's paths
through the library, under valgrind. Other work of the machine does not change the counts.

`cargo xtask bench handoff --help` lists the ARGs. The record and its plots go to benches/record.
Missing clients are installed: kazoo into a folder under target/,
the crate zookeeper-client into a workspace of its own; Curator is Debian's libcurator-recipes-java.
";

const MUTANTS_HELP: &str = "\
Changes the code of a crate in small ways, one at a time, and checks that a test fails.

Usage: cargo xtask mutants CRATE [ARG...]

CRATE is zk-proto, zk-session-core, zk-session, zk-recipes, zk-coordination or zk-discovery. The ARGs are
those of `cargo mutants`:
`--shard 0/50` takes a fiftieth of the changes, spread over all files, and
`--file crates/CRATE/src/FILE` those of one file. `--timeout 100` ends tests that hang after 100 s. All
changes of a crate take hours. The changes that no test noticed are in target/mutants.out/missed.txt.
It needs cargo-mutants and cargo-nextest, which `cargo install` installs.
";

const API_HELP: &str = "\
The public items of the library crates, one a line, in crates/*/public-api.txt.

Usage: cargo xtask api [--check]

Without an option the lists are written. A change of the public API is committed with its lists.
`--check` compares the lists with the code, prints the differences, and exits with 1 if there are any.
";

const DOCS_HELP: &str = "\
Builds the guide in docs/ as a book, into target/book.

Usage: cargo xtask docs

It needs mdBook: the `mdbook` on the PATH, or else the version that the task installs into target/tools
with `cargo install`, which takes some minutes once. Before the build the task checks the links between
pages, to sections and to pictures, and that docs/SUMMARY.md lists every page. It prints each broken link,
and exits with 1 if there are any. `cargo test -p xtask` checks the links too, without mdBook.
";

const RELEASE_HELP: &str = "\
Checks of the library crates and of the command `zk` as a user gets them.

Usage: cargo xtask package [--no-build]
       cargo xtask cross
       cargo xtask msrv [PACKAGE...]
       cargo xtask deny

`package` packs each of them, builds it from its package, and checks the README and LICENSE in it. It
writes what `zk` contains to target/package: zk.cdx.json (CycloneDX), and zk-notices.txt with the
licences of others.
`cross` checks the library crates for Windows and macOS, and zk-proto for WebAssembly. It skips a
target that the toolchain does not have, and prints its name.
`msrv` checks all of them, or each PACKAGE, with Rust 1.85, which it unpacks from packages of Debian 12.
It is skipped where these packages are not available.
`deny` checks the packages of all four lock files by the rules of deny.toml. It installs cargo-deny into
target/tools if it is missing. Known faults are checked if their database can be fetched or is at hand.
";

const CI_HELP: &str = "\
Everything a change must pass. First, in order:
  cargo fmt --all --check
  a build of all targets, with clippy and without a warning

Then side by side, until something fails:
  all tests, with CI=true: a missing ZooKeeper is a failure
  documentation tests; cargo xtask api --check; cargo xtask package --no-build; cargo xtask fuzz --check
  cargo xtask msrv of the lock library, the testing library and zk-coordination
  the simulation on 1,000 seeds, and on 400 of the recipes of zk-coordination
  cargo xtask fuzz --quick; without a C++ compiler the corpora are replayed

Usage: cargo xtask ci
";

const NIGHTLY_HELP: &str = "\
What takes too long for each change. Each part is a command that can be run by hand:
  cargo doc of the packages that are no libraries
  cargo xtask cross, package, deny, msrv, test kerberos
  ten thousand waiters of one session; `ci` has 2,000
  cargo xtask sim --seeds 20000, and --coordination --seeds 10000
  cargo xtask planted, with a third of the faults, other ones each day
  cargo xtask fuzz --secs 60
  cargo xtask test --server 3.6.3, 3.8.0, 3.9.3 and 3.9.5

A part that fails does not end the run. The exit status is 1 if one has failed.

Usage: cargo xtask nightly
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words)
    }

    #[test]
    fn valid_lines_parse() {
        let start = |port| Request::ZookeeperStart { port };
        assert_eq!(parse("zookeeper start").unwrap(), start(None));
        assert_eq!(parse("zookeeper start --port 2200").unwrap(), start(Some(2200)));
        assert_eq!(parse("zookeeper start --port=2200").unwrap(), start(Some(2200)));
        assert_eq!(parse("zookeeper stop").unwrap(), Request::ZookeeperStop);
        assert_eq!(parse("ci").unwrap(), Request::Ci);
        assert_eq!(parse("docs").unwrap(), Request::Docs);
        assert_eq!(parse("package").unwrap(), Request::Package);
        assert_eq!(parse("deny").unwrap(), Request::Deny);
        assert_eq!(parse("cross").unwrap(), Request::Cross);
        assert_eq!(parse("msrv").unwrap(), Request::Msrv { names: Vec::new() });
        assert_eq!(parse("msrv a").unwrap(), Request::Msrv { names: vec!["a".to_owned()] });
        assert_eq!(parse("package --no-build").unwrap(), Request::PackageWithoutBuild);
        assert_eq!(parse("api --check").unwrap(), Request::ApiCheck);
        let arguments = vec!["--test".to_owned(), "x".to_owned()];
        let fuzz = |secs, targets: &[&str]| {
            let targets = targets.iter().map(|target| (*target).to_owned()).collect();
            Request::Fuzz(fuzz::Plan { secs, is_quick: secs == fuzz::QUICK_SECS, targets })
        };
        let bench = Request::Bench { arguments: vec!["--short".to_owned()] };
        assert_eq!(parse("bench handoff --short").unwrap(), bench);
        let chaos = Request::Chaos { arguments: vec!["--help".to_owned()] };
        assert_eq!(parse("chaos --help").unwrap(), chaos);
        let sim = Request::Sim { arguments: vec!["--seed".to_owned(), "1".to_owned()] };
        assert_eq!(parse("sim --seed 1").unwrap(), sim);
        assert_eq!(parse("fuzz").unwrap(), fuzz(60, &[]));
        assert_eq!(parse("fuzz a --secs 5 b").unwrap(), fuzz(5, &["a", "b"]));
        assert_eq!(parse("fuzz --secs=5").unwrap(), fuzz(5, &[]));
        assert_eq!(parse("fuzz --quick").unwrap(), fuzz(fuzz::QUICK_SECS, &[]));
        assert_eq!(parse("fuzz --check").unwrap(), Request::FuzzCheck);
        let names = vec!["A".to_owned(), "B".to_owned()];
        assert_eq!(parse("planted A B").unwrap(), Request::Planted { names });
        let only = Request::TestKerberos { arguments: vec!["canonical".to_owned()] };
        assert_eq!(parse("test kerberos canonical").unwrap(), only);
        assert_eq!(parse("test").unwrap(), Request::Test { arguments: Vec::new() });
        assert_eq!(parse("test --test x").unwrap(), Request::Test { arguments: arguments.clone() });
        let version = servers::Version::parse("3.9.3").unwrap();
        for line in ["test --server 3.9.3 --test x", "test --server=3.9.3 --test x"] {
            let arguments = arguments.clone();
            assert_eq!(parse(line).unwrap(), Request::TestOnVersion { version, arguments });
        }
        let address = "localhost:2181".to_owned();
        let connected = Request::TestConnected { address, arguments };
        assert_eq!(parse("test --connect localhost:2181 --test x").unwrap(), connected);
        assert_eq!(parse("nightly").unwrap(), Request::Nightly);
        assert_eq!(parse("").unwrap(), Request::Help(EVERYDAY));
    }

    #[test]
    fn every_task_has_help() {
        for line in [
            "--help",
            "-h",
            "zookeeper --help",
            "zookeeper start --help",
            "test -h",
            "test kerberos --help",
            "fuzz -h",
            "planted -h",
            "mutants -h",
            "conform -h",
            "bench -h",
            "api -h",
            "docs --help",
            "package -h",
            "cross --help",
            "msrv -h",
            "ci -h",
            "nightly -h",
        ] {
            assert!(matches!(parse(line), Ok(Request::Help(_))), "{line}");
        }
    }

    #[test]
    fn invalid_lines_are_usage_errors_of_one_line() {
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
            "bench",
            "bench speed",
            "api --chekc",
            "docs all",
            "package all",
            "cross all",
            "msrv --all",
            "ci fast",
        ] {
            let failure = parse(line).unwrap_err();
            assert_eq!(failure.status(), 2, "{line}");
            assert!(!failure.message().contains('\n'), "{line}");
        }
    }
}
