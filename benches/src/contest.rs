//! What the hand-off benchmark and its contestants tell each other, line by line.
//!
//! A contestant is a process. It says `ready`, and for each line `run …` it makes sessions, lets
//! waiters contend, and answers with a line for each hold and `done`; or with `none REASON`, if it
//! has no such lock, or `failed REASON`. It judges nothing: latencies and mutual exclusion are worked
//! out by the benchmark, from what every contestant reports in the same way.

use std::io::{self, BufRead, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to contend for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The lock.
    pub kind: Kind,
    /// Where the server listens.
    pub address: String,
    /// The lock's node, which exists.
    pub path: String,
    /// How many contend, each again as soon as it has released, if [`Job::again`] says so.
    pub waiters: usize,
    /// How many sessions they share; waiter `i` uses session `i % sessions`.
    pub sessions: usize,
    /// How long each hold lasts.
    pub hold: Duration,
    /// After how many holds the contest ends; those who still wait are given up.
    pub holds: usize,
    /// The permits of a semaphore; otherwise 1.
    pub permits: usize,
    /// Whether who has released contends again.
    pub again: bool,
}

/// The lock that is contended for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutual exclusion lock; every waiter is in the queue before the first of them may have it.
    Handoff,
    /// The same lock, taken and released by one client alone.
    Uncontended,
    /// A read-write lock; [`Job::is_shared`] tells who reads.
    ReadWrite,
    /// A semaphore.
    Semaphore,
}

/// One hold; times are nanoseconds since any moment, the same for all holds of a contest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// When the waiter asked for the lock.
    pub call: u64,
    /// When its code ran as the owner.
    pub owner: u64,
    /// When it called release.
    pub release: u64,
    /// When that call returned.
    pub released: u64,
    /// The sequence number of its node, by which the server orders the waiters; negative if unknown.
    pub order: i64,
    /// Whether it was a reader of a read-write lock.
    pub shared: bool,
}

/// Why there are no holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The contestant has no such lock.
    None(String),
    /// It has, and it did not work.
    Failed(String),
}

impl Kind {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Handoff, "handoff"),
        (Self::Uncontended, "uncontended"),
        (Self::ReadWrite, "read-write"),
        (Self::Semaphore, "semaphore"),
    ];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl Job {
    /// Tells whether the hold number `turn` of a waiter is a reader's: nine of ten are.
    #[must_use]
    pub fn is_shared(&self, waiter: usize, turn: usize) -> bool {
        self.kind == Kind::ReadWrite && !(waiter + 7 * turn).is_multiple_of(10)
    }

    /// The line of a job.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!(
            "run {} {} {} {} {} {} {} {} {}",
            self.kind.name(),
            self.address,
            self.path,
            self.waiters,
            self.sessions,
            self.hold.as_micros(),
            self.holds,
            self.permits,
            u8::from(self.again),
        )
    }

    /// The job of a line; `None` if it is none.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let ["run", kind, address, path, waiters, sessions, hold_us, holds, permits, again] =
            words[..]
        else {
            return None;
        };
        Some(Self {
            kind: Kind::NAMES.iter().find(|(_, name)| *name == kind)?.0,
            address: address.to_owned(),
            path: path.to_owned(),
            waiters: waiters.parse().ok()?,
            sessions: sessions.parse().ok().filter(|sessions| *sessions > 0)?,
            hold: Duration::from_micros(hold_us.parse().ok()?),
            holds: holds.parse().ok()?,
            permits: permits.parse().ok()?,
            again: again == "1",
        })
    }
}

impl Hold {
    /// The line of a hold.
    #[must_use]
    pub fn to_line(&self) -> String {
        let Self { call, owner, release, released, order, shared } = self;
        format!("hold {call} {owner} {release} {released} {order} {}", u8::from(*shared))
    }

    /// The hold of a line; `None` if it is none.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let ["hold", call, owner, release, released, order, shared] = words[..] else {
            return None;
        };
        Some(Self {
            call: call.parse().ok()?,
            owner: owner.parse().ok()?,
            release: release.parse().ok()?,
            released: released.parse().ok()?,
            order: order.parse().ok()?,
            shared: shared == "1",
        })
    }
}

