//! The oracle: it sees the servers' true state and every guard, and checks the invariants after every
//! event.
//!
//! | | invariant |
//! |---|---|
//! | I1 | no more valid guards than the lock allows: one holder; one writer or readers; all permits |
//! | I2 | tokens grow in the order of grants; a valid holder's write is never rejected |
//! | I3 | a valid guard's node is at the leader, owned by its session; a loss is final and reported |
//! | I4 | grants are first come, first served; permits, up to the limit; passes, within the bounds |
//! | I5 | no orphan: every lock node belongs to a live attempt, a dead session or a clean-up |
//! | I6 | liveness: after all faults have ended, every waiter is served |
//! | I7 | every request ends once, and the outcome it reports is true |
//! | I8 | reconnects are bounded |
//! | I9 | a session never reads a state older than one it has seen |
//! | I10 | the same seed takes the same course (checked by running some seeds twice) |
//! | I11 | a watch reports every change, in order, and before the reply that shows it |
//! | I12 | a compare-and-set of a shared value applies only to the version that was read |
//! | I13 | the holder that is asked to release a lock is notified, and no other holder |
//! | I14 | several locks are released in the reverse order of their acquisition |
//! | I15 | a guard becomes invalid soon after an operator has deleted its node |
//! | I16 | the leader expires no session earlier than the servers' rules allow |
//! | I17 | a candidate of an election leads soon after all faults have ended |
//! | I18 | an addition to a counter counts as it is reported, and once for each id |
//! | I19 | a member's node belongs to its process, has its data, and has no gap that it could avoid |
//! | I20 | a cache reports states that existed, in order, and becomes equal to the leader's tree |
//! | I21 | the members of a double barrier enter together and leave together |
//! | I22 | a wait for a barrier ends only if the barrier was not set at some moment of it |
//! | I23 | a guard stays valid for the time that it has promised to remain so |
//! | I24 | operations are linearizable, and plain reads never behind their client's own past |
//! | I25 | each event is a step of the printed model, docs/model.md |

mod barriers;
mod caches;
mod claims;
mod coordination;
mod counters;
mod deletions;
mod elections;
mod kept_nodes;
mod local_queues;
mod permits;
mod printed_model;
mod registrations;
mod shared;
mod single_barrier;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use zk_coordination::session::limits::BACKOFF_STEP;
use zk_coordination::session::{Outcome, SessionEnd, SessionId, Zxid};
use zk_recipes::LossReason;
use zk_testing::server::{Commit, Effect, Tree};

pub(crate) use self::barriers::{BARRIER_PATH, Call};
pub(crate) use self::caches::{HIDDEN, LEFT_OUT, Part, Replay, TREE_ROOT};
pub(crate) use self::claims::{Claim, Share};
pub(crate) use self::counters::{Added, Addition, COUNTER_PATH};
pub(crate) use self::deletions::Orphan;
pub(crate) use self::kept_nodes::{KEPT_PATH, SERVICE_PATH};
pub(crate) use self::permits::LIMIT_PATH;
pub(crate) use self::registrations::GROUP_PATH;
pub(crate) use self::shared::{COUNT_PATH, VALUE_PATH};
pub(crate) use self::single_barrier::SINGLE_BARRIER_PATH;

