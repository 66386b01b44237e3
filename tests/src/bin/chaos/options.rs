//! The command line.

use std::time::Duration;

use zk_tests::chaos::scenario::{SCENARIOS, Scenario};

/// The parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Help,
    Run(Options),
    /// Judge the history that an earlier run has saved.
    Judge(String),
    /// Run as a contender.
    Contender(Vec<String>),
}

/// Options of the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Names of scenarios; all of them if empty.
    pub(crate) scenarios: Vec<String>,
    pub(crate) end: End,
    /// Scenarios run at each tick, with each timeout.
    pub(crate) ticks: Vec<Duration>,
    /// Session timeouts. If empty, the scenario's own timeout applies.
    pub(crate) timeouts: Vec<Duration>,
    pub(crate) seed: u64,
    /// Whether to save the histories of runs that broke no promise as well.
    pub(crate) keep: bool,
}

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

impl Request {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        match words {
            [word, rest @ ..] if word == "contender" => return Ok(Self::Contender(rest.to_vec())),
            [word, file] if word == "--judge" => return Ok(Self::Judge(file.clone())),
            _ => {}
        }
        let mut options = Options {
            scenarios: Vec::new(),
            end: End::Runs(1),
            ticks: Vec::new(),
            timeouts: Vec::new(),
            seed: 1,
            keep: false,
        };
        let (mut runs, mut minutes) = (None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-h" | "--help") {
                return Ok(Self::Help);
            }
            if word == "--keep" {
                options.keep = true;
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            if name == "--judge" {
                return Err("--judge takes one file, and no other option beside it".to_owned());
            }
            if !VALUED.contains(&name) {
                return Err(format!("there is no option `{name}`; see --help"));
            }
            let value = value.or_else(|| words.next().map(String::as_str));
            let value = value.ok_or_else(|| format!("{name} needs a value"))?;
            let number = || match value.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{name} needs a positive number, not `{value}`")),
            };
            let ms = || number().map(|ms| Duration::from_millis(ms.into()));
            match name {
                "--runs" => runs = Some(number()?),
                "--minutes" => minutes = Some(number()?),
                "--tick" => options.ticks.push(ms()?),
                "--timeout" => options.timeouts.push(ms()?),
                "--seed" => options.seed = number()?.into(),
                _ if is_scenario(value) => options.scenarios.push(value.to_owned()),
                _ => return Err(format!("there is no scenario `{value}`; see --help")),
            }
        }
        options.end = match (runs, minutes) {
            (Some(_), Some(_)) => return Err("use --runs or --minutes, not both".to_owned()),
            (None, Some(minutes)) => End::After(60 * Duration::from_secs(minutes.into())),
            (runs, None) => End::Runs(runs.unwrap_or(1)),
        };
        if options.ticks.is_empty() {
            options.ticks.push(Duration::from_millis(500));
        }
        options.check_times()?;
        Ok(Self::Run(options))
    }
}

impl Options {
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

fn is_scenario(name: &str) -> bool {
    Scenario::find(name).is_some() || OTHERS.iter().any(|(other, _)| *other == name)
}

/// Returns the help text.
pub(crate) fn help() -> String {
    let mut page = HELP.to_owned();
    let names = SCENARIOS.iter().map(|scenario| (scenario.name, scenario.about)).chain(OTHERS);
    for (name, about) in names {
        page.push_str(&format!("  {name:<26}{about}\n"));
    }
    page
}

/// Scenarios that are not a hand-over of one lock.
pub(crate) const OTHERS: [(&str, &str); 3] = [
    (LEADER_KILLS, "the leader is killed under 40 holders: locks lost, and the sessions' return"),
    (RANDOM, "8 contenders on three kinds of locks, and one fault after the other"),
    (ROLLING_RESTART, "the same, and servers restart with different maxSessionTimeout"),
];
pub(crate) const LEADER_KILLS: &str = "leader-kills";
pub(crate) const RANDOM: &str = "random";
pub(crate) const ROLLING_RESTART: &str = "rolling-restart";

/// Options that take a value.
const VALUED: [&str; 6] = ["--scenario", "--runs", "--minutes", "--tick", "--timeout", "--seed"];

/// The longest timeout that a scenario chooses by default. An idle session sends a ping at least
/// every 10 s. With a longer timeout it is never silent for a third of the timeout, which
/// `idle-acquire` needs.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(30);

const HELP: &str = "\
Breaks real ensembles of three servers while locks are held, and checks that never two guards that
exclude each other are valid at the same time.

Usage: cargo xtask chaos [--scenario NAME]... [--runs N | --minutes N] [--tick MS]... [--timeout MS]...
                         [--seed S] [--keep]
       cargo xtask chaos --judge FILE

