//! Breaks real ensembles while locks are held; see `cargo xtask chaos --help`.

mod handovers;
mod options;
mod summary;
mod workloads;
mod write_rate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use options::{End, Options, RANDOM, ROLLING_RESTART, Request, WRITE_RATE};
use summary::Summary;
use zk_tests::chaos::checker::check;
use zk_tests::chaos::event::Event;
use zk_tests::chaos::history::History;
use zk_tests::chaos::scenario::{SCENARIOS, Scenario};
use zk_tests::chaos::{Error, contender};
use zk_tests::{Distribution, or_skip};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let request = match Request::parse(&words) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("chaos: {message}");
            return ExitCode::from(2);
        }
    };
    let result = match &request {
        Request::Help => {
            print!("{}", options::help());
            Ok(true)
        }
        Request::Run(options) => run(options),
        Request::Judge(file) => judge(Path::new(file)),
        Request::Contender(arguments) => contend(arguments).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs scenarios. Returns whether every promise was kept.
fn run(options: &Options) -> Result<bool, Error> {
    let Some(distribution) = or_skip(Distribution::shared()) else { return Ok(true) };
    println!("{distribution}");
    let all = SCENARIOS.iter().map(|scenario| scenario.name).chain([RANDOM, ROLLING_RESTART]);
    let all = all.map(str::to_owned);
    let names =
        if options.scenarios.is_empty() { all.collect() } else { options.scenarios.clone() };
    let mut is_sound = true;
    for name in &names {
        for tick in &options.ticks {
            is_sound &= run_at(name, *tick, options)?;
        }
    }
    Ok(is_sound)
}

/// Runs a scenario at a tick, with each timeout.
fn run_at(name: &str, tick: Duration, options: &Options) -> Result<bool, Error> {
    if name == WRITE_RATE {
        write_rate::run(tick, options)?;
        return Ok(true);
    }
    let own =
        Scenario::find(name).map_or(WORKLOAD_TIMEOUT_TICKS, |scenario| scenario.timeout_ticks);
    let own = [(tick * own).min(TIMEOUT_MAX)];
    let timeouts = if options.timeouts.is_empty() { &own[..] } else { &options.timeouts };
    let mut is_sound = true;
    for timeout in timeouts {
        let Options { end, seed, keep, .. } = *options;
        let run = Run { tick, timeout: *timeout, end, seed, keep };
        let (tick_ms, timeout_ms) = (tick.as_millis(), timeout.as_millis());
        let mut summary = Summary::new(&format!("{name}, tick {tick_ms} ms, T {timeout_ms} ms"));
        println!("\n{name}: tick {tick_ms} ms, T {timeout_ms} ms");
        match Scenario::find(name) {
            Some(scenario) => handovers::run(scenario, &run, &mut summary)?,
            None => workloads::run(name, &run, &mut summary)?,
        }
        print!("{summary}");
        is_sound &= summary.is_sound();
    }
    Ok(is_sound)
}

/// Checks a history again.
fn judge(file: &Path) -> Result<bool, Error> {
    let text = fs::read_to_string(file)?;
    let events: Result<Vec<Event>, String> = text.lines().map(str::parse).collect();
    let mut summary = Summary::new(&file.to_string_lossy());
    summary.add(check(&events?));
    print!("{summary}");
    Ok(summary.is_sound())
}

/// Is a contender.
fn contend(arguments: &[String]) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(contender::run(arguments))?)
}

/// What the runs of a scenario have in common.
pub(crate) struct Run {
    tick: Duration,
    timeout: Duration,
    end: End,
    seed: u64,
    keep: bool,
}

/// Keeps the history of a run; returns where.
pub(crate) fn save_history(history: &History, name: &str) -> Result<PathBuf, Error> {
    // <target folder>/<profile folder>/chaos
    let program = env::current_exe()?;
    let folder = program.ancestors().nth(2).unwrap_or_else(|| Path::new(".")).join("chaos");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{name}.history"));
    history.save(&file)?;
    Ok(file)
}

const WORKLOAD_TIMEOUT_TICKS: u32 = 8;

/// An idle session sends a ping every 10 s at least. With a longer timeout than this it is never
/// silent for a third of it, which `idle-acquire` is about.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
