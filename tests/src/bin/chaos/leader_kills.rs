//! Kills the leader repeatedly, and counts the locks that are lost and the time until sessions are back.

use std::fmt;
use std::time::Duration;

use zk_tests::chaos::Error;
use zk_tests::chaos::leader_kill::{Kill, kill_leader};
use zk_tests::chaos::report::percentile;
use zk_tests::{Settings, now};

use crate::options::End;
use crate::{Ending, Run, unless_unsupported};

pub(crate) fn run(run: &Run) -> Result<Ending, Error> {
    let settings = Settings::default().tick_ms(u32::try_from(run.tick.as_millis())?);
    let Some(ensemble) = unless_unsupported(settings.start_ensemble(3))? else {
        return Ok(Ending::NotRun);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut kills = Kills::new(run.timeout);
    let start = now();
    for number in 0.. {
        if run.end.is_over(number, start.elapsed()) {
            break;
        }
        let kill = kill_leader(&ensemble, &runtime, run.timeout)?;
        let of = if let End::Runs(runs) = run.end { format!(" of {runs}") } else { String::new() };
        println!("leader-kills run {}{of}: {}", number + 1, kills.line(&kill));
        kills.add(kill);
    }
    print!("{kills}");
    Ok(kills.ending())
}

/// Sum over several kills.
struct Kills {
    timeout: Duration,
    /// Sum over the kills after which a server was back in time.
    judged: Sum,
    /// Sum over the other kills.
    others: Sum,
}

#[derive(Default)]
struct Sum {
    kills: usize,
    held: usize,
    lost: usize,
    returns_us: Vec<i64>,
}

impl Kills {
    fn new(timeout: Duration) -> Self {
        Self { timeout, judged: Sum::default(), others: Sum::default() }
    }

    /// Returns whether a server was back so early that no lock may be lost.
    fn is_judged(&self, kill: &Kill) -> bool {
        kill.outage <= self.timeout / OUTAGE_DIVISOR
    }

    fn line(&self, kill: &Kill) -> String {
        let mut sum = Sum::default();
        sum.add(kill.clone());
        let note = if self.is_judged(kill) { "" } else { "; not judged" };
        format!("servers back after {} ms, {sum}{note}", kill.outage.as_millis())
    }

    fn add(&mut self, kill: Kill) {
        if self.is_judged(&kill) { self.judged.add(kill) } else { self.others.add(kill) }
    }

    fn ending(&self) -> Ending {
        let is_sound = self.judged.kills > 0 && self.judged.lost == 0 && !self.judged.is_late();
        if is_sound { Ending::Sound } else { Ending::Broken }
    }
}

impl Sum {
    fn add(&mut self, kill: Kill) {
        self.kills += 1;
        self.held += kill.held;
        self.lost += kill.lost;
        self.returns_us.extend(kill.returns_us);
        self.returns_us.sort_unstable();
    }

    fn is_late(&self) -> bool {
        percentile(&self.returns_us, 99).is_some_and(|us| us > RETURN_MAX_US)
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| percentile(&self.returns_us, percent).unwrap_or(0) / 1_000;
        write!(
            f,
            "{} of {} locks lost, sessions back after {} ms (p99 {} ms, max {} ms)",
            self.lost,
            self.held,
            ms(50),
            ms(99),
            ms(100)
        )
    }
}

impl fmt::Display for Kills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeout_ms = self.timeout.as_millis();
        let limit_ms = (self.timeout / OUTAGE_DIVISOR).as_millis();
        writeln!(f, "\nleader-kills, T {timeout_ms} ms")?;
        for (when, sum) in [("within", &self.judged), ("only after", &self.others)] {
            if sum.kills > 0 {
                writeln!(f, "  {} kills, servers back {when} {limit_ms} ms: {sum}", sum.kills)?;
            }
        }
        if self.judged.kills == 0 {
            writeln!(f, "  VIOLATION: no kill is judged")?;
        }
        if self.judged.lost > 0 {
            writeln!(f, "  VIOLATION: {} locks were lost needlessly", self.judged.lost)?;
        }
        if self.judged.is_late() {
            let limit_ms = RETURN_MAX_US / 1_000;
            writeln!(f, "  VIOLATION: p99 of the sessions' return is above {limit_ms} ms")?;
        }
        Ok(())
    }
}

/// A kill is judged if a server is back within the session timeout divided by this. A lease lasts for at
/// least two fifths of the timeout, and the rest of it is for the sessions' return.
const OUTAGE_DIVISOR: u32 = 4;
/// Longest time from the first serving server until 99 of 100 sessions are back, in microseconds.
const RETURN_MAX_US: i64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(kills: &[(u64, usize, i64)]) -> Ending {
        let mut sum = Kills::new(Duration::from_secs(4));
        for (outage_ms, lost, return_us) in kills {
            let outage = Duration::from_millis(*outage_ms);
            sum.add(Kill { outage, held: 40, lost: *lost, returns_us: vec![*return_us; 40] });
        }
        sum.ending()
    }

    #[test]
    fn lost_lock_or_late_session_breaks_the_promise() {
        assert_eq!(ending(&[(1_000, 0, 200_000)]), Ending::Sound);
        assert_eq!(ending(&[(1_000, 1, 0)]), Ending::Broken);
        assert_eq!(ending(&[(1_000, 0, 200_001)]), Ending::Broken);
    }

    #[test]
    fn kill_with_a_long_election_is_not_judged() {
        assert_eq!(ending(&[(1_001, 40, 900_000), (500, 0, 0)]), Ending::Sound);
        assert_eq!(ending(&[(1_001, 0, 0)]), Ending::Broken);
    }
}