  --scenario NAME   run this scenario; default: all of them
  --runs N          run each scenario N times (default: 1)
  --minutes N       run each scenario for N minutes instead
  --tick MS         tickTime of the servers, 15000 at most (default: 500)
  --timeout MS      session timeout of the holder, 2 to 20 ticks (default: the scenario's own)
                    With several of these three, every combination is run
  --seed S          seed of everything random (default: 1)
  --keep            keep the history of every run, not only of broken ones
  --judge FILE      check a history that an earlier run has kept

The fault comes at another phase of the servers' tick in each run: 20 runs cover the tick in steps
of a twentieth, 100 in steps of a hundredth. Each run says what came of the holder: `lost`, `kept`
(its session moved to another server) or `void` (the run shows nothing). The margin is the time from
the end of a guard to the next grant.

The history of a run that broke a promise is kept in target/chaos. Cutting links needs root, `ip` and
`iptables`. ZOOKEEPER_HOME chooses the servers.

Exit status:
  0  every promise was kept
  1  a promise was broken, or a run failed or showed nothing
  2  the command line or ZOOKEEPER_HOME is wrong, or this machine lacks what a scenario needs

Scenarios:
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words)
    }

    #[test]
    fn options_are_parsed() {
        let Ok(Request::Run(options)) = parse("") else { panic!("no run") };
        assert_eq!((options.end, options.seed), (End::Runs(1), 1));
        assert!(options.scenarios.is_empty() && options.timeouts.is_empty());
        let line = "--scenario random --scenario=idle-acquire --minutes 2 --tick 1000 \
                    --timeout 2000 --timeout=4000";
        let Ok(Request::Run(options)) = parse(line) else { panic!("no run") };
        assert_eq!(options.scenarios, ["random", "idle-acquire"]);
        assert_eq!(options.end, End::After(Duration::from_secs(120)));
        assert_eq!(options.ticks, [Duration::from_secs(1)]);
        assert_eq!(options.timeouts, [2, 4].map(Duration::from_secs));
        assert_eq!(parse("--runs 3 --help"), Ok(Request::Help));
        assert_eq!(parse("--judge f"), Ok(Request::Judge("f".to_owned())));
    }

    #[test]
    fn wrong_options_are_rejected() {
        for (line, error) in [
            ("--runs", "--runs needs a value"),
            ("--runs 0", "--runs needs a positive number, not `0`"),
            ("--runs x", "--runs needs a positive number, not `x`"),
            ("--runs 1 --minutes 1", "use --runs or --minutes, not both"),
            ("--scenario none", "there is no scenario `none`; see --help"),
            ("--frob", "there is no option `--frob`; see --help"),
            ("--jobs 2", "there is no option `--jobs`; see --help"),
            ("random 1", "there is no option `random`; see --help"),
            ("--judge", "--judge takes one file, and no other option beside it"),
            ("--judge f --runs 1", "--judge takes one file, and no other option beside it"),
        ] {
            assert_eq!(parse(line), Err(error.to_owned()), "{line}");
        }
    }

    #[test]
    fn timeout_is_2_to_20_ticks_in_every_combination() {
        for (line, is_fine) in [
            ("--timeout 1000 --timeout 10000", true),
            ("--tick 500 --tick 1000 --tick 2000 --timeout 10000", true),
            ("--tick 15000", true),
            ("--tick 500 --timeout 100", false),
            ("--timeout 999", false),
            ("--timeout 10001", false),
            ("--timeout 2000 --tick 500 --tick 2000", false),
            ("--tick 15001", false),
        ] {
            assert_eq!(parse(line).is_ok(), is_fine, "{line}");
        }
    }

    #[test]
    fn help_lists_every_scenario_and_exit_status() {
        let page = help();
        for text in ["1  a promise was broken", "2  the command line", SCENARIOS[3].about] {
            assert!(page.contains(text), "{text}");
        }
    }
}
