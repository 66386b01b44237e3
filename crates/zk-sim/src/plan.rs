//! Plan of one seed. Everything is drawn per seed, and each seed switches many faults off (swarm
//! testing). A run in which every fault is frequent never reaches the states in which rare faults
//! matter.

use std::time::Duration;

use zk_session::LeaseAssumptions;
use zk_testing::server::{Action, Target};
use zk_testing::{Cut, ErrorCode, Op, Rng, Version};

use crate::coordination::CoordinationPlan;
use crate::recipe::Recipe;
use crate::servers::{ServerPlan, longest_flush_lag, longest_granted};
use crate::suite::Suite;

/// The plan of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) servers: Vec<ServerPlan>,
    /// The tick of most servers.
    pub(crate) tick: Duration,
    pub(crate) sync_limit: u32,
    pub(crate) version: Version,
    /// How far the last server lags behind, if there are several.
    pub(crate) lag: Duration,
    /// The longest pass of a leader over the sessions that expire at the same tick.
    pub(crate) expiry_pass: Duration,
    /// The longest delay of a follower's flush of its touches.
    pub(crate) flush_lag_max: Duration,
    pub(crate) reap_interval: Duration,
    pub(crate) recipe: Recipe,
    pub(crate) lock_path: &'static str,
    /// Probability that a contender for a read-write lock is a reader.
    pub(crate) readers: f64,
    pub(crate) permits: Permits,
    pub(crate) local_queue: LocalQueuePlan,
    /// Whether the nodes of an election are those of a mutex.
    pub(crate) is_selector: bool,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) latency: Latency,
    /// Hand-offs before the faults end.
    pub(crate) handoffs: u64,
    pub(crate) hold: Hold,
    pub(crate) think: Duration,
    pub(crate) styles: Styles,
    /// Probability that a task which is ready must wait for another poll.
    pub(crate) jitter: f64,
    /// The mean pause between a client's requests beside the lock; `None` for no such requests.
    pub(crate) requests_every: Option<Duration>,
    /// Faults of requests, with their probabilities.
    pub(crate) rules: Vec<(Target, Action, f64)>,
    /// All other faults, with their weights. One of them strikes every `timed_every`, on average.
    pub(crate) timed: Vec<(Timed, u64)>,
    pub(crate) timed_every: Duration,
    /// Probability that a session is expired right after it has created an ephemeral node.
    pub(crate) expire_after_create: f64,
    /// Probability that the server of a new holder is isolated. The lock is then held for longer
    /// than the session lasts.
    pub(crate) isolate: f64,
    /// Probability that a client sends nothing for most of its timeout before it acquires a lock,
    /// and while it holds one.
    pub(crate) quiet: f64,
    /// Whether clients contend for locks; `sessions` is whether they run the session workload.
    pub(crate) locks: bool,
    pub(crate) sessions: bool,
    pub(crate) session: SessionPlan,
    pub(crate) coordination: CoordinationPlan,
}

/// Parameters of the session workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionPlan {
    /// The mean pause between two bursts of requests.
    pub(crate) think: Duration,
    /// The most requests in one burst.
    pub(crate) burst: u64,
    /// Probability that a request has a time limit.
    pub(crate) within: f64,
    /// Probability that a client accepts read-only servers. It applies only to runs without locks.
    pub(crate) read_only: f64,
    /// Total number of requests. After them the faults end, or only the locks go on.
    pub(crate) requests: u64,
}

/// Weight of each recipe. The mutex, on which the others rest, gets almost half of the seeds.
const RECIPES: [(Recipe, usize); 7] = [
    (Recipe::Mutex, 9),
    (Recipe::RwLock, 3),
    (Recipe::Semaphore, 3),
    (Recipe::SemaphoreMutex, 1),
    (Recipe::MultiLock, 2),
    (Recipe::Shared, 1),
    (Recipe::Revocation, 1),
];

/// Probability that a mutex has a local queue.
const LOCAL_QUEUES: f64 = 0.25;

