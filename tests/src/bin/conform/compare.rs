//! Plays a script at both servers and reports their differences, with the shortest script that
//! shows them.

use std::fmt::Write;
use std::net::SocketAddr;

use zk_testing::Settings;

use crate::player::Outcome;
use crate::player::play::{Record, administrator, play};
use crate::player::script::Step;
use crate::player::side::Ours;
use crate::real::Real;

/// The two servers, each with an administrator's connection.
pub(crate) struct Pair {
    real: Real,
    ours: Ours,
    administrators: [usize; 2],
    /// Number of scripts that were alike.
    pub(crate) played: u64,
}

/// Maximum number of runs that shorten a script.
const ATTEMPTS_MAX: u64 = 400;

impl Pair {
    pub(crate) fn start(address: SocketAddr, settings: Settings) -> Outcome<Self> {
        let (mut real, mut ours) = (Real::new(address), Ours::new(settings, zk_tests::now()));
        let administrators = [administrator(&mut real)?, administrator(&mut ours)?];
        Ok(Self { real, ours, administrators, played: 0 })
    }

    /// Plays a script. Returns what the clients of the real server hear, or as an error a report if the
    /// servers differ.
    pub(crate) fn compare(&mut self, steps: &[Step]) -> Outcome<Record> {
        let records = self.play(steps)?;
        if records[0] != records[1] {
            let (steps, records) = self.shrink(steps.to_vec(), records)?;
            return Err(report(&steps, &records).into());
        }
        let [record, _] = records;
        self.played += 1;
        Ok(record)
    }

    fn play(&mut self, steps: &[Step]) -> Outcome<[Record; 2]> {
        let [at_real, at_ours] = self.administrators;
        let ours = play(&mut self.ours, at_ours, steps)?;
        Ok([play(&mut self.real, at_real, steps)?, ours])
    }

    /// Removes steps, in ever smaller chunks, as long as the servers still differ.
    fn shrink(
        &mut self,
        mut steps: Vec<Step>,
        mut records: [Record; 2],
    ) -> Outcome<(Vec<Step>, [Record; 2])> {
        let (mut chunk, mut attempts) = (steps.len() / 2, 0);
        while chunk > 0 && attempts < ATTEMPTS_MAX {
            let before = steps.len();
            let mut start = 0;
            while start < steps.len() {
                attempts += 1;
                let end = steps.len().min(start + chunk);
                let fewer = [&steps[..start], &steps[end..]].concat();
                let found = self.play(&fewer)?;
                if found[0] == found[1] {
                    start = end;
                } else {
                    (steps, records) = (fewer, found);
                }
            }
            if steps.len() == before || chunk > 1 {
                chunk /= 2;
            }
        }
        Ok((steps, records))
    }
}

fn report(steps: &[Step], [real, ours]: &[Record; 2]) -> String {
    let mut text = "DIFFERENCE in a script that comes down to:\n".to_owned();
    let lines = steps.iter().map(|step| step.line.as_str()).chain(["the end"]);
    for (line, (real, ours)) in lines.zip(real.heard.iter().zip(&ours.heard)) {
        let _ = writeln!(text, "{line}");
        let sides: &[_] =
            if real == ours { &[("", real)] } else { &[("real ", real), ("ours ", ours)] };
        for (side, heard) in sides {
            for line in *heard {
                let _ = writeln!(text, "  {side}{line}");
            }
        }
    }
    text
}
