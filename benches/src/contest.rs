//! Line protocol between the hand-off benchmark and its contestants.
//!
//! A contestant is a process. It prints `ready`. For each line `run …` it opens sessions and lets
//! waiters contend, and prints a line for each hold and then `done`. It prints `none REASON` if it
//! has no such lock, or `failed REASON`. Any other line is that of a log, which the benchmark passes on.
//! A contestant judges nothing. The benchmark computes latencies and checks mutual exclusion, from
//! the holds that all contestants report in the same way.

use std::io::{self, BufRead, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A contest for a contestant to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The kind of lock.
    pub kind: Kind,
    /// The address of the server.
    pub address: String,
    /// The path of the lock. Its node exists.
    pub path: String,
    /// The number of waiters. Each contends again as soon as it has released, if [`Job::again`] is
    /// set.
    pub waiters: usize,
    /// The number of sessions that the waiters share; waiter `i` uses session `i % sessions`.
    pub sessions: usize,
    /// The duration of each hold.
    pub hold: Duration,
    /// The number of holds after which the contest ends. Remaining waiters are cancelled.
    pub holds: usize,
    /// The permits of a semaphore; 1 for other locks.
    pub permits: usize,
    /// Whether a waiter contends again after its release.
    pub again: bool,
    /// The number of processes that share the sessions, waiters and holds evenly. Only the
    /// contestants of this library can have more than one.
    pub processes: usize,
}

/// The kind of lock in a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutual exclusion lock. Every waiter is in the queue before the first of them acquires the
    /// lock.
    Handoff,
    /// The same lock, acquired and released by one client alone.
    Uncontended,
    /// A read-write lock; [`Job::is_shared`] selects the readers.
    ReadWrite,
    /// A semaphore.
    Semaphore,
    /// No lock: each hold is a session, from its connect to its close.
    Connect,
}

/// One hold. Times are nanoseconds since an arbitrary instant, the same for all holds of a contest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// When the waiter called acquire.
    pub call: u64,
    /// When its code ran as the owner.
    pub owner: u64,
    /// When it called release.
    pub release: u64,
    /// When the release call returned.
    pub released: u64,
    /// The sequence number of its node, by which the server orders the waiters; negative if
    /// unknown.
    pub order: i64,
    /// Whether it was the hold of a reader of a read-write lock.
    pub shared: bool,
}

/// The reason why a contest has no holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The contestant has no such lock.
    None(String),
    /// The contest failed.
    Failed(String),
}

impl Kind {
    const NAMES: [(Self, &'static str); 5] = [
        (Self::Handoff, "handoff"),
        (Self::Uncontended, "uncontended"),
        (Self::ReadWrite, "read-write"),
        (Self::Semaphore, "semaphore"),
        (Self::Connect, "connect"),
    ];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl Job {
    /// Returns true if hold number `turn` of a waiter is a reader's. Nine of ten are.
    #[must_use]
    pub fn is_shared(&self, waiter: usize, turn: usize) -> bool {
        self.kind == Kind::ReadWrite && !(waiter + 7 * turn).is_multiple_of(10)
    }

    /// Formats the job as a line.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!(
            "run {} {} {} {} {} {} {} {} {} {}",
            self.kind.name(),
            self.address,
            self.path,
            self.waiters,
            self.sessions,
            self.hold.as_micros(),
            self.holds,
            self.permits,
            u8::from(self.again),
            self.processes,
        )
    }

    /// Parses a line. Returns `None` if it is not a job.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            "run",
            kind,
            address,
            path,
            waiters,
            sessions,
            hold_us,
            holds,
            permits,
            again,
            processes,
        ] = words[..]
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
            processes: processes.parse().ok().filter(|processes| *processes > 0)?,
        })
    }

    /// Returns the part of one of the processes.
    #[must_use]
    pub fn share(&self) -> Self {
        let part = |all: usize| all.div_ceil(self.processes);
        Self {
            waiters: part(self.waiters),
            sessions: part(self.sessions),
            holds: part(self.holds),
            processes: 1,
            ..self.clone()
        }
    }
}

impl Hold {
    /// Formats the hold as a line.
    #[must_use]
    pub fn to_line(&self) -> String {
        let Self { call, owner, release, released, order, shared } = self;
        format!("hold {call} {owner} {release} {released} {order} {}", u8::from(*shared))
    }

    /// Parses a line. Returns `None` if it is not a hold.
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
    /// Returns the refusal of a contestant that has no such lock.
    #[must_use]
    pub fn none(reason: &str) -> Self {
        Self::None(reason.to_owned())
    }

    /// Formats the refusal as a line.
    #[must_use]
    pub fn to_line(&self) -> String {
        let (word, reason) = match self {
            Self::None(reason) => ("none", reason),
            Self::Failed(reason) => ("failed", reason),
        };
        format!("{word} {}", reason.replace('\n', " "))
    }

    /// Parses a line. Returns `None` if it is not a refusal.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("none", reason) => Some(Self::None(reason.to_owned())),
            ("failed", reason) => Some(Self::Failed(reason.to_owned())),
            _ => None,
        }
    }
}

/// Makes every error in a contestant a failure of the run.
impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// List of the holds of a contest. It reports only the last hold to the task that waits for the end
/// of the contest, because waking a thread takes longer than some of the measured times.
#[derive(Debug)]
pub struct Board {
    holds: Mutex<Vec<Hold>>,
    wanted: usize,
}

impl Board {
    /// Creates an empty board for the holds of a job.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        Self { holds: Mutex::new(Vec::with_capacity(job.holds)), wanted: job.holds }
    }

    /// Adds a hold. Returns true for the hold that completes the contest.
    pub fn add(&self, hold: Hold) -> bool {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.push(hold);
        holds.len() == self.wanted
    }

    /// Takes all holds.
    #[must_use]
    pub fn take(&self) -> Vec<Hold> {
        std::mem::take(&mut *self.holds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the sequence number at the end of a node's name or path; negative if there is none.
#[must_use]
pub fn sequence_of(node: &str) -> i64 {
    node.len().checked_sub(10).and_then(|at| node.get(at..)?.parse().ok()).unwrap_or(-1)
}

/// The clock of a contest, in nanoseconds. All processes of this machine have the same.
#[derive(Clone, Copy, Debug)]
pub struct Clock;

impl Clock {
    /// Returns the time since the machine was started.
    #[must_use]
    pub fn now(&self) -> u64 {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Runs the jobs on standard input until it ends, and prints their outcomes.
///
/// # Errors
/// Returns an error of standard input or output.
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
    fn jobs_holds_and_refusals_round_trip_through_lines() {
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
            processes: 2,
        };
        let share = job.share();
        assert_eq!((share.waiters, share.sessions, share.holds, share.processes), (10, 2, 50, 1));
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
    fn sequence_number_is_the_last_ten_digits() {
        assert_eq!(sequence_of("/a/_c_0-lock-0000000012"), 12);
        assert_eq!(sequence_of("0000000012"), 12);
        assert_eq!(sequence_of("lock-12"), -1);
        assert_eq!(sequence_of("a-lock-000000001x"), -1);
    }

    #[test]
    fn read_write_job_has_nine_shared_holds_of_ten() {
        let line = "run read-write a:1 /a 20 20 0 100 1 1 1";
        let job = Job::parse(line).unwrap();
        let reads = (0..20)
            .flat_map(|waiter| (0..10).map(move |turn| (waiter, turn)))
            .filter(|(waiter, turn)| job.is_shared(*waiter, *turn))
            .count();
        assert_eq!(reads, 180);
    }
}