/// Probability that a mutex is the lock of an election.
const ELECTIONS: f64 = 0.2;

/// The permits of a semaphore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permits {
    /// The limit. A shared limit starts at this value and returns to it in the end.
    pub(crate) most: u32,
    /// Whether the limit is a shared count. It then changes every `ruled_every`, on average.
    pub(crate) shared: bool,
    pub(crate) ruled_every: Duration,
    /// Probability that a contender wants a random number of permits instead of one.
    pub(crate) several: f64,
}

/// Bounds of a local queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalQueuePlan {
    pub(crate) passes: u32,
    pub(crate) time: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    /// The session timeout that the client requests; `timeout` is the longest one that a server
    /// grants it.
    pub(crate) asked: Duration,
    pub(crate) timeout: Duration,
    pub(crate) contenders: usize,
    /// The only server that the client uses; `None` for all servers.
    pub(crate) home: Option<usize>,
}

/// One-way delay of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) typical: Duration,
    pub(crate) tail: f64,
    pub(crate) longest: Duration,
    /// Probability that bytes in flight arrive although their sender has closed the connection.
    pub(crate) linger: f64,
}

/// Time for which a lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) typical: Duration,
    pub(crate) tail: f64,
    pub(crate) longest: Duration,
}

/// Weights of the ways in which contenders acquire a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Styles {
    pub(crate) acquire: u64,
    pub(crate) with_timeout: u64,
    pub(crate) one_try: u64,
    pub(crate) dropped: u64,
}

/// A fault that strikes at a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    CutOne,
    CutAll,
    StallOne,
    StallServer,
    Expire,
    RefuseConnects,
    CloseConnects,
    RefuseAsAhead,
    CutFromLeader,
    IsolateLeader,
    Lag,
    FreezeView,
    ReadOnly,
    Reap,
    DeleteNode,
    FreezeClient,
    CrashClient,
    Elect,
    KillServer,
    FlushLag,
}

const TIMED: [Timed; 17] = [
    Timed::CutOne,
    Timed::CutAll,
    Timed::StallOne,
    Timed::StallServer,
    Timed::Expire,
    Timed::RefuseConnects,
    Timed::CloseConnects,
    Timed::RefuseAsAhead,
    Timed::CutFromLeader,
    Timed::IsolateLeader,
    Timed::Lag,
    Timed::FreezeView,
    Timed::ReadOnly,
    Timed::Reap,
    Timed::DeleteNode,
    Timed::FreezeClient,
    Timed::CrashClient,
];

/// Faults that were added later. A separate generator draws them, so that the rest of a seed's plan
/// is unchanged.
const TIMED_APART: [Timed; 3] = [Timed::Elect, Timed::KillServer, Timed::FlushLag];

const OPS: [Op; 9] = [
    Op::Create2,
    Op::Delete,
    Op::GetChildren2,
    Op::GetData,
    Op::Sync,
    Op::SetWatches,
    Op::Exists,
    Op::CreateContainer,
    Op::Multi,
];

/// Further requests of the recipes of `zk-coordination`.
const COORDINATION_OPS: [Op; 3] = [Op::SetData, Op::MultiRead, Op::AddWatch];

