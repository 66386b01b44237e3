//! The command line.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use zk_tests::Settings;
use zk_tests::chaos::scenario::SCENARIOS;

/// Breaks real ensembles of three servers while locks are held, and checks that never two guards that
/// exclude each other are valid at the same time. In `operations` it checks that what clients read and write
/// is linearizable.
///
/// The fault comes at another phase of the servers' tick in each run: 20 runs cover the tick in steps of a
/// twentieth, 100 in steps of a hundredth. Each run says what came of the holder: `lost`, `kept` (its
/// session moved to another server) or `void` (the run shows nothing). The margin is the time from the end
/// of a guard to the next grant. With several of --scenario, --tick and --timeout, every combination is
/// run.
///
/// The history of a run that broke a promise is kept in target/chaos. Cutting links needs root, `ip` and
/// `iptables`. ZOOKEEPER_HOME chooses the servers.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask chaos", after_help = EXIT_STATUS)]
pub(crate) struct Options {
    /// Runs this scenario; all of them by default
    #[arg(long = "scenario", value_name = "NAME", value_parser = names())]
    pub(crate) scenarios: Vec<String>,
    /// Runs each scenario N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive())]
    runs: u32,
    /// Runs each scenario for N minutes instead
    #[arg(long, value_name = "N", conflicts_with = "runs", value_parser = positive())]
    minutes: Option<u32>,
    /// tickTime of the servers, 15000 at most
    #[arg(long = "tick", value_name = "MS", default_value = "500", value_parser = ms)]
    pub(crate) ticks: Vec<Duration>,
    /// Session timeout of the holder, 2 to 20 ticks; by default the scenario's own
    #[arg(long = "timeout", value_name = "MS", value_parser = ms)]
    pub(crate) timeouts: Vec<Duration>,
    /// Seed of everything random
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keeps the history of every run, not only of broken ones
    #[arg(long)]
    pub(crate) keep: bool,
    /// Servers of `random` and `operations`, observers included: 3 to 9
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=9))]
    servers: u8,
    /// How many of these servers are observers
    #[arg(long, value_name = "N", default_value_t = 0)]
    observers: u8,
    /// Adds a line to zoo.cfg of `random` and `operations`. With reconfigEnabled=true they also remove
    /// servers and add them again
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    config: Vec<(String, String)>,
    /// Writes the history of `operations` to FILE, in EDN for Jepsen's checkers; a second run writes FILE.2
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Checks a history that an earlier run has kept
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(crate) judge: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Role {
    /// Runs as a contender
    #[command(hide = true)]
    Contender {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

const EXIT_STATUS: &str = "\
Exit status:
  0  every promise was kept
  1  a promise was broken, or a run failed or showed nothing
  2  the command line or ZOOKEEPER_HOME is wrong, or this machine lacks what a scenario needs";

/// Condition that ends the runs of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Runs(u32),
    After(Duration),
}

impl End {
    /// Returns whether the runs are over after `runs` of them and `elapsed`.
    pub(crate) fn is_over(self, runs: u32, elapsed: Duration) -> bool {
        match self {
            Self::Runs(limit) => runs >= limit,
            Self::After(limit) => elapsed >= limit,
        }
    }
}

impl Options {
    /// Parses a command line, with the name of the program.
    pub(crate) fn parse_from(words: impl IntoIterator<Item = String>) -> Result<Self, clap::Error> {
        let options = Self::try_parse_from(words)?;
        let wrong = |what| Self::command().error(ErrorKind::ValueValidation, what);
        options.check_times().map_err(wrong)?;
        if options.observers + 3 > options.servers {
            return Err(wrong("--observers leaves fewer than three servers that vote".to_owned()));
        }
        if options.history.is_some() && options.scenarios != [OPERATIONS] {
            return Err(wrong(format!("--history needs --scenario {OPERATIONS}, and no other")));
        }
        Ok(options)
    }

    /// Returns the settings of the servers.
    pub(crate) fn settings(&self, tick: Duration) -> Settings {
        let tick_ms = u32::try_from(tick.as_millis()).unwrap_or(u32::MAX);
        let settings = Settings::default().tick_ms(tick_ms);
        let settings = settings.namespaces(self.servers.into(), self.observers.into());
        self.config.iter().fold(settings, |settings, (key, value)| match &**key {
            // Only an administrator may change the members otherwise.
            "reconfigEnabled" => settings.config(key, value).jvm_flag("-Dzookeeper.skipACL=yes"),
            _ => settings.config(key, value),
        })
    }

    /// Returns the condition that ends the runs of a scenario.
    pub(crate) fn end(&self) -> End {
        match self.minutes {
            Some(minutes) => End::After(60 * Duration::from_secs(minutes.into())),
            None => End::Runs(self.runs),
        }
    }

    /// Checks that the servers grant each timeout at each tick as it is.
    fn check_times(&self) -> Result<(), String> {
        for tick in &self.ticks {
            if *tick > TIMEOUT_MAX / 2 {
                return Err(format!("--tick {} is above 15000", tick.as_millis()));
            }
            for timeout in &self.timeouts {
                if !(2 * *tick..=20 * *tick).contains(timeout) {
                    let (tick, timeout) = (tick.as_millis(), timeout.as_millis());
                    return Err(format!(
                        "--timeout {timeout} is not from 2 to 20 ticks: with --tick {tick}, use {} to {}",
                        2 * tick,
                        20 * tick
                    ));
                }
            }
        }
        Ok(())
    }
}

fn names() -> Vec<PossibleValue> {
    let names = SCENARIOS.iter().map(|scenario| (scenario.name, scenario.about)).chain(OTHERS);
    names.map(|(name, about)| PossibleValue::new(name).help(about)).collect()
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it has no `=`")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn positive() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

fn ms(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse::<NonZero<u32>>().map(|ms| Duration::from_millis(u32::from(ms).into()))
}

/// Scenarios that are not a hand-over of one lock.
pub(crate) const OTHERS: [(&str, &str); 6] = [
    (LEADER_KILLS, "the leader is killed under 40 holders: locks lost, and the sessions' return"),
    (RANDOM, "8 contenders on three kinds of locks, and one fault after the other"),
    (ROLLING_RESTART, "the same, and servers restart with different maxSessionTimeout"),
    (OPERATIONS, "8 clients on 6 nodes: all that they do must be linearizable"),
    (EXPIRING_BUCKET, "waiters return while 15,000 sessions expire together; only when named"),
    (WRITE_RATE, "measures what waiting and holding cost the ensemble; only when named"),
];
pub(crate) const LEADER_KILLS: &str = "leader-kills";
pub(crate) const EXPIRING_BUCKET: &str = "expiring-bucket";
pub(crate) const OPERATIONS: &str = "operations";
pub(crate) const RANDOM: &str = "random";
pub(crate) const ROLLING_RESTART: &str = "rolling-restart";
pub(crate) const WRITE_RATE: &str = "write-rate";

/// The longest timeout that a scenario chooses by default. An idle session sends a ping at least
/// every 10 s. With a longer timeout it is never silent for a third of the timeout, which
/// `idle-acquire` needs.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::parse_from(format!("chaos {line}").split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_have_defaults() {
        let options = parse("").unwrap();
        assert_eq!((options.end(), options.seed), (End::Runs(1), 1));
        assert_eq!(options.ticks, [Duration::from_millis(500)]);
        assert!(options.scenarios.is_empty() && options.timeouts.is_empty());
    }

    #[test]
    fn options_are_parsed() {
        let line = "--scenario random --scenario=idle-acquire --minutes 2 --tick 1000 \
                    --timeout 2000 --timeout=4000";
        let options = parse(line).unwrap();
        assert_eq!(options.scenarios, ["random", "idle-acquire"]);
        assert_eq!(options.end(), End::After(Duration::from_secs(120)));
        assert_eq!(options.ticks, [Duration::from_secs(1)]);
        assert_eq!(options.timeouts, [2, 4].map(Duration::from_secs));
        assert_eq!(parse("--judge f").unwrap().judge, Some("f".into()));
        let Some(Role::Contender { arguments }) = parse("contender 1 a:1 -x").unwrap().role else {
            panic!("no contender")
        };
        assert_eq!(arguments, ["1", "a:1", "-x"]);
    }

    #[test]
    fn wrong_options_are_rejected_by_name() {
        for (line, named) in [
            ("--runs", "--runs"),
            ("--runs 0", "--runs"),
            ("--runs x", "--runs"),
            ("--runs 1 --minutes 1", "--minutes"),
            ("--scenario none", "idle-acquire"),
            ("--frob", "--frob"),
            ("random 1", "random"),
            ("--judge f --runs 1", "--judge"),
            ("--history f", "--scenario operations"),
            ("--servers 2", "--servers"),
            ("--observers 1", "--observers"),
            ("--config x", "--config"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(named), "{line}: {error}");
        }
    }

    #[test]
    fn timeout_is_2_to_20_ticks_in_every_combination() {
        for line in [
            "--timeout 1000 --timeout 10000",
            "--tick 500 --tick 1000 --tick 2000 --timeout 10000",
            "--tick 15000",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in [
            "--tick 500 --timeout 100",
            "--timeout 999",
            "--timeout 10001",
            "--timeout 2000 --tick 500 --tick 2000",
            "--tick 15001",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_has_every_scenario_and_exit_status() {
        let page = Options::command().render_long_help().to_string();
        assert!(page.contains("1  a promise was broken") && page.contains("2  the command line"));
        for scenario in &SCENARIOS {
            assert!(page.contains(scenario.name), "{}", scenario.name);
        }
    }
}
