//! Runs a hand-over scenario repeatedly.

use zk_tests::chaos::Error;
use zk_tests::chaos::round::{HolderEnd, Outcome, Testbed, start_ensemble};
use zk_tests::chaos::scenario::Scenario;
use zk_tests::now;

use crate::options::End;
use crate::summary::{Summary, describe};
use crate::{Run, save_history, unless_unsupported};

pub(crate) fn run(scenario: &Scenario, run: &Run, summary: &mut Summary) -> Result<(), Error> {
    println!("{}", scenario.about);
    let Some(mut ensemble) = unless_unsupported(start_ensemble(scenario, run.tick))? else {
        return Ok(());
    };
    let program = std::env::current_exe()?;
    let start = now();
    for number in 0.. {
        if run.end.is_over(number, start.elapsed()) {
            break;
        }
        let phase = phase(number, run.seed);
        let testbed = Testbed {
            ensemble: &ensemble,
            program: &program,
            tick: run.tick,
            timeout: run.timeout,
        };
        let outcome = testbed.round(scenario, number, phase).unwrap_or_else(Outcome::void);
        let line = line(&outcome);
        let is_broken = !outcome.verdict.violations.is_empty();
        summary.count(&outcome.holder_end);
        let mut verdict = outcome.verdict;
        if outcome.holder_end == HolderEnd::LostEarly {
            verdict.margins_us.clear();
        }
        summary.add(verdict);
        let of = if let End::Runs(runs) = run.end { format!(" of {runs}") } else { String::new() };
        println!(
            "{} run {}{of}: phase {phase} %, {line}; {} broken; {:.0} s",
            scenario.name,
            number + 1,
            summary.broken(),
            start.elapsed().as_secs_f64()
        );
        if is_broken || run.keep {
            let (tick, timeout) = (run.tick.as_millis(), run.timeout.as_millis());
            let name = format!("{}-{tick}-{timeout}-{}", scenario.name, number + 1);
            println!("  history: {}", save_history(&outcome.history, &name)?.display());
        }
        // The remains of a void run would make the next runs void, too.
        if matches!(outcome.holder_end, HolderEnd::Void(_)) {
            drop(ensemble);
            ensemble = start_ensemble(scenario, run.tick)?;
        }
    }
    Ok(())
}

/// Returns the phase of the tick at which the fault of a run happens, in percent. The seed shifts
/// the first phase. Twenty runs cover the tick in steps of a twentieth, a hundred in steps of a
/// hundredth.
fn phase(number: u32, seed: u64) -> u32 {
    let nth = u64::from(number) + seed - 1;
    let (coarse, fine) = (nth % PHASES * STEP, nth / PHASES % STEP);
    u32::try_from(coarse + fine).unwrap_or(0)
}

/// Formats the outcome of a run as one line.
fn line(outcome: &Outcome) -> String {
    let margins: Vec<String> =
        outcome.verdict.margins_us.iter().map(|us| format!("{} ms", us.div_euclid(1000))).collect();
    let margin = margins.first().map_or("none", String::as_str);
    format!("{}, margin {margin}", describe(&outcome.holder_end))
}

/// Number of coarse phases of a tick at which faults happen.
const PHASES: u64 = 20;
/// Distance between two coarse phases, in percent of the tick.
const STEP: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hundred_runs_cover_the_tick() {
        assert_eq!([0, 1, 19, 20, 99].map(|number| phase(number, 1)), [0, 5, 95, 1, 99]);
        assert_eq!(phase(0, 2), 5);
        let mut phases: Vec<u32> = (0..100).map(|number| phase(number, 7)).collect();
        phases.sort_unstable();
        assert_eq!(phases, (0..100).collect::<Vec<_>>());
    }
}
