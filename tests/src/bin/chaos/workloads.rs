//! Runs workloads of many contenders repeatedly.

use std::time::Duration;

use zk_tests::chaos::Error;
use zk_tests::chaos::history::History;
use zk_tests::chaos::workload::{Faults, Workload};
use zk_tests::now;

use crate::options::RANDOM;
use crate::summary::Summary;
use crate::{Run, save_history, unless_unsupported};

pub(crate) fn run(name: &str, run: &Run, summary: &mut Summary) -> Result<(), Error> {
    let faults = if name == RANDOM { Faults::Random } else { Faults::RollingRestart };
    let ensemble = match faults {
        Faults::Random => run.settings.start_in_namespaces(),
        Faults::RollingRestart => run.settings.start_ensemble(3),
    };
    let Some(ensemble) = unless_unsupported(ensemble)? else { return Ok(()) };
    let program = std::env::current_exe()?;
    let start = now();
    for number in 0.. {
        if run.end.is_over(number, start.elapsed()) {
            break;
        }
        let seed = run.seed + u64::from(number);
        println!("{name} run {}, seed {seed}", number + 1);
        let workload = Workload {
            ensemble: &ensemble,
            program: &program,
            tick: run.tick,
            timeout: run.timeout,
            length: LENGTH,
            seed,
            faults,
        };
        let history = History::default();
        let result = workload.run(&history, |text| println!("  {text}"));
        if !matches!(&result, Ok(verdict) if verdict.violations.is_empty()) {
            println!("  history: {}", save_history(&history, &format!("{name}-{seed}"))?.display());
        }
        summary.add(result?);
    }
    Ok(())
}

/// Long compared with a session timeout, short enough for a readable history.
pub(crate) const LENGTH: Duration = Duration::from_secs(60);
