//! What one seed is about. Everything is drawn per seed, and much is switched off per seed (swarm
//! testing): a run in which every fault is frequent never gets to where rare ones hurt.

use std::time::Duration;

use zk_testing::server::{Action, Target};
use zk_testing::{Cut, ErrorCode, Op};

use crate::rng::Rng;
use crate::servers::{ServerPlan, longest_flush_lag, longest_granted};

/// The plan of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) servers: Vec<ServerPlan>,
    /// The tick of most servers.
    pub(crate) tick: Duration,
    pub(crate) sync_limit: u32,
    /// How far the last server is behind, if it is not the only one.
    pub(crate) lag: Duration,
    /// How late a follower may flush its touches.
    pub(crate) flush_lag_max: Duration,
    pub(crate) reap_interval: Duration,
    pub(crate) recipe: Recipe,
    pub(crate) lock_path: &'static str,
    /// Probability that one who wants a read-write lock is a reader.
    pub(crate) readers: f64,
    pub(crate) permits: Permits,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) latency: Latency,
    /// Hand-offs before the faults end.
    pub(crate) handoffs: u64,
    pub(crate) hold: Hold,
    pub(crate) think: Duration,
    pub(crate) styles: Styles,
    /// How often a task that could go on has to wait for another turn.
    pub(crate) jitter: f64,
    /// The mean pause between a client's requests beside the lock; `None` is none.
    pub(crate) requests_every: Option<Duration>,
    /// Faults of requests, with their probability.
    pub(crate) rules: Vec<(Target, Action, f64)>,
    /// Faults of everything else, with their weight, one of them every so often.
    pub(crate) timed: Vec<(Timed, u64)>,
    pub(crate) timed_every: Duration,
    /// Probability that a session is ended right after it has made a lock node.
    pub(crate) expire_after_create: f64,
    /// Probability that the server of a new holder is taken away, and that the lock is held for
    /// longer than the session lasts then.
    pub(crate) isolate: f64,
    /// Probability that a client is quiet for most of its timeout before it asks for a lock, and
    /// while it holds one.
    pub(crate) quiet: f64,
    /// Whether clients contend for locks, and whether they work on sessions otherwise.
    pub(crate) locks: bool,
    pub(crate) sessions: bool,
    pub(crate) session: SessionPlan,
}

/// What sessions do beside locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionPlan {
    /// The mean pause between two bursts of requests.
    pub(crate) think: Duration,
    /// Requests in one go, at most.
    pub(crate) burst: u64,
    /// Probability that a request has a time limit of its own.
    pub(crate) within: f64,
    /// Probability that a client takes read-only servers; without locks only.
    pub(crate) read_only: f64,
    /// All requests: then the faults end, or there are only locks left.
    pub(crate) requests: u64,
}

/// What all of a seed contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    RwLock,
    Semaphore,
    SemaphoreMutex,
    MultiLock,
    Shared,
    Revocation,
}

/// How often each recipe is drawn: what they all rest on in almost half of the seeds.
const RECIPES: [(Recipe, usize); 7] = [
    (Recipe::Mutex, 9),
    (Recipe::RwLock, 3),
    (Recipe::Semaphore, 3),
    (Recipe::SemaphoreMutex, 1),
    (Recipe::MultiLock, 2),
    (Recipe::Shared, 1),
    (Recipe::Revocation, 1),
];

/// The permits of a semaphore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permits {
    /// The limit, or what it is seeded with and comes back to.
    pub(crate) most: u32,
    /// Whether it is a shared count, and changes in the mean that often.
    pub(crate) shared: bool,
    pub(crate) ruled_every: Duration,
    /// Probability that somebody wants any number of them, and not one.
    pub(crate) several: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    /// What it asks for, and what it is granted at most.
    pub(crate) asked: Duration,
    pub(crate) timeout: Duration,
    pub(crate) contenders: usize,
    /// The only server it knows, or all of them.
    pub(crate) home: Option<usize>,
}

/// How long bytes take in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) typical: Duration,
    pub(crate) tail: f64,
    pub(crate) longest: Duration,
    /// Probability that bytes on their way arrive although their sender has hung up.
    pub(crate) linger: f64,
}

/// How long a lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) typical: Duration,
    pub(crate) tail: f64,
    pub(crate) longest: Duration,
}

/// Weights of what contenders do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Styles {
    pub(crate) acquire: u64,
    pub(crate) with_timeout: u64,
    pub(crate) one_try: u64,
    pub(crate) dropped: u64,
}

/// A fault that strikes at some time.
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