impl Plan {
    pub(crate) fn draw(suite: Suite, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let servers = rng.pick(&[1, 3, 3]);
        let tick = Duration::from_millis(rng.pick(&[50, 100, 200, 500, 1_000, 2_000]));
        let latency = Latency {
            typical: Duration::from_millis(rng.pick(&[0, 0, 1, 1, 2, 5, 20])),
            tail: rng.pick(&[0.0, 0.0, 0.01, 0.1]),
            longest: tick * 2,
            linger: rng.pick(&[0.0, 0.5, 1.0]),
        };
        let count = rng.between(1, 6);
        let mut clients: Vec<ClientPlan> = (0..count)
            .map(|_| ClientPlan {
                asked: tick * u32::try_from(rng.pick(&[2, 2, 3, 4, 8, 20])).unwrap_or(2),
                timeout: Duration::ZERO,
                contenders: usize::try_from(rng.between(1, 4)).unwrap_or(1),
                home: (servers > 1 && rng.chance(0.3)).then(|| rng.index(servers)),
            })
            .collect();
        // Mostly one of the two. A separate generator draws it, so that the other draws are
        // unchanged.
        let (locks, sessions) = match Rng::new(seed ^ 0x5e55_1075).below(16) {
            0..=11 => (true, false),
            12..=14 => (false, true),
            _ => (true, true),
        };
        let mut draw = Rng::new(seed ^ 0x7265_6369_7065);
        let recipe = if locks { recipe(&mut draw) } else { Recipe::Mutex };
        // Added later, so a separate generator draws it.
        let mut local = Rng::new(seed ^ 0x006c_6f63_616c);
        let recipe = match recipe {
            Recipe::Mutex if locks && local.chance(LOCAL_QUEUES) => Recipe::LocalQueue,
            other => other,
        };
        // Added later, too.
        let mut elections = Rng::new(seed ^ 0x656c_6563_7469_6f6e);
        let recipe = match recipe {
            Recipe::Mutex if locks && !sessions && elections.chance(ELECTIONS) => Recipe::Election,
            other => other,
        };
        let coordination = CoordinationPlan::draw(seed, clients.len());
        let (locks, sessions, recipe) = match suite {
            Suite::Locks => (locks, sessions, recipe),
            Suite::Coordination => (true, false, coordination.recipe),
        };
        if suite == Suite::Coordination {
            // A cache without a client that changes its tree would have nothing to do.
            clients.extend((clients.len() == 1).then(|| clients[0].clone()));
            clients.iter_mut().for_each(|client| client.contenders = 1);
        }
        if recipe == Recipe::LocalQueue {
            clients.iter_mut().for_each(|client| client.contenders += 2);
        }
        if recipe == Recipe::Election {
            clients.iter_mut().for_each(|client| client.contenders = 1);
        }
        if recipe == Recipe::MultiLock {
            // Each contender waits for a loss while it waits for the next lock. tokio wakes several
            // waiters of one client in an order that the seed does not decide.
            clients.iter_mut().for_each(|client| client.contenders = 1);
        }
        let asked: Vec<Duration> = clients.iter().map(|client| client.asked).collect();
        let own = ServerPlan::draw(seed, servers, tick, &asked);
        let flush_lag_max = longest_flush_lag(&own, &asked);
        for client in &mut clients {
            client.timeout = longest_granted(&own, client.asked);
        }
        let mut apart = Rng::new(seed ^ 0x0061_7061_7274);
        // Added later, so a separate generator draws it.
        let mut expiry = Rng::new(seed ^ 0x6578_7069_7279);
        let longest_timeout = clients.iter().map(|client| client.timeout).max().unwrap_or(tick);
        let hold = Hold {
            typical: Duration::from_millis(rng.pick(&[0, 0, 1, 5, 20])),
            tail: rng.pick(&[0.0, 0.02, 0.1, 0.3]),
            longest: longest_timeout * 3,
        };
        let mut plan = Self {
            seed,
            servers: own,
            tick,
            sync_limit: rng.pick(&[2, 5, 10, 30]),
            version: Rng::new(seed ^ 0x7665_7273).pick(&[Version::V3_8, Version::V3_9]),
            lag: rng.pick(&[Duration::ZERO, Duration::ZERO, tick / 8]),
            expiry_pass: longest_timeout * expiry.pick(&[0, 0, 1, 2, 4]) / 4,
            flush_lag_max,
            reap_interval: tick * rng.pick(&[1, 5, 60]),
            recipe,
            lock_path: rng.pick(&["/lock", "/locks/stock", "/a/b/c"]),
            readers: draw.pick(&[0.3, 0.7, 0.9]),
            permits: Permits {
                most: draw.pick(&[1, 2, 3, 5]),
                shared: draw.chance(0.5),
                ruled_every: Duration::from_millis(draw.pick(&[10, 100, 1_000])),
                several: draw.pick(&[0.0, 0.3, 0.8]),
            },
            local_queue: LocalQueuePlan {
                passes: local.pick(&[0, 1, 3, 30]),
                time: Duration::from_millis(local.pick(&[1, 10, 100, 10_000])),
            },
            is_selector: elections.chance(0.5),
            clients,
            latency,
            handoffs: rng.between(50, 400),
            hold,
            think: Duration::from_millis(rng.pick(&[0, 1, 10, 100, 1_000])),
            styles: Styles {
                acquire: 10,
                with_timeout: rng.pick(&[0, 1, 5]),
                one_try: rng.pick(&[0, 1, 5]),
                dropped: rng.pick(&[0, 1, 5]),
            },
            jitter: rng.pick(&[0.0, 0.05, 0.3]),
            requests_every: rng.pick(&[None, Some(20), Some(200)]).map(Duration::from_millis),
            rules: [
                rules(rng, tick, &OPS),
                match suite {
                    Suite::Locks => Vec::new(),
                    Suite::Coordination => {
                        rules(&mut Rng::new(seed ^ 0x636f_6f72_6f70), tick, &COORDINATION_OPS)
                    }
                },
            ]
            .concat(),
            timed: [timed(rng, &TIMED), timed(&mut apart, &TIMED_APART)].concat(),
            timed_every: Duration::from_millis(rng.pick(&[30, 100, 300, 1_000, 5_000, 60_000])),
            expire_after_create: rng.pick(&[0.0, 0.0, 0.005, 0.03]),
            isolate: rng.pick(&[0.0, 0.0, 0.02, 0.2]),
            quiet: apart.pick(&[0.0, 0.0, 0.05, 0.3]),
            locks,
            sessions,
            session: SessionPlan {
                think: Duration::from_millis(rng.pick(&[0, 1, 10, 100, 1_000])),
                burst: rng.pick(&[1, 3, 12]),
                within: rng.pick(&[0.0, 0.0, 0.05, 0.3]),
                read_only: rng.pick(&[0.0, 0.5, 1.0]),
                requests: rng.between(50, 300),
            },
            coordination,
        };
        // With slower replies, no chain of evidence lasts as long as a pass.
        if (0..plan.clients.len()).any(|slot| !plan.keeps_leases(slot)) {
            plan.expiry_pass = Duration::ZERO;
        }
        plan
    }