use self::barriers::Barriers;
use self::caches::Caches;
use self::claims::{Tokens, conflict};
use self::counters::Counters;
use self::deletions::Deletions;
use self::elections::Elections;
use self::kept_nodes::KeptNodes;
use self::local_queues::LocalQueues;
use self::permits::Limits;
use self::registrations::Registrations;
use self::shared::Shared;
use self::single_barrier::SingleBarrier;
use crate::clock::now;
use crate::earliest_expiry::EarliestExpiries;
use crate::ensure::ensure;
use crate::history::{History, ROOT, is_at_or_below};
use crate::holding::{Holding, Token};
use crate::model::{Lease, Lock};
use crate::trace::Trace;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant: I1 to I25, `panic` or `spin`.
    pub invariant: &'static str,
    /// Description of the observed violation.
    pub text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    lock_prefix: String,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
    /// Wakes the task that waits for the target or for a violation.
    pub(crate) news: Arc<Notify>,
    pub(crate) handoffs: u64,
    pub(crate) target: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    guards: Vec<Held>,
    /// Attempts in progress, by number, with their labels.
    attempts: BTreeMap<u64, String>,
    /// Attempts that may own more than one node, with their maximum.
    nodes_max: BTreeMap<u64, usize>,
    /// The lock nodes at the leader.
    nodes: BTreeMap<String, LockNode>,
    /// Sessions that a fault has expired, with the time. Their clients cannot notice at once.
    forced: BTreeMap<SessionId, Instant>,
    /// Sessions that have ended at the leader.
    dead: BTreeSet<SessionId>,
    /// Nodes that an operator has deleted, or may have deleted.
    operated: BTreeSet<String>,
    deletions: Deletions,
    /// The earliest expiry of each session.
    pub(crate) bounds: EarliestExpiries,
    /// The printed model of sessions, and that of the lock of a run with a mutex.
    pub(crate) lease: Lease,
    pub(crate) lock: Option<Lock>,
    /// Whether leaders need time for the sessions that expire at the same tick.
    pub(crate) has_slow_expiry: bool,
    /// Sessions that have just created a lock node or another ephemeral node, for the fault that
    /// expires them.
    pub(crate) fresh_owners: VecDeque<SessionId>,
    /// Wakes the fault that expires new owners.
    pub(crate) fresh: Arc<Notify>,
    requests: BTreeMap<String, Made>,
    /// Tokens by lock path.
    tokens: BTreeMap<String, Tokens>,
    pub(crate) limits: Limits,
    pub(crate) local_queues: LocalQueues,
    shared: Shared,
    elections: Elections,
    pub(crate) counters: Counters,
    pub(crate) registrations: Registrations,
    caches: Caches,
    pub(crate) barriers: Barriers,
    single_barrier: SingleBarrier,
    kept_nodes: KeptNodes,
    /// Lock nodes with a revocation request.
    asked_for: BTreeSet<String>,
    /// Lock nodes of attempts with several nodes, in the order of deletion.
    deleted: BTreeMap<u64, Vec<String>>,
    /// History of the nodes that sessions work on.
    pub(crate) history: History,
    /// Requests that sessions have made. A run without locks ends after `asked_target` requests.
    pub(crate) asked: u64,
    asked_target: Option<u64>,
    connects: BTreeMap<usize, VecDeque<Instant>>,
}

#[derive(Debug)]
struct Held {
    guard: Weak<dyn Holding>,
    attempt: u64,
    /// The czxid of its first node, unless it was lost before it was reported.
    node: Option<i64>,
    claims: Vec<Claim>,
    session: SessionId,
    timeout: Duration,
    lost: bool,
    /// The end of the longest time for which the guard has promised to stay valid.
    promised: Instant,
}

#[derive(Debug)]
struct LockNode {
    czxid: Zxid,
    owner: SessionId,
    /// The attempt that created the node; 0 if the attempt does not choose the node's data.
    attempt: u64,
    /// The number at the end of the node's name, by which all clients order siblings.
    number: u32,
}

/// State of a node that a request beside the locks creates.
#[derive(Debug, Default)]
struct Made {
    times: u32,
    denied: bool,
}

/// Maximum number of reconnects in [`CONNECTS_WINDOW`]: one in each of the shortest pauses.
///
/// A pause is half of [`BACKOFF_STEP`] or longer, also with a session timeout of 200 ms and little left
/// of a lease. The attempt after a connection that was up for a second has none.
const CONNECTS_MAX: u128 = CONNECTS_WINDOW.as_millis() / (BACKOFF_STEP.as_millis() / 2);
const CONNECTS_WINDOW: Duration = Duration::from_secs(10);

/// The ephemeral owner of a container node.
const CONTAINER: SessionId = SessionId(i64::MIN);

/// Data of a lock node whose holder is asked to release the lock (Curator's revocation).
const REVOKE: &[u8] = b"__REVOKE__";

/// Marker in the names of writers' nodes.
const WRITER: &str = "__WRIT__";

impl Oracle {
    pub(crate) fn new(lock_path: &str, target: u64, asked_target: Option<u64>) -> Self {
        let lock_prefix = format!("{lock_path}/");
        Self { lock_prefix, target, asked_target, ..Self::default() }
    }

    pub(crate) fn log(&mut self, what: fmt::Arguments<'_>) {
        self.trace.line(now(), what);
    }

