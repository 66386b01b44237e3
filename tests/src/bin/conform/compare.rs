//! Plays a script at both servers and reports their differences, with the shortest script that
//! shows them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;

use zk_proto::OpCode;
use zk_testing::{Settings, Version};

use crate::message::{Message, framed};
use crate::normal::names;
use crate::play::{Line, Play, Record};
use crate::script::{Step, generate};
use crate::side::{Heard, Ours, Real, Side};
use crate::tally::Tally;
use crate::{Outcome, SUPER_PASSWORD};

/// The two servers, each with an administrator's connection.
pub(crate) struct Pair {
    real: Real,
    ours: Ours,
    administrators: [usize; 2],
    version: Version,
    /// Distinguishes the roots of scripts that have the same seed.
    attempts: u64,
}

/// Origin of a script.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A random script.
    Seed(u64),
    /// A [fixed](crate::fixed) script and its name.
    Fixed(&'static str, fn(&str) -> Vec<Step>),
}

impl Source {
    /// Returns the name of the script, which is also that of its root.
    fn name(self) -> String {
        match self {
            Self::Seed(seed) => format!("{seed:08x}"),
            Self::Fixed(name, _) => name.to_owned(),
        }
    }

    /// Returns the steps with their indices, on nodes below `root`.
    fn steps(self, root: &str, version: Version) -> Numbered {
        let steps = match self {
            Self::Seed(seed) => generate(seed, root, version),
            Self::Fixed(_, make) => make(root),
        };
        steps.into_iter().enumerate().collect()
    }
}

/// Maximum number of runs that shorten a script.
const ATTEMPTS_MAX: u64 = 400;

/// Steps with their indices in the script.
type Numbered = Vec<(usize, Step)>;

impl Pair {
    pub(crate) fn start(
        address: SocketAddr,
        version: Version,
        settings: Settings,
    ) -> Outcome<Self> {
        let (mut real, mut ours) = (Real::new(address), Ours::new(settings));
        let administrators = [administrator(&mut real)?, administrator(&mut ours)?];
        Ok(Self { real, ours, administrators, version, attempts: 0 })
    }

    /// Plays a script, and returns a report if the servers differ.
    pub(crate) fn compare(&mut self, source: Source, tally: &mut Tally) -> Outcome<Option<String>> {
        self.attempts = 0;
        let root = format!("/{}", source.name());
        let steps = source.steps(&root, self.version);
        let records = self.play(&root, &steps)?;
        if is_alike(&records) {
            tally.add(&steps, &records[0]);
            return Ok(None);
        }
        let (steps, records) = self.shrink(source, (0..steps.len()).collect(), (steps, records))?;
        Ok(Some(report(source, &steps, &records)))
    }

    fn play(&mut self, root: &str, steps: &[(usize, Step)]) -> Outcome<[Record; 2]> {
        let [at_real, at_ours] = self.administrators;
        let mut play = Play::begin(&mut self.ours, at_ours, root)?;
        play.perform(steps)?;
        let nodes = play.side().nodes(root);
        play.survey(&nodes)?;
        let ours = play.record;
        let mut play = Play::begin(&mut self.real, at_real, root)?;
        play.perform(steps)?;
        play.survey(&nodes)?;
        let records = [play.record, ours];
        if !is_alike(&records) {
            clear(&mut self.real, at_real, root)?;
            clear(&mut self.ours, at_ours, root)?;
        }
        Ok(records)
    }

    /// Removes steps, in ever smaller chunks, as long as the servers still differ.
    fn shrink(
        &mut self,
        source: Source,
        mut kept: BTreeSet<usize>,
        mut shortest: (Numbered, [Record; 2]),
    ) -> Outcome<(Numbered, [Record; 2])> {
        let mut chunk = kept.len() / 2;
        while chunk > 0 && self.attempts < ATTEMPTS_MAX {
            let before = kept.len();
            for dropped in kept.iter().copied().collect::<Vec<_>>().chunks(chunk) {
                self.attempts += 1;
                let fewer: BTreeSet<usize> =
                    kept.iter().copied().filter(|step| !dropped.contains(step)).collect();
                let root = format!("/{}-{}", source.name(), self.attempts);
                let mut steps = source.steps(&root, self.version);
                steps.retain(|(index, _)| fewer.contains(index));
                let records = self.play(&root, &steps)?;
                if !is_alike(&records) {
                    kept = fewer;
                    shortest = (steps, records);
                }
            }
            if kept.len() == before || chunk > 1 {
                chunk /= 2;
            }
        }
        Ok(shortest)
    }
}