    /// Returns what all clients assume about the servers.
    pub(crate) fn lease_assumptions(&self) -> LeaseAssumptions {
        LeaseAssumptions::new().expiry_pass(self.expiry_pass.max(Duration::from_millis(1)))
    }

    /// Returns the longest timeout that any client is granted.
    pub(crate) fn longest_timeout(&self) -> Duration {
        self.clients.iter().map(|client| client.timeout).max().unwrap_or_default()
    }

    /// Returns true if replies arrive soon enough to keep a client's lease renewed without faults.
    /// A touch and the request that proves it take a round trip each, in addition to the flush
    /// bound of a third of the timeout. One message may be slow, and then takes the last third.
    pub(crate) fn keeps_leases(&self, slot: usize) -> bool {
        let Latency { typical, tail, longest, .. } = self.latency;
        let (round_trip, slow) =
            (typical * 2 + self.lag, if tail > 0.0 { longest } else { typical });
        let is_soon = |timeout: Duration| round_trip <= timeout / 6 && slow <= timeout / 3;
        self.shortest_timeout(slot).is_some_and(is_soon)
    }

    /// Returns the shortest timeout that a client may be granted; `None` for a client outside the
    /// plan.
    pub(crate) fn shortest_timeout(&self, slot: usize) -> Option<Duration> {
        let asked = self.clients.get(slot)?.asked;
        self.servers.iter().map(|server| server.granted(asked)).min()
    }

