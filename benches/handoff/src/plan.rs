//! Scenarios of the benchmark, and their purposes.

use std::time::Duration;

use zk_benches::contest::{Job, Kind};

use crate::roster;

/// A contest that every contestant runs, round by round.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) measure: Measure,
    /// Turns of each contestant in a round. The speed of a machine drifts over seconds, so many
    /// short turns compare better than a few long ones.
    pub(crate) turns: u32,
    /// Nodes of the harness behind the waiters, which make the queue longer than a contest lasts.
    pub(crate) behind: usize,
    /// The job, without the address and the path, which each contest fills in.
    pub(crate) job: Job,
}

/// The quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time from each release to the next owner.
    Handoff,
    /// The duration of the acquire and release calls.
    Calls,
    /// The duration of the connect and close calls of a session.
    Sessions,
    /// The longest hand-off of a contest in which all connections are cut.
    Reconnect,
    /// The time from each release to the next owner, after a wait longer than the session timeout. It
    /// has a server of its own, with [`SHORT_TICK_MS`].
    LongWait,
    /// Hand-offs, with the requests and bytes of each.
    Traffic,
    /// Hand-offs, with the holds of all clients in a second.
    Throughput,
}

impl Scenario {
    /// Returns true if every waiter must queue before the first one owns the lock.
    pub(crate) fn has_gate(&self) -> bool {
        self.job.kind == Kind::Handoff
    }

    /// Returns true if each contestant runs once, for any number of rounds.
    pub(crate) fn is_once(&self) -> bool {
        // Counts are the same in every round. Long waits and long queues take long.
        matches!(self.measure, Measure::Traffic | Measure::LongWait | Measure::Throughput)
            || self.behind > 0
    }

    /// Returns true if a contestant takes part in the scenario.
    pub(crate) fn admits(&self, contestant: &str) -> bool {
        match self.measure {
            // They do not keep the order of the ensemble.
            Measure::Handoff | Measure::LongWait => {
                ![roster::HERD, roster::LOCAL_QUEUE].contains(&contestant)
            }
            // Uncontended, a marked release is the classic one.
            Measure::Calls => {
                let same = [roster::MARKED, roster::HERD, roster::LOCAL_QUEUE];
                !same.contains(&contestant)
            }
            Measure::Sessions => [roster::OURS, roster::OURS_TLS].contains(&contestant),
            Measure::Throughput => [roster::OURS, roster::LOCAL_QUEUE].contains(&contestant),
            // Blocking sockets do not reconnect.
            Measure::Reconnect => contestant == roster::OURS || !roster::OWN.contains(&contestant),
            // The proxy cannot count what is encrypted.
            Measure::Traffic if self.job.again => {
                let others =
                    [roster::HERD, roster::LOCAL_QUEUE, roster::OURS_TLS, roster::MARKED_TLS];
                !others.contains(&contestant)
            }
            Measure::Traffic => match contestant {
                roster::OURS | roster::MARKED => true,
                roster::CLASSIC | roster::HERD => self.job.sessions == self.job.waiters,
                _ => false,
            },
        }
    }

    /// Returns the length of the queue.
    pub(crate) fn queue(&self) -> usize {
        self.job.waiters + self.behind
    }
}

/// Returns all scenarios, in the order of the run.
pub(crate) fn all() -> Vec<Scenario> {
    let calls = Job { waiters: 1, sessions: 1, holds: 100, ..job(Kind::Uncontended) };
    let sessions = Job { waiters: 1, sessions: 1, holds: 50, ..job(Kind::Connect) };
    let calls = scenario("uncontended", "uncontended", Measure::Calls, calls);
    let sessions = scenario("session", "session", Measure::Sessions, sessions);
    let mut all = vec![Scenario { turns: 8, ..calls }, Scenario { turns: 8, ..sessions }];
    for waiters in WAITERS {
        for hold_ms in [1, 0] {
            // A thousand waiters take a long time to queue.
            let turns = if waiters < 1_000 { 4 } else { 1 };
            let handoffs = HANDOFFS / turns as usize;
            all.push(Scenario { turns, ..handoff(waiters, hold_ms, handoffs) });
        }
    }
    let hold = Duration::from_millis(1);
    all.extend([
        scenario(
            "read-write",
            "read-write lock, 90% readers, 20 clients, hold 1 ms",
            Measure::Handoff,
            Job { waiters: 20, sessions: 20, hold, holds: 1_000, ..job(Kind::ReadWrite) },
        ),
        scenario(
            "semaphore",
            "semaphore, 5 of 50 clients, hold 1 ms",
            Measure::Handoff,
            Job { waiters: 50, sessions: 50, hold, permits: 5, ..job(Kind::Semaphore) },
        ),
        scenario(
            "reconnect",
            "connection of 200 waiters cut: longest hand-off",
            Measure::Reconnect,
            Job { waiters: 200, sessions: 1, holds: 600, ..handoff(200, 1, 600).job },
        ),
        scenario(
            "long-wait",
            "40 waiters with a session each, each wait longer than the session timeout",
            Measure::LongWait,
            Job { sessions: 40, hold: LONG_WAIT_HOLD, ..handoff(40, 0, 200).job },
        ),
        scenario(
            "local-queue",
            "5 processes with 100 waiters each, hold 0",
            Measure::Throughput,
            Job { sessions: 5, processes: 5, ..handoff(500, 0, 5_000).job },
        ),
    ]);
    all.extend([1_000, 10_000].map(requeue));
    all.extend(HERDS.map(herd));
    let drain = Job { waiters: 10_000, again: false, ..handoff(10_000, 0, 10_000).job };
    all.push(scenario("drain", "10,000 waiters, each holds once", Measure::Traffic, drain));
    all
}

