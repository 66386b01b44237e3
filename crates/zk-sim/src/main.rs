//! The `sim` command: see `--help`.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use zk_sim::{Campaign, Fault, Outcome, SmallWorld, Strike, Suite, Sweep, Swept};

/// Simulates clients, sessions and locks against in-memory servers with faults, deterministically.
///
/// The exit status is 0 if every invariant held, 1 if one was broken, and 2 if the command line is wrong.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    scripted: Option<Scripted>,
    /// Runs N seeds, and checks the invariants after every event; runs some seeds twice, to see that they
    /// take the same course
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        conflicts_with = "seed",
        value_parser = clap::value_parser!(u64).range(1..),
    )]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with = "seed")]
    first: u64,
    /// Runs one seed and prints all that happens, with times
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Simulates counters, registrations, caches, barriers and service discovery instead of sessions and
    /// locks
    #[arg(long)]
    coordination: bool,
}

#[derive(Debug, Subcommand)]
enum Scripted {
    /// Runs small worlds with every single fault at every point: each frame in either direction
    Singles(Chosen),
    /// Runs small worlds with every pair of faults
    Pairs(Chosen),
    /// Runs a small world with the faults of a script, and prints all that happens
    Script {
        /// The world
        #[arg(long)]
        world: SmallWorld,
        /// The faults, each as POINT:FAULT
        #[arg(long, value_delimiter = ',')]
        strike: Vec<Strike>,
    },
}

#[derive(Args, Debug)]
struct Chosen {
    /// The worlds, by default all of them
    #[arg(long, value_delimiter = ',')]
    world: Vec<SmallWorld>,
    /// The faults, by default all of them
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
}

/// Lines of a trace that are printed when a campaign fails.
const TAIL_LINES: usize = 60;

/// Findings of a sweep that are printed.
const FINDINGS_SHOWN: usize = 20;

fn main() -> ExitCode {
    let Options { scripted, seeds: count, first, seed, coordination } = Options::parse();
    let suite = if coordination { Suite::Coordination } else { Suite::Locks };
    let done = match (scripted, seed) {
        (Some(Scripted::Singles(chosen)), _) => sweep(&chosen, false),
        (Some(Scripted::Pairs(chosen)), _) => sweep(&chosen, true),
        (Some(Scripted::Script { world, strike }), _) => show(&zk_sim::run_script(world, &strike)),
        (None, Some(seed)) => show(&zk_sim::run(suite, seed)),
        (None, None) => seeds(suite, first, count),
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seeds(suite: Suite, first: u64, count: u64) -> bool {
    let summary = Campaign { suite, first, count, threads: threads() }.run();
    println!("{summary}");
    match summary.failure {
        None => true,
        Some(outcome) => {
            let lines: Vec<&str> = outcome.trace.lines().collect();
            for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
                println!("{line}");
            }
            verdict(&outcome);
            println!("seed {0}; replay: cargo xtask sim{suite} --seed {0}", outcome.seed);
            false
        }
    }
}

/// Runs the chosen worlds, and prints a line of a table for each, and the findings.
fn sweep(Chosen { world, faults }: &Chosen, has_pairs: bool) -> bool {
    let of = |all: &[SmallWorld]| if world.is_empty() { all.to_vec() } else { world.clone() };
    let faults = if faults.is_empty() { Fault::value_variants().to_vec() } else { faults.clone() };
    println!("| world | points | runs | findings | most steps | time |\n|---|---|---|---|---|---|");
    let mut findings = Vec::new();
    for world in of(SmallWorld::value_variants()) {
        let faults = faults.clone();
        let swept = Sweep { world, faults, has_pairs, threads: threads() }.run();
        let Swept { points, runs, steps_max: most, elapsed, .. } = &swept;
        let found = swept.findings.len();
        println!(
            "| {world} | {points} | {runs} | {found} | {most} | {:.0} s |",
            elapsed.as_secs_f64()
        );
        findings.extend(swept.findings);
    }
    for finding in findings.iter().take(FINDINGS_SHOWN) {
        println!("{finding}");
    }
    findings.is_empty()
}

fn show(outcome: &Outcome) -> bool {
    print!("{}", outcome.trace);
    verdict(outcome)
}

fn verdict(outcome: &Outcome) -> bool {
    match &outcome.violation {
        Some(violation) => println!("{} is broken: {}", violation.invariant, violation.text),
        None => println!("no violation; trace hash {:016x}", outcome.hash),
    }
    outcome.violation.is_none()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).min(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_excludes_the_options_of_many_seeds() {
        let parse = |line: &str| Options::try_parse_from(line.split_whitespace());
        let all = parse("sim --coordination --seeds 5 --first=7").unwrap();
        assert_eq!((all.seeds, all.first, all.seed, all.coordination), (5, 7, None, true));
        let default = parse("sim").unwrap();
        assert_eq!((default.seeds, default.first, default.seed), (1_000, 0, None));
        assert_eq!(parse("sim --seed 3").unwrap().seed, Some(3));
        for line in [
            "--seeds 0",
            "--seed 1 --seeds 2",
            "--seed 1 --first 0",
            "--seed 1 singles",
            "script --strike 1:drop",
            "script --world mutex --strike 1",
        ] {
            assert_eq!(parse(&format!("sim {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
