//! The `sim` command: see `--help`.

use std::process::ExitCode;

use zk_sim::args::{HELP, Request};
use zk_sim::{Campaign, Outcome, Suite};

/// Lines of a trace that are printed when a campaign fails.
const TAIL_LINES: usize = 60;

fn main() -> ExitCode {
    let request = match Request::parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(text) => {
            eprintln!("sim: {text}");
            return ExitCode::from(2);
        }
    };
    let done = match request {
        Request::Help => {
            print!("{HELP}");
            true
        }
        Request::Seeds { suite, first, count } => seeds(suite, first, count),
        Request::Replay { suite, seed } => replay(suite, seed),
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
