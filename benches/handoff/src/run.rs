//! A run: contestants in turn, scenario by scenario, and the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use xtask::zookeeper::or_skip;

use crate::arena::{Arena, Loss, Outcome};
use crate::contestant::Contestant;
use crate::plan::{self, Measure, Scenario};
use crate::results::{Results, Row};
use crate::servers::Servers;
use crate::stats::Samples;
use crate::throughput::Throughput;
use crate::traffic::{Means, Traffic};
use crate::{Options, plot, record, roster, table};

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let scenarios = selected(options)?;
    let Some(servers) = or_skip(Servers::start(options, plan::TICK_MS)) else { return Ok(()) };
    let start = now();
    let mut run = Run {
        options,
        arena: Arena::open(servers, plan::TICK_MS),
        short_ticks: None,
        contestants: Vec::new(),
        results: Results::default(),
    };
    let machine = record::Machine::look(run.arena.servers(), options);
    println!("{machine}");
    run.bring_contestants()?;
    let rounds = if options.short { 1 } else { options.rounds };
    for scenario in &scenarios {
        let rounds = if scenario.is_once() { 1 } else { rounds * scenario.turns };
        for round in 1..=rounds {
            run.round(scenario, round, rounds)?;
        }
    }
    let mut results = run.results;
    let place = |name: &str| roster::ALL.iter().position(|(known, _)| *known == name);
    for row in &mut results.rows {
        row.entries.sort_by_key(|(name, _)| place(name));
    }
    results.traffic.sort_by_key(|it| (it.waiters, place(it.contestant)));
    println!("\n{}", table::of(&results));
    println!("took {:.0} s", start.elapsed().as_secs_f64());
    if let Some(folder) = folder_of_record(options) {
        write(&folder, &machine, options, &results)?;
        println!("record and plots: {}", folder.display());
    }
    Ok(())
}

/// Returns the folder for the record. A partial run, or one with other options, does not replace
/// the usual record.
fn folder_of_record(options: &Options) -> Option<PathBuf> {
    let is_whole = !options.short
        && options.scenario.is_empty()
        && options.contestant.is_empty()
        && options.rounds >= Options::ROUNDS
        && options.runtime == Options::RUNTIME
        && !options.fsync
        && !options.ensemble;
    let usual = || is_whole.then(|| roster::benches().join("record"));
    if options.no_record { None } else { options.out.clone().or_else(usual) }
}

fn selected(options: &Options) -> Result<Vec<Scenario>, String> {
    let mut scenarios = if options.short { plan::short() } else { plan::all() };
    let named = |scenario: &Scenario| {
        options.scenario.is_empty()
            || options.scenario.iter().any(|name| scenario.name.starts_with(name.as_str()))
    };
    for name in &options.scenario {
        if !scenarios.iter().any(|scenario| scenario.name.starts_with(name.as_str())) {
            return Err(format!("no scenario `{name}`; see --list"));
        }
    }
    scenarios.retain(named);
    for name in &options.contestant {
        if !roster::ALL.iter().any(|(known, _)| known == name) {
            return Err(format!("no contestant `{name}`; see --list"));
        }
    }
    Ok(scenarios)
}

fn write(
    folder: &Path,
    machine: &record::Machine,
    options: &Options,
    results: &Results,
) -> Result<(), String> {
    let failure = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failure)?;
    let text = record::of(machine, options, results);
    fs::write(folder.join("handoff.json"), text).map_err(failure)?;
    for (name, chart) in plot::all(results) {
        let svg = chart.to_svg().map_err(|error| format!("{name}: {error}"))?;
        fs::write(folder.join(name), svg).map_err(failure)?;
    }
    Ok(())
}

struct Run<'a> {
    options: &'a Options,
    arena: Arena,
    /// Started when the first scenario needs it.
    short_ticks: Option<Arena>,
    contestants: Vec<Entrant>,
    results: Results,
}

/// A contestant that takes part as long as its process runs or can be started.
struct Entrant {
    name: &'static str,
    process: Option<Contestant>,
    /// Names of scenarios in which it no longer takes part.
    out_of: Vec<String>,
}

