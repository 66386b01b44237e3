//! The `sim` command: see `--help`.

use std::process::ExitCode;

use clap::Parser;
use zk_sim::{Campaign, Outcome, Suite};

/// Simulates clients, sessions and locks against in-memory servers with faults, deterministically.
///
/// The exit status is 0 if every invariant held, 1 if one was broken, and 2 if the command line is wrong.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim")]
struct Options {
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

/// Lines of a trace that are printed when a campaign fails.
const TAIL_LINES: usize = 60;

fn main() -> ExitCode {
    let Options { seeds: count, first, seed, coordination } = Options::parse();
    let suite = if coordination { Suite::Coordination } else { Suite::Locks };
    let done = match seed {
        Some(seed) => replay(suite, seed),
        None => seeds(suite, first, count),
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

fn replay(suite: Suite, seed: u64) -> bool {
    let outcome = zk_sim::run(suite, seed);
    print!("{}", outcome.trace);
    verdict(&outcome)
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
        for line in ["--seeds 0", "--seed 1 --seeds 2", "--seed 1 --first 0"] {
            assert_eq!(parse(&format!("sim {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