/// Those that came later, which are drawn apart: the rest of a seed's plan stays what it was.
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

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
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
        // Mostly either, by a draw apart, which changes nothing about the rest.
        let (locks, sessions) = match Rng::new(seed ^ 0x5e55_1075).below(16) {
            0..=11 => (true, false),
            12..=14 => (false, true),
            _ => (true, true),
        };
        let mut draw = Rng::new(seed ^ 0x7265_6369_7065);
        let recipe = if locks { recipe(&mut draw) } else { Recipe::Mutex };
        if recipe == Recipe::MultiLock {
            // Each waits for a loss while it waits for the next lock, and tokio wakes several of
            // one client in an order of its own.
            clients.iter_mut().for_each(|client| client.contenders = 1);
        }
        let asked: Vec<Duration> = clients.iter().map(|client| client.asked).collect();
        let own = ServerPlan::draw(seed, servers, tick, &asked);
        let flush_lag_max = longest_flush_lag(&own, &asked);
        for client in &mut clients {
            client.timeout = longest_granted(&own, client.asked);
        }
        let mut apart = Rng::new(seed ^ 0x0061_7061_7274);
        let longest_timeout = clients.iter().map(|client| client.timeout).max().unwrap_or(tick);
        let hold = Hold {
            typical: Duration::from_millis(rng.pick(&[0, 0, 1, 5, 20])),
            tail: rng.pick(&[0.0, 0.02, 0.1, 0.3]),
            longest: longest_timeout * 3,
        };
        Self {
            seed,
            servers: own,
            tick,
            sync_limit: rng.pick(&[2, 5, 10, 30]),
            lag: rng.pick(&[Duration::ZERO, Duration::ZERO, tick / 8]),
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
            rules: rules(rng, tick),
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
        }
    }

    /// The longest timeout that anybody is granted.
    pub(crate) fn longest_timeout(&self) -> Duration {
        self.clients.iter().map(|client| client.timeout).max().unwrap_or_default()
    }

    /// True if answers come soon enough to keep a client's lease renewed once all is well: a touch and
    /// the request that proves it take a round trip each, beside the flush bound of a third.
    pub(crate) fn keeps_leases(&self, slot: usize) -> bool {
        let round_trip = self.latency.typical * 2 + self.lag;
        self.shortest_timeout(slot).is_some_and(|timeout| round_trip <= timeout / 6)
    }

    /// The shortest timeout that a client may be granted; `None` is that of an outsider.
    pub(crate) fn shortest_timeout(&self, slot: usize) -> Option<Duration> {
        let asked = self.clients.get(slot)?.asked;
        self.servers.iter().map(|server| server.granted(asked)).min()
    }

    /// By when everybody who waits must have been served once all is well.
    pub(crate) fn patience(&self) -> Duration {
        let tick = self.servers.iter().map(|server| server.tick).max().unwrap_or(self.tick);
        self.longest_timeout() * 6 + tick * (self.sync_limit + 10) + Duration::from_secs(60)
    }
}

/// Those of the faults that strike in a seed, with their weight.
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

fn rules(rng: &mut Rng, tick: Duration) -> Vec<(Target, Action, f64)> {
    let intensity = rng.pick(&[0.0, 0.001, 0.01, 0.03, 0.1]);
    if intensity == 0.0 {
        return Vec::new();
    }
    let mut rules = Vec::new();
    let targets = OPS.into_iter().map(Target::Op);
    for target in targets.chain([Target::Notification, Target::Connect]) {
        for _ in 0..rng.below(3) {
            let how = rng.pick(&[Cut::Fin, Cut::Fin, Cut::Rst, Cut::Silence]);
            // Or all of it: the client has heard everything, and is cut off right behind.
            let after = rng.index(90);
            let after = if after < 60 { after } else { usize::MAX };
            let action = match rng.below(9) {
                0 | 1 => Action::ApplyThenDrop(how),
                2 => Action::DropBefore(how),
                3 => Action::CutReply { after, how },
                4 => Action::CutRequest { after, how },
                5 => Action::Delay(rng.around(tick)),
                6 => Action::Split { len: 1 + rng.index(20) },
                // Lost on the way, while others go on. An event that is lost so is lost.
                7 if matches!(target, Target::Op(_)) => Action::NeverAnswer,
                // The last that is heard of a server, before another one is met that lags.
                _ if target == Target::Notification => Action::CutReply { after: usize::MAX, how },
                _ if matches!(target, Target::Op(Op::Create2 | Op::Delete | Op::Multi)) => {
                    Action::Answer(ErrorCode::THROTTLED_OP)
                }
                _ => Action::Coalesce,
            };
            rules.push((target, action, intensity * rng.pick(&[0.3, 1.0, 3.0])));
        }
    }
    rules
}
