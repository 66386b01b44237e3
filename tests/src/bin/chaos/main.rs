//! Breaks real ensembles while locks are held; see `cargo xtask chaos --help`.

mod expiring_bucket;
mod handovers;
mod leader_kills;
mod operations;
mod options;
mod summary;
mod workloads;
mod write_rate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use options::{
    EXPIRING_BUCKET, End, LEADER_KILLS, OPERATIONS, Options, RANDOM, ROLLING_RESTART, Role,
    TIMEOUT_MAX, WRITE_RATE,
};
use summary::Summary;
use zk_tests::chaos::checker::check;
use zk_tests::chaos::event::Event;
use zk_tests::chaos::history::History;
use zk_tests::chaos::scenario::{SCENARIOS, Scenario};
use zk_tests::chaos::{Error, contender};
use zk_tests::{Distribution, ErrorKind, Settings};

fn main() -> ExitCode {
    let options = Options::parse_from(env::args()).unwrap_or_else(|error| error.exit());
    let result = match (&options.role, &options.judge) {
        (Some(Role::Contender { arguments }), _) => contend(arguments).map(|()| Ending::Sound),
        (None, Some(file)) => judge(file),
        (None, None) => run(&options),
    };
    match result {
        Ok(Ending::Sound) => ExitCode::SUCCESS,
        Ok(Ending::NotRun) => ExitCode::from(NOT_RUN),
        Ok(Ending::Broken) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Outcome of the runs, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// Every promise was kept.
    Sound,
    /// No promise was broken, but a scenario could not run here, or a history could not be read.
    NotRun,
    /// A promise was broken, or the runs of a scenario show nothing.
    Broken,
}

/// Runs the scenarios of the command line.
fn run(options: &Options) -> Result<Ending, Error> {
    let distribution = match Distribution::shared() {
        Ok(distribution) => distribution,
        Err(error) => {
            eprintln!("chaos: {error}");
            return Ok(Ending::NotRun);
        }
    };
    println!("{distribution}");
    let all = SCENARIOS.iter().map(|scenario| scenario.name).chain([
        LEADER_KILLS,
        RANDOM,
        ROLLING_RESTART,
        OPERATIONS,
    ]);
    let all = all.map(str::to_owned);
    let names =
        if options.scenarios.is_empty() { all.collect() } else { options.scenarios.clone() };
    let mut ending = Ending::Sound;
    for name in &names {
        for tick in &options.ticks {
            ending = ending.max(run_at(name, *tick, options)?);
        }
    }
    Ok(ending)
}

/// Runs a scenario at a tick, with each timeout.
fn run_at(name: &str, tick: Duration, options: &Options) -> Result<Ending, Error> {
    if name == EXPIRING_BUCKET {
        return expiring_bucket::run(options);
    }
    if name == WRITE_RATE {
        write_rate::run(tick, options)?;
        return Ok(Ending::Sound);
    }
    let own =
        Scenario::find(name).map_or(WORKLOAD_TIMEOUT_TICKS, |scenario| scenario.timeout_ticks);
    let own = [(tick * own).min(TIMEOUT_MAX)];
    let timeouts = if options.timeouts.is_empty() { &own[..] } else { &options.timeouts };
    let mut ending = Ending::Sound;
    for timeout in timeouts {
        let Options { seed, keep, .. } = *options;
        let settings = options.settings(tick);
        let run = Run { tick, timeout: *timeout, end: options.end(), seed, keep, settings };
        let (tick_ms, timeout_ms) = (tick.as_millis(), timeout.as_millis());
        let mut summary = Summary::new(&format!("{name}, tick {tick_ms} ms, T {timeout_ms} ms"));
        println!("\n{name}: tick {tick_ms} ms, T {timeout_ms} ms");
        if name == LEADER_KILLS {
            ending = ending.max(leader_kills::run(&run)?);
            continue;
        }
        if name == OPERATIONS {
            ending = ending.max(operations::run(&run, options.history.as_deref())?);
            continue;
        }
        match Scenario::find(name) {
            Some(scenario) => handovers::run(scenario, &run, &mut summary)?,
            None => workloads::run(name, &run, &mut summary)?,
        }
        print!("{summary}");
        ending = ending.max(summary.ending());
    }
    Ok(ending)
}

/// Judges a stored history again.
fn judge(file: &Path) -> Result<Ending, Error> {
    let name = file.display();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("chaos: cannot read {name}: {error}");
            return Ok(Ending::NotRun);
        }
    };
    let events: Result<Vec<Event>, String> = text.lines().map(str::parse).collect();
    let events = match events {
        Ok(events) => events,
        Err(error) => {
            eprintln!("chaos: {name} is not a history: {error}");
            return Ok(Ending::NotRun);
        }
    };
    let mut summary = Summary::new(&file.to_string_lossy());
    summary.add(check(&events));
    print!("{summary}");
    Ok(summary.ending())
}

/// Runs as a contender process.
fn contend(arguments: &[String]) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(contender::run(arguments))?)
}

/// Settings that the runs of a scenario share.
pub(crate) struct Run {
    tick: Duration,
    timeout: Duration,
    end: End,
    seed: u64,
    keep: bool,
    settings: Settings,
}

/// Saves the history of a run and returns its path.
pub(crate) fn save_history(history: &History, name: &str) -> Result<PathBuf, Error> {
    save(&history.to_text(), name)
}

/// Saves the text of a history and returns its path.
pub(crate) fn save(text: &str, name: &str) -> Result<PathBuf, Error> {
    // <target folder>/<profile folder>/chaos
    let program = env::current_exe()?;
    let folder = program.ancestors().nth(2).unwrap_or_else(|| Path::new(".")).join("chaos");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{name}.history"));
    fs::write(&file, text)?;
    Ok(file)
}

/// Unwraps the result of starting servers. Returns `None` if this machine cannot run the scenario.
pub(crate) fn unless_unsupported<T>(
    started: Result<T, zk_tests::Error>,
) -> Result<Option<T>, Error> {
    match started {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            eprintln!("SKIPPED: {error}");
            Ok(None)
        }
        started => Ok(Some(started?)),
    }
}

/// Exit status if the command line is wrong or this machine lacks what the runs need.
const NOT_RUN: u8 = 2;

const WORKLOAD_TIMEOUT_TICKS: u32 = 8;
