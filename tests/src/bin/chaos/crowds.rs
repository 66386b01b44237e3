//! Runs many contenders again and again.

use std::time::Duration;

use zk_tests::chaos::Error;
use zk_tests::chaos::crowd::{Crowd, Faults};
use zk_tests::chaos::history::History;
use zk_tests::{Settings, now, or_skip};

use crate::keep;
use crate::options::{Options, RANDOM};
use crate::summary::Summary;

pub(crate) fn run(name: &str, options: &Options, summary: &mut Summary) -> Result<(), Error> {
    let timeout = options.timeout.unwrap_or(options.tick * TIMEOUT_TICKS);
    let faults = if name == RANDOM { Faults::Random } else { Faults::RollingRestart };
    println!(
        "\n{name}: 8 contenders, tick {} ms, timeout {} ms",
        options.tick.as_millis(),
        timeout.as_millis()
    );
    let settings = Settings::default().tick_ms(u32::try_from(options.tick.as_millis())?);
    let ensemble = match faults {
        Faults::Random => settings.start_in_namespaces(),
        Faults::RollingRestart => settings.start_ensemble(3),
    };
    let Some(ensemble) = or_skip(ensemble) else { return Ok(()) };
    let program = std::env::current_exe()?;
    let start = now();
    for number in 0.. {
        if options.end.is_over(number, start.elapsed()) {
            break;
        }
        let seed = options.seed + u64::from(number);
        println!("{name} run {}, seed {seed}", number + 1);
        let crowd = Crowd {
            ensemble: &ensemble,
            program: &program,
            tick: options.tick,
            timeout,
            length: LENGTH,
            seed,
            faults,
        };
        let history = History::default();
        let result = crowd.run(&history, |text| println!("  {text}"));
        if !matches!(&result, Ok(verdict) if verdict.violations.is_empty()) {
            println!("  history: {}", keep(&history, &format!("{name}-{seed}"))?.display());
        }
        summary.add(result?);
    }
    Ok(())
}

const TIMEOUT_TICKS: u32 = 8;
/// Long against a session timeout; short enough to read the history of.
const LENGTH: Duration = Duration::from_secs(60);