impl Run<'_> {
    fn bring_contestants(&mut self) -> Result<(), String> {
        let options = self.options;
        for (name, _) in roster::ALL {
            let asked = options.contestant.iter().any(|asked| asked == name);
            let wanted = match options.contestant.is_empty() {
                true => !roster::OVER_TLS.contains(&name),
                false => asked || name == roster::FLOOR,
            };
            if !wanted {
                continue;
            }
            println!("preparing {name}");
            let mut entrant = Entrant { name, process: None, out_of: Vec::new() };
            match entrant.ready(options) {
                Ok(()) => {
                    if !options.short {
                        self.warm_up(&mut entrant)?;
                    }
                    self.contestants.push(entrant);
                }
                Err(reason) => self.skip(format!("{name} does not take part: {reason}")),
            }
        }
        Ok(())
    }

    fn warm_up(&mut self, entrant: &mut Entrant) -> Result<(), String> {
        for scenario in plan::warm_up() {
            let Some(contestant) = &mut entrant.process else { return Ok(()) };
            match self.arena.hold(&scenario, entrant.name, contestant) {
                Err(Loss::Violated(reason)) => {
                    return Err(format!("{} while it warmed up: {reason}", entrant.name));
                }
                // The contestant fails again in a scenario, which reports it.
                Err(Loss::Broken(_)) => entrant.process = None,
                Err(Loss::Skipped(_)) | Ok(_) => {}
            }
        }
        Ok(())
    }

    fn round(&mut self, scenario: &Scenario, round: u32, rounds: u32) -> Result<(), String> {
        let mut entrants = std::mem::take(&mut self.contestants);
        for entrant in &mut entrants {
            let name = entrant.name;
            if !scenario.admits(name) || entrant.out_of.contains(&scenario.name) {
                continue;
            }
            let what = format!("[{round}/{rounds}] {:<18} {name:<18}", scenario.name);
            match self.contest(scenario, entrant) {
                Ok(outcome) => println!("{what} {}", self.take(scenario, name, outcome)),
                Err(Loss::Violated(reason)) => return Err(format!("{what}: {reason}")),
                Err(Loss::Skipped(reason)) => {
                    entrant.out_of.push(scenario.name.clone());
                    self.skip(format!("{name} has no part in {}: {reason}", scenario.name));
                }
                Err(Loss::Broken(reason)) => {
                    entrant.process = None;
                    entrant.out_of.push(scenario.name.clone());
                    self.skip(format!("{name} failed in {}: {reason}", scenario.name));
                }
            }
        }
        // No contestant always follows the same one: the order is reversed each time, and rotates.
        entrants.reverse();
        if round.is_multiple_of(2) {
            entrants.rotate_left(1);
        }
        self.contestants = entrants;
        Ok(())
    }

    fn contest(&mut self, scenario: &Scenario, entrant: &mut Entrant) -> Result<Outcome, Loss> {
        entrant.ready(self.options).map_err(Loss::Skipped)?;
        match &mut entrant.process {
            Some(contestant) => self.arena_of(scenario)?.hold(scenario, entrant.name, contestant),
            None => Err(Loss::Skipped("not there".to_owned())),
        }
    }

    fn arena_of(&mut self, scenario: &Scenario) -> Result<&mut Arena, Loss> {
        if scenario.measure != Measure::LongWait {
            return Ok(&mut self.arena);
        }
        if self.short_ticks.is_none() {
            let tick_ms =
                if self.options.short { plan::SHORT_RUN_TICK_MS } else { plan::SHORT_TICK_MS };
            let servers = Servers::start(self.options, tick_ms);
            let servers = servers.map_err(|error| Loss::Skipped(error.to_string()))?;
            self.short_ticks = Some(Arena::open(servers, tick_ms));
        }
        Ok(self.short_ticks.as_mut().unwrap_or(&mut self.arena))
    }

    /// Adds the result of a contest. Returns a short summary of it.
    fn take(&mut self, scenario: &Scenario, name: &'static str, outcome: Outcome) -> String {
        let mut words = Vec::new();
        for (call, samples) in outcome.samples {
            let mut round = Samples::default();
            round.add_round(samples.clone());
            let (p50, p99) = (round.quantile_us(0.5), round.quantile_us(0.99));
            words.push(format!("{call:<8}p50 {p50:>7.0} us  p99 {p99:>7.0} us"));
            add(&mut self.row(scenario, call).entries, name, samples);
            add(&mut self.row(scenario, call).held, name, outcome.hold_times.clone());
        }
        if let (Measure::Traffic, Some(counted)) = (scenario.measure, outcome.traffic) {
            let traffic = Traffic {
                scenario: scenario.name.clone(),
                title: scenario.title.clone(),
                contestant: name,
                waiters: scenario.queue(),
                waiter: (!scenario.job.again)
                    .then(|| Means::of(counted.contest, scenario.job.waiters)),
                handoff: Means::of(counted.drain, scenario.job.holds),
            };
            words.push(format!("{:.2} requests each", traffic.handoff.requests));
            self.results.traffic.push(traffic);
        }
        if scenario.measure == Measure::Throughput {
            let rate = outcome.rate;
            words.push(format!("{:.0} holds a second", rate.holds_per_second));
            let title = scenario.title.clone();
            self.results.throughput.push(Throughput { title, contestant: name, rate });
        }
        words.join("   ")
    }

    fn row(&mut self, scenario: &Scenario, call: &str) -> &mut Row {
        let row_name = match call {
            "" => scenario.name.clone(),
            call => format!("{}-{call}", scenario.name),
        };
        let rows = &mut self.results.rows;
        let at = rows.iter().position(|row| row.name == row_name).unwrap_or_else(|| {
            rows.push(Row {
                name: row_name,
                title: format!("{} {call}", scenario.title).trim().to_owned(),
                waiters: scenario.queue(),
                behind: scenario.behind,
                hold_ms: scenario.job.hold.as_millis(),
                sessions: scenario.job.sessions,
                holds: scenario.job.holds,
                entries: Vec::new(),
                held: Vec::new(),
            });
            rows.len() - 1
        });
        &mut rows[at]
    }

    fn skip(&mut self, line: String) {
        println!("SKIPPED: {line}");
        self.results.skipped.push(line);
    }
}

fn add(entries: &mut Vec<(&'static str, Samples)>, name: &'static str, samples: Vec<u64>) {
    let at = entries.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
        entries.push((name, Samples::default()));
        entries.len() - 1
    });
    entries[at].1.add_round(samples);
}

impl Entrant {
    fn ready(&mut self, options: &Options) -> Result<(), String> {
        if self.process.is_none() {
            let command = roster::prepare(self.name, &options.runtime, !options.short)?;
            let log = roster::workshop()?.join(format!("{}.log", self.name));
            self.process = Some(Contestant::start(command, log)?);
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark tells how long it took")]
fn now() -> Instant {
    Instant::now()
}
