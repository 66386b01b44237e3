//! What is measured: the scenarios, and what each of them is for.

use std::time::Duration;

use zk_benches::contest::{Job, Kind};

use crate::roster;

/// A contest that every contestant goes through, round by round.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) measure: Measure,
    /// How often everyone has a turn in each round. The speed of a machine wanders in the course of
    /// seconds: many short turns compare better than a few long ones.
    pub(crate) turns: u32,
    /// Without address and path, which are filled in for each contest.
    pub(crate) job: Job,
}

/// What is taken from the holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// From each release to the next owner.
    Handoff,
    /// How long the calls of acquire and release take.
    Calls,
    /// The longest hand-off of a contest in whose course all connections are cut.
    Reconnect,
    /// Hand-offs, and the requests and bytes of each.
    Drain,
}

impl Scenario {
    /// Whether every waiter is made to queue before the first one owns.
    pub(crate) fn has_gate(&self) -> bool {
        self.job.kind == Kind::Handoff
    }

    /// Whether a contestant takes part at all.
    pub(crate) fn admits(&self, contestant: &str) -> bool {
        match self.measure {
            Measure::Handoff | Measure::Calls => true,
            Measure::Reconnect => contestant != roster::FLOOR && contestant != roster::CLASSIC,
            Measure::Drain => contestant == roster::OURS,
        }
    }
}

/// Everything, in the order in which it is run.
pub(crate) fn all() -> Vec<Scenario> {
    let mut all = vec![Scenario {
        name: "uncontended".to_owned(),
        title: "uncontended".to_owned(),
        measure: Measure::Calls,
        turns: 8,
        job: Job { waiters: 1, sessions: 1, holds: 100, ..job(Kind::Uncontended) },
    }];
    for waiters in WAITERS {
        for hold_ms in [1, 0] {
            // A thousand waiters take long to line up.
            let turns = if waiters < 1_000 { 4 } else { 1 };
            let handoffs = HANDOFFS / turns as usize;
            all.push(Scenario { turns, ..handoff(waiters, hold_ms, handoffs) });
        }
    }
    all.push(Scenario {
        name: "read-write".to_owned(),
        title: "read-write lock, 90% readers, 20 clients, hold 1 ms".to_owned(),
        measure: Measure::Handoff,
        turns: 1,
        job: Job {
            waiters: 20,
            sessions: 20,
            hold: Duration::from_millis(1),
            holds: 1_000,
            ..job(Kind::ReadWrite)
        },
    });
    all.push(Scenario {
        name: "semaphore".to_owned(),
        title: "semaphore, 5 of 50 clients, hold 1 ms".to_owned(),
        measure: Measure::Handoff,
        turns: 1,
        job: Job {
            waiters: 50,
            sessions: 50,
            hold: Duration::from_millis(1),
            permits: 5,
            ..job(Kind::Semaphore)
        },
    });
    all.push(Scenario {
        name: "reconnect".to_owned(),
        title: "connection of 200 waiters cut: longest hand-off".to_owned(),
        measure: Measure::Reconnect,
        turns: 1,
        job: Job { waiters: 200, sessions: 1, holds: 600, ..handoff(200, 1, 600).job },
    });
    all.push(Scenario {
        name: "drain".to_owned(),
        title: "10,000 waiters, each holds once".to_owned(),
        measure: Measure::Drain,
        turns: 1,
        job: Job { again: false, ..handoff(10_000, 0, 10_000).job },
    });
    all
}

/// Enough to see that everything works, and nothing that takes more than a moment.
pub(crate) fn short() -> Vec<Scenario> {
    let mut short = all();
    short.retain(|scenario| scenario.job.waiters <= 50 || scenario.measure == Measure::Reconnect);
    for scenario in &mut short {
        scenario.turns = 1;
        // A connection is to be cut before they are through.
        let enough = if scenario.measure == Measure::Reconnect { 200 } else { 60 };
        scenario.job.holds = scenario.job.holds.min(enough);
    }
    let mut drain = handoff(200, 0, 200);
    drain.job.again = false;
    short.push(Scenario { name: "drain".to_owned(), measure: Measure::Drain, ..drain });
    short
}

/// What every contestant does first, so that nobody is measured cold: virtual machines compile what
/// they have seen some thousand times.
pub(crate) fn warm_up() -> Vec<Scenario> {
    let mut uncontended = all();
    uncontended.truncate(1);
    for scenario in &mut uncontended {
        scenario.job.holds = WARM_HOLDS;
    }
    uncontended.push(handoff(10, 0, WARM_HOLDS));
    uncontended
}

fn handoff(waiters: usize, hold_ms: u64, holds: usize) -> Scenario {
    let count = match waiters {
        1_000.. => format!("{},{:03}", waiters / 1_000, waiters % 1_000),
        _ => waiters.to_string(),
    };
    Scenario {
        name: format!("handoff-{waiters}-{hold_ms}ms"),
        title: format!("hand-off, {count} waiters, hold {hold_ms} ms"),
        measure: Measure::Handoff,
        turns: 1,
        job: Job {
            waiters,
            sessions: waiters.min(SESSIONS),
            hold: Duration::from_millis(hold_ms),
            holds,
            ..job(Kind::Handoff)
        },
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
    }
}

/// The numbers of waiters.
pub(crate) const WAITERS: [usize; 4] = [2, 10, 100, 1_000];
/// As many sessions as there are waiters, up to this.
const SESSIONS: usize = 20;
const WARM_HOLDS: usize = 3_000;
/// Holds of a round.
const HANDOFFS: usize = 400;
