//! Small worlds of one recipe each, in which no fault is random.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

use crate::plan::{ClientPlan, Hold, Latency, Permits, Plan, Styles};
use crate::recipe::Recipe;
use crate::servers::ServerPlan;
use crate::suite::Suite;

/// Two clients with one recipe on three servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SmallWorld {
    /// A mutex.
    Mutex,
    /// A read-write lock, with a downgrade.
    RwLock,
    /// A semaphore of two permits.
    Semaphore,
    /// An election by sessions that a manager replaces.
    Election,
    /// A counter, with ids and a lock.
    Counter,
    /// A double barrier.
    DoubleBarrier,
}

impl SmallWorld {
    /// The plan. Its seed decides how the contenders act, and was chosen for what they do.
    pub(crate) fn plan(self) -> Plan {
        let (recipe, seed, handoffs) = match self {
            Self::Mutex => (Recipe::Mutex, 1, 3),
            Self::RwLock => (Recipe::RwLock, 24, 4),
            Self::Semaphore => (Recipe::Semaphore, 1, 3),
            Self::Election => (Recipe::Election, 1, 3),
            Self::Counter => (Recipe::Counter, 1, 10),
            Self::DoubleBarrier => (Recipe::DoubleBarrier, 1, 3),
        };
        let suite = match self {
            Self::Counter | Self::DoubleBarrier => Suite::Coordination,
            _ => Suite::Locks,
        };
        let millis = Duration::from_millis;
        // Additions of two clients seldom meet, so that a lost one is repeated before the next one.
        let think = if self == Self::Counter { millis(20) } else { millis(5) };
        let tick = millis(100);
        let timeout = tick * 10;
        let client = ClientPlan { asked: timeout, timeout, contenders: 1, home: None };
        let mut plan = Plan::draw(suite, seed);
        plan.coordination.members = 2;
        plan.coordination.adds_one = false;
        plan.coordination.once = 0.5;
        plan.coordination.promoted_after = Some(1);
        plan.coordination.compares = 0.0;
        Plan {
            seed,
            servers: vec![ServerPlan::plain(tick); 3],
            tick,
            sync_limit: 5,
            lag: Duration::ZERO,
            expiry_pass: Duration::ZERO,
            flush_lag_max: Duration::ZERO,
            reap_interval: tick * 60,
            recipe,
            lock_path: "/lock",
            readers: 0.5,
            permits: Permits { most: 2, shared: false, ruled_every: millis(100), several: 0.5 },
            is_selector: false,
            clients: vec![client; 2],
            latency: Latency { typical: millis(1), tail: 0.0, longest: tick * 2, linger: 0.0 },
            handoffs,
            hold: Hold { typical: timeout / 5, tail: 0.0, longest: timeout },
            think,
            styles: Styles { acquire: 1, with_timeout: 0, one_try: 0, dropped: 0 },
            jitter: 0.0,
            requests_every: None,
            rules: Vec::new(),
            timed: Vec::new(),
            expire_after_create: 0.0,
            isolate: 0.0,
            quiet: 0.0,
            locks: true,
            sessions: false,
            ..plan
        }
    }
}

impl fmt::Display for SmallWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