    /// Returns the shortest timeout that any client may be granted.
    pub(crate) fn shortest_of_all(&self) -> Duration {
        (0..self.clients.len())
            .filter_map(|slot| self.shortest_timeout(slot))
            .min()
            .unwrap_or_default()
    }

    /// Returns true if a server may take itself for the leader while another one leads. It then answers
    /// `sync` with an old state.
    pub(crate) fn replaces_leaders(&self) -> bool {
        let replaces = |timed: &Timed| {
            matches!(timed, Timed::IsolateLeader | Timed::Elect | Timed::KillServer)
        };
        self.isolate > 0.0 || self.timed.iter().any(|(timed, _)| replaces(timed))
    }

    /// Returns the time within which every waiter must be served after the faults have ended.
    pub(crate) fn time_limit(&self) -> Duration {
        let tick = self.servers.iter().map(|server| server.tick).max().unwrap_or(self.tick);
        self.longest_timeout() * 6 + tick * (self.sync_limit + 10) + Duration::from_secs(60)
    }

    /// Returns the time within which a candidate must lead after the faults have ended. A process may
    /// be frozen for three more timeouts, the session of the last leader may have to expire, and a
    /// manager may pause for ten seconds before it opens the next session.
    pub(crate) fn leaderless(&self) -> Duration {
        let tick = self.servers.iter().map(|server| server.tick).max().unwrap_or(self.tick);
        self.longest_timeout() * 4 + tick * (self.sync_limit + 4) + Duration::from_secs(15)
    }
}

/// Draws the faults that strike in a seed, with their weights.
fn timed(rng: &mut Rng, all: &[Timed]) -> Vec<(Timed, u64)> {
    let drawn =
        all.iter().flat_map(|timed| rng.chance(0.4).then(|| (*timed, rng.pick(&[1, 1, 3, 10]))));
    drawn.collect()
}

fn recipe(rng: &mut Rng) -> Recipe {
    let all: Vec<Recipe> =
        RECIPES.iter().flat_map(|(recipe, weight)| vec![*recipe; *weight]).collect();
    rng.pick(&all)
}

fn rules(rng: &mut Rng, tick: Duration, ops: &[Op]) -> Vec<(Target, Action, f64)> {
    let intensity = rng.pick(&[0.0, 0.001, 0.01, 0.03, 0.1]);
    if intensity == 0.0 {
        return Vec::new();
    }
    let mut rules = Vec::new();
    let targets = ops.iter().copied().map(Target::Op);
    for target in targets.chain([Target::Notification, Target::Connect]) {
        for _ in 0..rng.below(3) {
            let how = rng.pick(&[Cut::Fin, Cut::Fin, Cut::Rst, Cut::Silence]);
            // `usize::MAX` lets the whole message pass, and cuts the connection right after it.
            let after = rng.index(90);
            let after = if after < 60 { after } else { usize::MAX };
            let action = match rng.below(9) {
                0 | 1 => Action::ApplyThenDrop(how),
                2 => Action::DropBefore(how),
                3 => Action::CutReply { after, how },
                4 if target != Target::Notification => Action::CutRequest { after, how },
                5 => Action::Delay(rng.around(tick)),
                6 => Action::Split { len: 1 + rng.index(20) },
                // The request is lost while later ones are answered. Notifications are excluded,
                // because a lost event is never repeated.
                7 if matches!(target, Target::Op(_)) => Action::NeverAnswer,
                // The event is the last message from this server. The client may then reconnect to
                // a server that lags.
                _ if target == Target::Notification => Action::CutReply { after: usize::MAX, how },
                _ if matches!(
                    target,
                    Target::Op(Op::Create2 | Op::Delete | Op::Multi | Op::SetData)
                ) =>
                {
                    Action::Answer(ErrorCode::THROTTLED_OP)
                }
                _ => Action::Coalesce,
            };
            rules.push((target, action, intensity * rng.pick(&[0.3, 1.0, 3.0])));
        }
    }
    rules
}