    /// Records a violation. Only the first one is kept, because later ones may be its consequences.
    pub(crate) fn violated(&mut self, invariant: &'static str, text: String) {
        self.log(format_args!("VIOLATION of {invariant}: {text}"));
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, text });
            self.news.notify_one();
        }
    }

    pub(crate) fn fault(&mut self, kind: &'static str, what: fmt::Arguments<'_>) {
        *self.faults.entry(kind).or_default() += 1;
        self.log(format_args!("fault {kind} {what}"));
        self.check();
    }

    /// Records a transaction that the leader has applied.
    pub(crate) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) {
        let session = commit.session_id;
        self.history.reached(commit.zxid);
        match commit.effect {
            Effect::SessionCreated => self.log(format_args!("session {session} begins")),
            Effect::SessionClosed => {
                self.log(format_args!("session {session} ends at the leader"));
                // Nothing that a client sends saves a session whose bucket was taken.
                if !self.forced.contains_key(&session) && !self.has_slow_expiry {
                    self.must("I16", self.bounds.ends(session, now()));
                }
                self.dead.insert(session);
                self.nodes.retain(|_, node| node.owner != session);
                self.history.session_ended(session, commit.zxid);
            }
            Effect::Created(path) => {
                self.created(tree, path, commit.zxid);
                self.put_shared(tree, path, commit.zxid);
                self.put(tree, path, commit);
            }
            Effect::Changed(path) => {
                self.put_shared(tree, path, commit.zxid);
                self.put(tree, path, commit);
            }
            Effect::Deleted(path) => {
                if let Some(node) = self.nodes.remove(path) {
                    self.log(format_args!("deleted {path} by {session}"));
                    self.lock_node_deleted(path, node.owner);
                    if self.nodes_max.contains_key(&node.attempt) {
                        self.deleted.entry(node.attempt).or_default().push(path.to_owned());
                    }
                }
                let deleted = self.history.deleted(path, commit.zxid, session);
                self.must("I7", deleted);
            }
            _ => {}
        }
        self.lock_steps(tree, &commit);
        self.committed_beside_locks(tree, commit);
        self.check();
    }

    /// Records new data of the limit, the shared count or the shared value, and revocation
    /// requests.
    fn put_shared(&mut self, tree: &Tree, path: &str, zxid: Zxid) {
        let Some(node) = tree.node(path) else { return };
        let data = node.data().unwrap_or_default();
        match path {
            LIMIT_PATH => {
                self.log(format_args!("the limit is {data:?} from {zxid} on"));
                self.limits.set(zxid, data);
            }
            COUNT_PATH | VALUE_PATH => {
                self.log(format_args!("put {path} {data:?} at {zxid}"));
                let put = self.shared.put(path, zxid, data);
                self.must("I12", put);
            }
            _ if data == REVOKE && self.nodes.contains_key(path) => {
                self.log(format_args!("{path} is asked for"));
                self.asked_for.insert(path.to_owned());
            }
            _ => {}
        }
    }

    /// Records new data of a node that sessions work on.
    fn put(&mut self, tree: &Tree, path: &str, commit: Commit<'_>) {
        if !is_at_or_below(path, ROOT) {
            return;
        }
        let Some(node) = tree.node(path) else { return };
        let Commit { zxid, session_id: session, .. } = commit;
        let (data, owner) = (node.data().unwrap_or_default(), node.stat().ephemeral_owner);
        let text = String::from_utf8_lossy(data);
        self.log(format_args!("put {path} #{text} by {session} at {zxid}"));
        if self.dead.contains(&session) {
            let text = format!("{path} was written by {session}, which had ended");
            self.violated("I7", text);
        }
        let put = self.history.put(path, zxid, data, owner);
        self.must("I7", put);
        if owner != SessionId::NONE && node.stat().czxid == zxid {
            self.fresh_owners.push_back(owner);
            self.fresh.notify_one();
        }
    }

    pub(crate) fn must(&mut self, invariant: &'static str, result: Result<(), String>) {
        if let Err(text) = result {
            self.violated(invariant, text);
        }
    }

    /// Records a request of a session.
    pub(crate) fn asked(&mut self) {
        self.asked += 1;
        if self.asked_target == Some(self.asked) {
            self.news.notify_one();
        }
    }

    fn created(&mut self, tree: &Tree, path: &str, zxid: Zxid) {
        if let Some(made) = self.requests.get_mut(path) {
            made.times += 1;
            if made.times > 1 || made.denied {
                let text = format!("{path}: created, though that was denied or had been done");
                self.violated("I7", text);
            }
        }
        let Some(node) = tree.node(path) else { return };
        let owner = node.stat().ephemeral_owner;
        let is_ephemeral = owner != SessionId::NONE && owner != CONTAINER;
        if !is_ephemeral || !path.starts_with(&self.lock_prefix) {
            return;
        }
        let data = String::from_utf8_lossy(node.data().unwrap_or_default());
        let attempt = data.rsplit_once('#').and_then(|(_, id)| id.parse().ok()).unwrap_or(0);
        self.trace.line(now(), format_args!("created {path} by {owner} for {data}, {zxid}"));
        let twins =
            self.nodes.iter().filter(|(_, twin)| twin.attempt == attempt && twin.owner == owner);
        let twins: Vec<&String> = twins.map(|(path, _)| path).collect();
        let max = self.nodes_max.get(&attempt).copied().unwrap_or(1);
        // An attempt that loses one of several nodes creates all of them again.
        let is_exempt = attempt == 0 || max > 1 && self.any_operated();
        if twins.len() >= max && !is_exempt {
            let text = format!("{data} has one node too many: {path}, beside {twins:?}");
            self.violated("I5", text);
        }
        let node = LockNode { czxid: zxid, owner, attempt, number: number(path) };
        self.lock_node_joins(path, &node);
        self.nodes.insert(path.to_owned(), node);
        self.fresh_owners.push_back(owner);
        self.fresh.notify_one();
    }

    pub(crate) fn attempt_begins(&mut self, attempt: u64, who: String) {
        self.log(format_args!("{who} begins"));
        self.attempts.insert(attempt, who);
    }

    pub(crate) fn attempt_is_over(&mut self, attempt: u64) {
        if let Some(who) = self.attempts.remove(&attempt) {
            self.log(format_args!("{who} is over"));
        }
        self.local_queues.leaves(attempt);
    }

    /// Allows an attempt to own `nodes` nodes at a time.
    pub(crate) fn may_have(&mut self, attempt: u64, nodes: usize) {
        self.nodes_max.insert(attempt, nodes);
    }

    /// Records that a holder is about to release its nodes.
    pub(crate) fn gives_up(&mut self, attempt: u64, style: u64, nodes: &[String]) {
        self.log(format_args!("#{attempt} gives up, style {style}"));
        for node in nodes {
            self.local_queues.releases(node, now());
        }
    }

    /// Checks a guard that a local queue may have passed on.
    pub(crate) fn granted_locally(&mut self, attempt: u64, node: &str, token: Option<Token>) {
        // The guard is checked in the same poll, so it cannot have been lost since.
        let granted = match token {
            Some(token) => self.local_queues.granted(attempt, node, token, now()),
            None => Err(format!("#{attempt} was passed {node}, which was lost")),
        };
        self.must("I4", granted);
    }

    /// Records a granted acquisition. The claims are in the order of the guard's tokens.
    pub(crate) fn granted<G: Holding>(
        &mut self,
        attempt: u64,
        guard: &Arc<G>,
        claims: Vec<Claim>,
        session: SessionId,
        timeout: Duration,
    ) {
        self.had();
        let tokens = guard.tokens();
        let nodes: Vec<&str> = claims.iter().map(|claim| claim.node.as_str()).collect();
        self.log(format_args!("granted #{attempt} {nodes:?}, tokens {tokens:?}"));
        let guard: Weak<G> = Arc::downgrade(guard);
        let (lost, promised) = (false, now());
        let node = tokens.as_ref().ok().and_then(|tokens| tokens.first()).map(|token| token.0);
        let held = Held { guard, attempt, node, claims, session, timeout, lost, promised };
        if let Some(token) = node {
            self.lock_is_granted(&held, token);
        }
        if let Ok(tokens) = tokens
            && !self.is_exempt(&held)
        {
            for (claim, token) in held.claims.iter().zip(tokens) {
                let tokens = self.tokens.entry(claim.lock.clone()).or_default();
                let granted = tokens.granted(attempt, claim.share, token);
                self.must("I2", granted);
                let in_turn = self.in_turn(attempt, claim);
                self.must("I4", in_turn);
            }
        }
        self.judge_if_orphaned(&held);
        self.candidate_leads();
        self.guards.push(held);
        self.check();
    }

    /// Counts one hand-off towards the target of the run.
    pub(crate) fn had(&mut self) {
        self.handoffs += 1;
        if self.handoffs == self.target {
            self.news.notify_one();
        }
    }

    /// Checks that no node in front of a newly granted claim blocks it.
    fn in_turn(&self, attempt: u64, claim: &Claim) -> Result<(), String> {
        let Some(own) = self.nodes.get(&claim.node) else { return Ok(()) };
        let parent = |path: &str| path.rfind('/').unwrap_or(0);
        let folder = &claim.node[..=parent(&claim.node)];
        let mut ahead = self.nodes.iter().filter(|(path, node)| {
            let is_sibling = path.starts_with(folder) && parent(path) + 1 == folder.len();
            is_sibling && (node.number, node.czxid) < (own.number, own.czxid)
        });
        let in_the_way = match claim.share {
            Share::Permit => return self.limits.granted(ahead.count() + 1, own.czxid),
            Share::Alone => ahead.find(|(_, node)| node.attempt != attempt),
            Share::Read => {
                ahead.find(|(path, node)| path.contains(WRITER) && node.attempt != attempt)
            }
        };
        match in_the_way {
            None => Ok(()),
            Some((path, _)) => Err(format!("#{attempt} was granted with {path} in its way")),
        }
    }

    /// Records a write by a holder that has just checked its guard. The write goes to the lock's
    /// register.
    pub(crate) fn write(&mut self, attempt: u64, tokens: &[Token]) {
        let Some(held) = self.guards.iter().find(|held| held.attempt == attempt) else { return };
        let exempt = self.is_exempt(held);
        let claims = held.claims.iter().zip(tokens);
        let alone = claims.filter(|(claim, _)| claim.share == Share::Alone);
        let writes: Vec<(String, Token)> =
            alone.map(|(claim, token)| (claim.lock.clone(), *token)).collect();
        for (lock, token) in writes {
            let written = self.tokens.entry(lock).or_default().written(token);
            if let (Err(register), false) = (written, exempt) {
                let text = format!("#{attempt} holds token {token:?}, refused for {register:?}");
                self.violated("I2", text);
            }
        }
    }

    /// Checks I1 and I3 for all guards.
    pub(crate) fn check(&mut self) {
        let mut guards = std::mem::take(&mut self.guards);
        guards.retain_mut(|held| self.check_one(held));
        let valid = guards.iter().filter(|held| !held.lost && !self.is_exempt(held));
        let valid: Vec<(u64, &Claim)> =
            valid.flat_map(|held| held.claims.iter().map(|claim| (held.attempt, claim))).collect();
        let conflict = conflict(&valid);
        let czxid_of = |node: &str| self.nodes.get(node).map(|node| node.czxid);
        let permits = self.limits.check(&valid, czxid_of);
        self.must("I1", conflict.map_or(Ok(()), Err).and(permits));
        self.guards = guards;
    }

    /// Checks I3 for one guard. Returns false if the guard has been dropped.
    fn check_one(&mut self, held: &mut Held) -> bool {
        let Some(guard) = held.guard.upgrade() else { return false };
        let (attempt, is_held) = (held.attempt, guard.is_held());
        if !is_held {
            if !held.lost {
                self.log(format_args!("lost #{attempt} {}", held.claims[0].node));
                if now() < held.promised && !self.is_exempt(held) && !was_ended(&*guard) {
                    let early = held.promised - now();
                    self.violated("I23", format!("#{attempt} was lost {early:?} too early"));
                }
            }
            held.lost = true;
            self.lock_is_lost(held);
            return true;
        }
        self.guard_is_used(held, guard.remaining());
        if held.lost {
            self.violated("I3", format!("#{attempt} was lost and is held again"));
        }
        if self.is_exempt(held) {
            return true;
        }
        let promised = now() + guard.remaining();
        if promised < held.promised {
            let back = held.promised - promised;
            self.violated("I23", format!("#{attempt} takes back {back:?} of a promise"));
        }
        held.promised = promised;
        for Claim { node, .. } in &held.claims {
            let there = self.nodes.get(node).is_some_and(|node| node.owner == held.session);
            if !there {
                self.violated("I3", format!("#{attempt} is held, {node} is not there"));
            }
        }
        true
    }

    /// Checks a revocation notice to a holder: some client must have requested the revocation (I13).
    pub(crate) fn was_asked(&mut self, node: &str) {
        if !self.asked_for.contains(node) {
            self.violated("I13", format!("{node}: told to give it up, and nobody asked"));
        }
    }

    /// Checks a reply that a node does not exist: the leader must not have the node (I13).
    pub(crate) fn is_gone(&mut self, node: &str) {
        if self.nodes.contains_key(node) {
            self.violated("I13", format!("{node} is there, and said not to be"));
        }
    }

    /// Records the release of several nodes. `nodes` is in the order of acquisition (I14).
    pub(crate) fn gave_up(&mut self, attempt: u64, nodes: &[String]) {
        let mut deleted = self.deleted.remove(&attempt).unwrap_or_default();
        deleted.retain(|node| nodes.contains(node));
        // An operator may delete a node before its turn, so the order proves nothing.
        let is_exempt = nodes.iter().any(|node| self.operated.contains(node));
        if deleted.len() == nodes.len() && !is_exempt && !deleted.iter().rev().eq(nodes) {
            self.violated("I14", format!("#{attempt} was given up in the order of {deleted:?}"));
        }
    }

    /// Checks a value that was read, with its zxid, against the history of the shared value.
    pub(crate) fn value_read(&mut self, zxid: Zxid, data: &[u8]) {
        self.must("I12", self.shared.read(zxid, data));
    }

    pub(crate) fn value_swapped(&mut self, before: Zxid, zxid: Zxid, data: &[u8]) {
        self.must("I12", self.shared.swapped(before, zxid, data));
    }

    pub(crate) fn value_not_set(&mut self, before: Option<Zxid>, data: &[u8]) {
        self.must("I12", self.shared.not_set(before, data));
    }

    /// Returns true if an operator or a fault changed something that the protocol cannot report to
    /// the client in time. A client notices a forced expiry after its session timeout, at the
    /// latest.
    fn is_exempt(&self, held: &Held) -> bool {
        held.claims.iter().any(|claim| self.operated.contains(&claim.node))
            || self.forced.get(&held.session).is_some_and(|at| now() < *at + held.timeout)
    }

    pub(crate) fn was_operated(&self, node: &str, session: SessionId) -> bool {
        self.operated.contains(node) || self.forced.contains_key(&session)
    }

    pub(crate) fn any_operated(&self) -> bool {
        !self.operated.is_empty()
    }

    pub(crate) fn force(&mut self, session: SessionId) {
        self.forced.entry(session).or_insert_with(now);
    }

    /// Records a client's report that the server has expired its session.
    pub(crate) fn said_expired(&mut self, session: SessionId) {
        if !self.dead.contains(&session) {
            let text = format!("session {session} is said to have expired, and is alive");
            self.violated("I7", text);
        }
    }

    pub(crate) fn request(&mut self, path: &str) {
        self.requests.insert(path.to_owned(), Made::default());
    }

    /// Records the end of a request, with the outcome that it reports.
    pub(crate) fn answered(&mut self, path: &str, outcome: Outcome) {
        let Some(made) = self.requests.get_mut(path) else { return };
        made.denied |= outcome == Outcome::NotApplied;
        let times = made.times;
        let is_true = match outcome {
            Outcome::Applied => times == 1,
            Outcome::NotApplied => times == 0,
            Outcome::Unknown => true,
        };
        self.must(
            "I7",
            ensure(is_true, || format!("{path}: applied {times} times, said to be {outcome:?}")),
        );
    }

    /// Records a connection attempt of a client.
    pub(crate) fn connects(&mut self, slot: usize) {
        let now = now();
        let times = self.connects.entry(slot).or_default();
        times.push_back(now);
        while times.front().is_some_and(|at| now - *at > CONNECTS_WINDOW) {
            times.pop_front();
        }
        let count = times.len();
        if count as u128 > CONNECTS_MAX {
            let text = format!("client {slot} connected {count} times in {CONNECTS_WINDOW:?}");
            self.violated("I8", text);
        }
    }

    /// Records that a new client replaces the old one. Its connects count from zero.
    pub(crate) fn reborn(&mut self, slot: usize) {
        self.connects.remove(&slot);
    }
}

/// Returns true if the process itself has ended the hold or the session.
fn was_ended(guard: &dyn Holding) -> bool {
    matches!(
        guard.lost().now_or_never(),
        Some(LossReason::Released | LossReason::SessionEnded(SessionEnd::Closed))
    )
}

/// Returns the number at the end of a node's name, which is its position in the queue.
fn number(path: &str) -> u32 {
    let digits = path.len().checked_sub(10).and_then(|at| path.get(at..));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