/// Returns a scenario of one turn in a round.
fn scenario(name: &str, title: &str, measure: Measure, job: Job) -> Scenario {
    let (name, title) = (name.to_owned(), title.to_owned());
    Scenario { name, title, measure, turns: 1, behind: 0, job }
}

/// Returns short versions of the scenarios, which only show that everything works.
pub(crate) fn short() -> Vec<Scenario> {
    let mut short = all();
    short.retain(|scenario| {
        scenario.job.waiters <= 50
            || matches!(scenario.measure, Measure::Reconnect | Measure::Throughput)
    });
    for scenario in &mut short {
        scenario.turns = 1;
        let enough = match scenario.measure {
            Measure::LongWait => 20,
            // A connection must be cut before the contest ends.
            _ if scenario.job.waiters > 50 => 200,
            _ => 60,
        };
        scenario.job.holds = scenario.job.holds.min(enough);
    }
    let mut drain = handoff(200, 0, 200);
    drain.job.again = false;
    short.push(Scenario { name: "drain".to_owned(), measure: Measure::Traffic, ..drain });
    let mut requeue = requeue(50);
    // The next hold would be that of a node behind the waiters.
    requeue.job.holds = 50;
    short.push(Scenario { name: "requeue".to_owned(), behind: 50, ..requeue });
    short
}

/// Returns the scenarios that every contestant runs first, as a warm-up. Virtual machines compile
/// code after some thousand calls.
pub(crate) fn warm_up() -> Vec<Scenario> {
    let mut uncontended = all();
    uncontended.truncate(1);
    for scenario in &mut uncontended {
        scenario.job.holds = WARM_HOLDS;
    }
    uncontended.push(handoff(10, 0, WARM_HOLDS));
    uncontended
}

/// Returns hand-offs in a queue of which the traffic is counted.
fn requeue(waiters: usize) -> Scenario {
    Scenario {
        name: format!("requeue-{waiters}"),
        title: format!("{} waiters that queue again, hold 0", grouped(waiters)),
        measure: Measure::Traffic,
        ..handoff(waiters, 0, HANDOFFS)
    }
}

/// Returns a drain in which each waiter has a session. In the lock of one node, a session gets one
/// event for all its waiters.
fn herd(waiters: usize) -> Scenario {
    let title = format!("{} waiters with a session each, each holds once", grouped(waiters));
    let job = Job { sessions: waiters, again: false, ..handoff(waiters, 1, waiters).job };
    scenario(&format!("herd-{waiters}"), &title, Measure::Traffic, job)
}

fn handoff(queue: usize, hold_ms: u64, holds: usize) -> Scenario {
    let waiters = queue.min(WAITERS_MAX);
    Scenario {
        name: format!("handoff-{queue}-{hold_ms}ms"),
        title: format!("hand-off, {} waiters, hold {hold_ms} ms", grouped(queue)),
        measure: Measure::Handoff,
        turns: 1,
        behind: queue - waiters,
        job: Job {
            waiters,
            sessions: waiters.min(SESSIONS),
            hold: Duration::from_millis(hold_ms),
            holds,
            ..job(Kind::Handoff)
        },
    }
}

fn grouped(number: usize) -> String {
    match number {
        1_000.. => format!("{},{:03}", number / 1_000, number % 1_000),
        _ => number.to_string(),
    }
}

fn job(kind: Kind) -> Job {
    Job {
        kind,
        address: String::new(),
        path: String::new(),
        waiters: 1,
        sessions: 1,
        hold: Duration::ZERO,
        holds: HANDOFFS,
        permits: 1,
        again: true,
        processes: 1,
    }
}

/// Numbers of waiters in the hand-off scenarios.
pub(crate) const WAITERS: [usize; 5] = [2, 10, 100, 1_000, 10_000];
/// Maximum number of waiters that queue again. Ten thousand threads of a client would list ten thousand
/// nodes each before the first hand-off, which takes minutes and more memory than the server has. No
/// contest has as many holds, so a longer queue has nodes of the harness at its end.
const WAITERS_MAX: usize = 1_000;
/// The tick of the servers.
pub(crate) const TICK_MS: u32 = 2_000;
/// The tick of the servers for long waits.
pub(crate) const SHORT_TICK_MS: u32 = 100;
/// The same for a short run, which measures nothing. Beside other tests, a virtual machine that has just
/// started may stand still for longer than 20 ticks of a tenth of a second.
pub(crate) const SHORT_RUN_TICK_MS: u32 = 400;
/// Every contestant asks for a session timeout of 40 s, and gets so many ticks.
pub(crate) const TICKS_MAX: u64 = 20;
/// The holds of the 39 waiters ahead take longer than the session timeout.
const LONG_WAIT_HOLD: Duration = Duration::from_millis(60);
/// Numbers of waiters for which the traffic of each hand-off is counted.
const HERDS: [usize; 3] = [10, 100, 1_000];
/// Maximum number of sessions in a hand-off. Up to this number, each waiter has a session.
const SESSIONS: usize = 20;
const WARM_HOLDS: usize = 3_000;
/// Holds in a round.
const HANDOFFS: usize = 400;
