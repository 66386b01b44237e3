//! One contest: the lock's node, a gate in front of its queue, and the result.

use std::io;
use std::thread;
use std::time::Duration;

use xtask::zookeeper::Server;
use zk_benches::contest::{Clock, Hold, Job, Kind, Refusal};

use crate::contestant::{Answer, Contestant};
use crate::one_core::OneCore;
use crate::plan::{Measure, Scenario};
use crate::proxy::Proxy;
use crate::raw::{Create, Raw};
use crate::servers::Servers;
use crate::stream::Transport;
use crate::throughput::Rate;
use crate::traffic::Counted;
use crate::{herd, plan, roster, stats};

/// The servers for contests. Each contest gets a new path.
pub(crate) struct Arena {
    servers: Servers,
    /// The session timeout that every contestant gets.
    session_timeout: Duration,
    paths: usize,
}

/// Samples, named as in the table: `acquire` and `release`, `connect` and `close`, otherwise an empty
/// name.
type Named = (&'static str, Vec<u64>);

/// The result of one contest.
pub(crate) struct Outcome {
    pub(crate) samples: Vec<Named>,
    /// The duration of each hold.
    pub(crate) hold_times: Vec<u64>,
    pub(crate) traffic: Option<Counted>,
    pub(crate) rate: Rate,
}

/// The reason why a contest has no result.
pub(crate) enum Loss {
    /// The contestant can continue with the next contest.
    Skipped(String),
    /// The contestant process cannot be used again.
    Broken(String),
    /// Two owners held the lock at a time, or the order of the queue was broken. No figure of the
    /// run can be trusted.
    Violated(String),
}

impl Outcome {
    /// Returns the samples with the lower median, for each call.
    fn faster(self, other: Self) -> Self {
        let pairs = self.samples.into_iter().zip(other.samples);
        let faster = |(one, two): (Named, Named)| {
            if stats::median(&one.1) <= stats::median(&two.1) { one } else { two }
        };
        Self { samples: pairs.map(faster).collect(), ..self }
    }
}

impl Arena {
    pub(crate) fn open(servers: Servers, tick_ms: u32) -> Self {
        let session_timeout = Duration::from_millis(plan::TICKS_MAX * u64::from(tick_ms));
        Self { servers, session_timeout, paths: 0 }
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Runs one contest. An uncontended floor is the faster of two, for each call: one on all cores
    /// and one with the server on one core. [`crate::one_core`] has the reason.
    pub(crate) fn hold(
        &mut self,
        scenario: &Scenario,
        name: &str,
        contestant: &mut Contestant,
    ) -> Result<Outcome, Loss> {
        let outcome = self.contest(scenario, name, contestant)?;
        if name != roster::FLOOR || scenario.measure != Measure::Calls {
            return Ok(outcome);
        }
        let servers = self.servers.all().iter().filter_map(Server::pid);
        let processes = servers.chain([contestant.pid()]).collect();
        let _bound = OneCore::bind(processes).map_err(Loss::Skipped)?;
        Ok(outcome.faster(self.contest(scenario, name, contestant)?))
    }

    fn contest(
        &mut self,
        scenario: &Scenario,
        name: &str,
        contestant: &mut Contestant,
    ) -> Result<Outcome, Loss> {
        let mut scenario = scenario.clone();
        self.paths += 1;
        scenario.job.path = format!("/handoff-{}", self.paths);
        scenario.job.address = self.servers.connect_string();
        // Each contest opens a new session, because an idle one would expire between two contests.
        let mut bookkeeper =
            Raw::connect(&scenario.job.address, Transport::Plain).map_err(broken)?;
        bookkeeper.create(&scenario.job.path, Create::Persistent);
        bookkeeper.call().map_err(broken)?;
        let proxy = match scenario.measure {
            Measure::Handoff
            | Measure::Calls
            | Measure::Sessions
            | Measure::LongWait
            | Measure::Throughput => None,
            Measure::Reconnect | Measure::Traffic => {
                Some(Proxy::start(scenario.job.address.clone(), &scenario.job).map_err(broken)?)
            }
        };
        if let Some(proxy) = &proxy {
            proxy.address().clone_into(&mut scenario.job.address);
        }
        if name == roster::FLOOR {
            scenario.job.permits = 1;
        }
        if name == roster::LOCAL_QUEUE {
            scenario.job.holds *= LOCAL_HOLDS;
        }
        let holds = if scenario.has_gate() && name != roster::FLOOR {
            let gate = match name {
                roster::HERD => Gate::held(&scenario.job),
                // Each session has one node.
                roster::LOCAL_QUEUE => Gate::queued(&scenario.job, scenario.job.sessions),
                _ => Gate::queued(&scenario.job, scenario.job.waiters),
            };
            self.gated(&scenario, gate, &mut bookkeeper, contestant, proxy.as_ref())
        } else {
            contestant.tell(&scenario.job).map_err(refused)?;
            holds_of(contestant.answer(ANSWER_LIMIT), ANSWER_LIMIT)
        };
        let (holds, traffic) = holds?;
        judge(&scenario, name, holds, traffic, self.session_timeout)
    }

    /// Puts a gate node in front of the queue, and deletes it when all waiters are in the queue.
    fn gated(
        &self,
        scenario: &Scenario,
        gate: Gate,
        bookkeeper: &mut Raw,
        contestant: &mut Contestant,
        proxy: Option<&Proxy>,
    ) -> Result<(Vec<Hold>, Option<Counted>), Loss> {
        bookkeeper.create(&gate.path, gate.mode);
        let node = bookkeeper.call().and_then(|frame| frame.path()).map_err(broken)?;
        contestant.tell(&scenario.job).map_err(refused)?;
        let waiters = scenario.job.waiters;
        // Each waiter lists all nodes ahead of it, which makes a long queue slow to form.
        let looks_max = QUEUE_LOOKS_MAX + waiters;
        let mut looks = 0;
        while !self.is_full(&gate, bookkeeper, &scenario.job.path)? {
            match contestant.answer(QUEUE_LOOK) {
                Answer::Silence if looks < looks_max => looks += 1,
                Answer::Silence => {
                    return Err(Loss::Broken(format!("not all {waiters} waiters came to queue")));
                }
                Answer::Holds(_) => {
                    let reason = "NOT EXCLUSIVE: the lock was held behind the gate".to_owned();
                    return Err(Loss::Violated(reason));
                }
                failure => return holds_of(failure, ANSWER_LIMIT),
            }
        }
        lengthen(bookkeeper, scenario, &node).map_err(broken)?;
        // After its create, the last waiter still lists the nodes and sets its watch.
        pause(SETTLE + SETTLE_EACH * u32::try_from(waiters).unwrap_or(u32::MAX));
        if scenario.measure == Measure::LongWait {
            let start = Clock.now();
            while u128::from(Clock.now() - start) < self.session_timeout.as_nanos() {
                pause(bookkeeper.heartbeat());
                beat(bookkeeper)?;
            }
        }
        if let (Measure::Traffic, Some(proxy)) = (scenario.measure, proxy) {
            await_lists(proxy);
        }
        let before = proxy.map(Proxy::counts);
        bookkeeper.delete(&node);
        bookkeeper.call().map_err(broken)?;
        if let (Measure::Reconnect, Some(proxy)) = (scenario.measure, proxy) {
            pause(CUT_AFTER);
            proxy.cut();
        }
        let limit =
            ANSWER_LIMIT + EACH_LIMIT * u32::try_from(scenario.job.holds).unwrap_or(u32::MAX);
        let start = Clock.now();
        let (holds, _) = loop {
            match contestant.answer(bookkeeper.heartbeat()) {
                Answer::Silence if u128::from(Clock.now() - start) < limit.as_nanos() => {
                    beat(bookkeeper)?;
                }
                answer => break holds_of(answer, limit)?,
            }
        };
        let traffic = proxy
            .map(Proxy::counts)
            .zip(before)
            .map(|(contest, before)| Counted { contest, drain: contest.since(before) });
        Ok((holds, traffic))
    }

    fn is_full(&self, gate: &Gate, bookkeeper: &mut Raw, lock: &str) -> Result<bool, Loss> {
        if gate.mode == Create::EphemeralSequential {
            return Ok(bookkeeper.count_children(lock).map_err(broken)? > gate.waiters);
        }
        let failure = |error: xtask::zookeeper::Error| Loss::Broken(error.to_string());
        let mut watches = 0;
        for server in self.servers.all() {
            let said = server.four_letter("wchs").map_err(failure)?;
            let count = said.lines().find_map(|line| line.strip_prefix("Total watches:"));
            watches += count.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        }
        Ok(watches >= gate.waiters)
    }
}

/// Keeps the session of the gate and of the nodes behind the waiters.
fn beat(bookkeeper: &mut Raw) -> Result<(), Loss> {
    bookkeeper.ping();
    bookkeeper.answer().map(drop).map_err(broken)
}

/// Creates nodes behind the waiters, with names like those of the waiters and other ids.
fn lengthen(bookkeeper: &mut Raw, scenario: &Scenario, gate: &str) -> io::Result<()> {
    if scenario.behind == 0 {
        return Ok(());
    }
    bookkeeper.children(&scenario.job.path);
    let list = bookkeeper.call()?;
    let names = list.names()?;
    let mut names = names.iter().filter_map(|name| str::from_utf8(name).ok());
    let waiter = names.find(|name| !gate.ends_with(name));
    let prefix = waiter.and_then(|name| name.get(..name.len().checked_sub(SEQUENCE_LEN)?));
    let prefix = prefix.ok_or_else(|| io::Error::other("the lock has no waiter"))?;
    let path =
        format!("{}/{}", scenario.job.path, prefix.replace(|c: char| c.is_ascii_digit(), "7"));
    for _ in 0..scenario.behind {
        bookkeeper.create(&path, Create::EphemeralSequential);
    }
    for _ in 0..scenario.behind {
        bookkeeper.call()?;
    }
    Ok(())
}

/// Waits until the server has sent all lists. Of ten thousand waiters, that takes many seconds.
fn await_lists(proxy: &Proxy) {
    loop {
        let before = proxy.counts();
        pause(LISTS_PAUSE);
        if proxy.counts().since(before).bytes_received < LIST_BYTES {
            return;
        }
    }
}

/// The node that the bookkeeper holds while the waiters come.
struct Gate {
    path: String,
    mode: Create,
    /// The number of nodes behind it or, without a queue, of watches on it.
    waiters: usize,
}

impl Gate {
    /// The first node of a queue.
    fn queued(job: &Job, waiters: usize) -> Self {
        let path = format!("{}/_c_gate-lock-", job.path);
        Self { path, mode: Create::EphemeralSequential, waiters }
    }

    /// The only node of a lock without a queue. Each waiter has a watch on it.
    fn held(job: &Job) -> Self {
        Self { path: herd::node(&job.path), mode: Create::Ephemeral, waiters: job.waiters }
    }
}

fn judge(
    scenario: &Scenario,
    name: &str,
    holds: Vec<Hold>,
    traffic: Option<Counted>,
    session_timeout: Duration,
) -> Result<Outcome, Loss> {
    let job = &scenario.job;
    if holds.len() < job.holds {
        return Err(Loss::Broken(format!("{} of {} holds only", holds.len(), job.holds)));
    }
    let waited = |hold: &Hold| Duration::from_nanos(hold.owner - hold.call) > session_timeout;
    if scenario.measure == Measure::LongWait && !holds.iter().all(waited) {
        return Err(Loss::Broken("a wait was shorter than the session timeout".to_owned()));
    }
    let rate = Rate::of(&holds);
    let hold_times = stats::hold_times(&holds);
    let (acquires, releases) = (stats::acquires(&holds), stats::releases(&holds));
    // The floor of any lock is the floor of a hand-off.
    let mut judged = job.clone();
    if name == roster::FLOOR {
        judged.kind = Kind::Handoff;
    }
    // These do not keep an order of nodes. A semaphore of one permit excludes, and has no order.
    if [roster::HERD, roster::LOCAL_QUEUE].contains(&name) {
        judged.kind = Kind::Semaphore;
    }
    let handoffs = stats::handoffs(&judged, holds).map_err(Loss::Violated)?;
    let samples = match scenario.measure {
        Measure::Handoff | Measure::LongWait | Measure::Traffic | Measure::Throughput => {
            vec![("", handoffs)]
        }
        Measure::Calls => vec![("acquire", acquires), ("release", releases)],
        Measure::Sessions => vec![("connect", acquires), ("close", releases)],
        Measure::Reconnect => vec![("", handoffs.into_iter().max().into_iter().collect())],
    };
    if samples.iter().any(|(_, samples)| samples.is_empty()) {
        return Err(Loss::Skipped("no hand-off to measure".to_owned()));
    }
    Ok(Outcome { samples, hold_times, traffic, rate })
}

fn holds_of(answer: Answer, limit: Duration) -> Result<(Vec<Hold>, Option<Counted>), Loss> {
    match answer {
        Answer::Holds(holds) => Ok((holds, None)),
        Answer::Refused(refusal) => Err(refused(refusal)),
        Answer::Silence => Err(Loss::Broken(format!("nothing within {limit:?}"))),
        Answer::Gone(reason) => Err(Loss::Broken(reason)),
    }
}

fn refused(refusal: Refusal) -> Loss {
    match refusal {
        Refusal::None(reason) => Loss::Skipped(reason),
        Refusal::Failed(reason) => Loss::Broken(reason),
    }
}

fn broken(error: io::Error) -> Loss {
    Loss::Broken(error.to_string())
}

#[allow(clippy::disallowed_methods, reason = "there is nothing of another process to wait on")]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// The slowest contest of the slowest contestant takes a few seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);
/// With ten thousand waiters, kazoo takes that long.
const EACH_LIMIT: Duration = Duration::from_millis(300);
const QUEUE_LOOK: Duration = Duration::from_millis(5);
/// Looks for twenty seconds. Each waiter adds one look.
const QUEUE_LOOKS_MAX: usize = 4_000;
const SETTLE: Duration = Duration::from_millis(60);
const SETTLE_EACH: Duration = Duration::from_micros(200);
/// The digits at the end of a node's name.
const SEQUENCE_LEN: usize = 10;
/// A local queue makes so many more holds, so that each client has several turns.
const LOCAL_HOLDS: usize = 40;
/// Longer than the server takes for one list.
const LISTS_PAUSE: Duration = Duration::from_millis(500);
/// Less than a long list, and more than the answers to pings in one pause.
const LIST_BYTES: u64 = 10_000;
/// The cut falls within the contest, which takes longer than a millisecond for each of its holds.
const CUT_AFTER: Duration = Duration::from_millis(150);
