//! Runs a scenario of hand-overs again and again.

use zk_tests::chaos::Error;
use zk_tests::chaos::round::{Fate, Field, start_ensemble};
use zk_tests::chaos::scenario::Scenario;
use zk_tests::{now, or_skip};

use crate::keep;
use crate::options::{End, Options};
use crate::summary::{Summary, describe};

pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    summary: &mut Summary,
) -> Result<(), Error> {
    let timeout = options.timeout.unwrap_or(options.tick * scenario.timeout_ticks);
    println!(
        "\n{}: {}; tick {} ms, timeout {} ms",
        scenario.name,
        scenario.about,
        options.tick.as_millis(),
        timeout.as_millis()
    );
    let Some(mut ensemble) = or_skip(start_ensemble(scenario, options.tick)) else {
        return Ok(());
    };
    let program = std::env::current_exe()?;
    let start = now();
    for number in 0.. {
        if options.end.is_over(number, start.elapsed()) {
            break;
        }
        // The seed only moves where in the tick the runs begin.
        let phase = (u64::from(number) + options.seed - 1) % PHASES * (100 / PHASES);
        let phase = u32::try_from(phase).unwrap_or(0);
        let field = Field { ensemble: &ensemble, program: &program, tick: options.tick, timeout };
        let outcome = field.round(scenario, number, phase)?;
        let is_broken = !outcome.verdict.violations.is_empty();
        let margins: Vec<String> = outcome
            .verdict
            .margins_us
            .iter()
            .map(|us| format!("{} ms", us.div_euclid(1000)))
            .collect();
        summary.count(&outcome.fate);
        summary.add(outcome.verdict);
        println!(
            "{} run {}{}: phase {phase} %, {}, margin {}; {} broken; {:.0} s",
            scenario.name,
            number + 1,
            if let End::Runs(runs) = options.end { format!(" of {runs}") } else { String::new() },
            describe(&outcome.fate),
            margins.first().map_or("none", String::as_str),
            summary.broken(),
            start.elapsed().as_secs_f64()
        );
        if is_broken {
            let name = format!("{}-{}", scenario.name, summary.runs());
            println!("  history: {}", keep(&outcome.history, &name)?.display());
        }
        // What a void run has left behind would make the next ones void, too.
        if matches!(outcome.fate, Fate::Void(_)) {
            drop(ensemble);
            ensemble = start_ensemble(scenario, options.tick)?;
        }
    }
    Ok(())
}

/// Moments of a tick at which faults come.
const PHASES: u64 = 20;