impl Refusal {
    /// The contestant has no such lock.
    #[must_use]
    pub fn none(reason: &str) -> Self {
        Self::None(reason.to_owned())
    }

    /// The line of a refusal.
    #[must_use]
    pub fn to_line(&self) -> String {
        let (word, reason) = match self {
            Self::None(reason) => ("none", reason),
            Self::Failed(reason) => ("failed", reason),
        };
        format!("{word} {}", reason.replace('\n', " "))
    }

    /// The refusal of a line; `None` if it is none.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("none", reason) => Some(Self::None(reason.to_owned())),
            ("failed", reason) => Some(Self::Failed(reason.to_owned())),
            _ => None,
        }
    }
}

/// Anything that goes wrong in a contestant is a failure of the run.
impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Where waiters write their holds down. Whoever waits for the end of the contest is told once, and
/// not of every hold: to wake a thread takes longer than some of what is measured.
#[derive(Debug)]
pub struct Board {
    holds: Mutex<Vec<Hold>>,
    wanted: usize,
}

impl Board {
    /// An empty one, for the holds of a job.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        Self { holds: Mutex::new(Vec::with_capacity(job.holds)), wanted: job.holds }
    }

    /// Writes a hold down; true for the one with which there are enough.
    pub fn add(&self, hold: Hold) -> bool {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.push(hold);
        holds.len() == self.wanted
    }

    /// Takes all that has been written down.
    #[must_use]
    pub fn take(&self) -> Vec<Hold> {
        std::mem::take(&mut *self.holds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The sequence number at the end of a node's name or path; negative if there is none.
#[must_use]
pub fn sequence_of(node: &str) -> i64 {
    node.len().checked_sub(10).and_then(|at| node.get(at..)?.parse().ok()).unwrap_or(-1)
}

/// Counts the nanoseconds of a contest.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at nought.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Answers the jobs on standard input until it ends.
///
/// # Errors
/// Those of standard input and output.
pub fn serve(mut run: impl FnMut(&Job) -> Result<Vec<Hold>, Refusal>) -> io::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    writeln!(output, "ready")?;
    output.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let outcome = match Job::parse(&line) {
            Some(job) => run(&job),
            None => Err(Refusal::Failed(format!("not a job: {line}"))),
        };
        match outcome {
            Ok(holds) => {
                for hold in holds {
                    writeln!(output, "{}", hold.to_line())?;
                }
                writeln!(output, "done")?;
            }
            Err(refusal) => writeln!(output, "{}", refusal.to_line())?,
        }
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_back_what_they_were_made_of() {
        let job = Job {
            kind: Kind::ReadWrite,
            address: "127.0.0.1:2181".to_owned(),
            path: "/a".to_owned(),
            waiters: 20,
            sessions: 4,
            hold: Duration::from_millis(1),
            holds: 100,
            permits: 1,
            again: true,
        };
        assert_eq!(Job::parse(&job.to_line()), Some(job));
        let hold = Hold { call: 1, owner: 2, release: 3, released: 4, order: 5, shared: true };
        assert_eq!(Hold::parse(&hold.to_line()), Some(hold));
        for refusal in [Refusal::none("no such lock"), Refusal::Failed("it broke".to_owned())] {
            assert_eq!(Refusal::parse(&refusal.to_line()), Some(refusal));
        }
        assert_eq!(Job::parse("run handoff"), None);
        assert_eq!(Hold::parse("done"), None);
    }

    #[test]
    fn sequences_are_the_last_ten_digits() {
        assert_eq!(sequence_of("/a/_c_0-lock-0000000012"), 12);
        assert_eq!(sequence_of("0000000012"), 12);
        assert_eq!(sequence_of("lock-12"), -1);
        assert_eq!(sequence_of("a-lock-000000001x"), -1);
    }

    #[test]
    fn nine_of_ten_holds_read() {
        let line = "run read-write a:1 /a 20 20 0 100 1 1";
        let job = Job::parse(line).unwrap();
        let reads = (0..20)
            .flat_map(|waiter| (0..10).map(move |turn| (waiter, turn)))
            .filter(|(waiter, turn)| job.is_shared(*waiter, *turn))
            .count();
        assert_eq!(reads, 180);
    }
}