/// Deletes the remaining nodes of a script.
fn clear(side: &mut impl Side, administrator: usize, root: &str) -> Outcome<()> {
    let of =
        |op: OpCode, path: &[u8]| Message::new(op.code(), op.name()).buffer("path", Some(path));
    let mut ask = |message: &Message| -> Outcome<bytes::Bytes> {
        side.send(administrator, &message.frame(1, 0));
        match side.hear(administrator)? {
            Heard::Frame(frame) => Ok(frame),
            other => Err(format!("no answer: {other:?}").into()),
        }
    };
    let mut found = vec![format!("/zookeeper/quota{root}").into_bytes(), root.as_bytes().to_vec()];
    let mut looked_at = 0;
    while let Some(path) = found.get(looked_at).cloned() {
        looked_at += 1;
        let reply = ask(&of(OpCode::GetChildren, &path).byte("watch", 0))?;
        found.extend(names(&reply).iter().map(|name| [&path, &b"/"[..], name].concat()));
    }
    for path in found.iter().rev() {
        ask(&of(OpCode::Delete, path).int("version", -1))?;
    }
    Ok(())
}

fn is_alike([real, ours]: &[Record; 2]) -> bool {
    real.heard == ours.heard
}

fn report(source: Source, steps: &[(usize, Step)], [real, ours]: &[Record; 2]) -> String {
    let name = match source {
        Source::Seed(seed) => seed.to_string(),
        Source::Fixed(name, _) => name.to_owned(),
    };
    let mut text = format!("DIFFERENCE in script {name}, which comes down to:\n");
    for (index, step) in steps {
        let _ = writeln!(text, "  {index:3} {}", step.text());
    }
    let names: BTreeSet<&String> = real.heard.keys().chain(ours.heard.keys()).collect();
    for name in names {
        let lines = |record: &Record| record.heard.get(name).cloned().unwrap_or_default();
        let (real, ours) = (lines(real), lines(ours));
        let Some(first) = (0..real.len().max(ours.len())).find(|at| real.get(*at) != ours.get(*at))
        else {
            continue;
        };
        let _ = writeln!(text, "connection {name} hears, after {first} lines alike:");
        for (side, lines) in [("real", &real), ("ours", &ours)] {
            for line in lines.iter().skip(first).take(4) {
                let _ = writeln!(text, "  {side}: {}", shown(line));
            }
        }
    }
    text
}

fn shown(line: &Line) -> String {
    match line.step {
        Some(step) => format!("{step:3} {}", line.text),
        None => format!("    {}", line.text),
    }
}

/// Opens a connection with its own session and all permissions.
fn administrator(side: &mut impl Side) -> Outcome<usize> {
    let connection = side.connect()?;
    let mut body = [0; 12].to_vec();
    body.extend(40_000_i32.to_be_bytes());
    body.extend([0; 8]);
    body.extend(framed(&[0; 16]));
    body.push(0);
    side.send(connection, &framed(&body));
    expect_frame(side.hear(connection)?)?;
    let auth = Message::new(OpCode::Auth.code(), "auth").int("type", 0).string("scheme", "digest");
    let auth = auth.string("auth", &format!("super:{SUPER_PASSWORD}"));
    side.send(connection, &auth.frame(-4, 0));
    expect_frame(side.hear(connection)?)?;
    Ok(connection)
}

fn expect_frame(heard: Heard) -> Outcome<()> {
    match heard {
        Heard::Frame(_) => Ok(()),
        other => Err(format!("no administrator: {other:?}").into()),
    }
}
