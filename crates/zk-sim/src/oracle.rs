//! The oracle: it sees the servers' truth and every guard, and judges after every event.
//!
//! | | invariant |
//! |---|---|
//! | I1 | no more valid guards than a lock allows: one, one writer or readers, so many permits |
//! | I2 | tokens grow in the order of grants; a valid holder's write is never refused |
//! | I3 | a valid guard's node is at the leader, owned by its session; lost is final, and told |
//! | I4 | first come, first served; of permits, up to the limit |
//! | I5 | no orphan: every lock node belongs to a live attempt, a dead session or a clean-up |
//! | I6 | liveness: once all is well everybody is served |
//! | I7 | every request ends once, and what it says of the outcome is true |
//! | I8 | reconnects are bounded |
//! | I9 | a session never sees time go back |
//! | I10 | the same seed takes the same course (held by running some of them twice) |
//! | I11 | a watch tells of every change, in order, and before the state that shows it |
//! | I12 | a shared value is set upon what was read, and upon nothing else |
//! | I13 | who is asked to give a lock up is told, and nobody else is |
//! | I14 | several locks are given up in the reverse of the order in which they were taken |
//! | I15 | a guard is invalid soon after an operator has deleted its node |
//! | I16 | the leader expires no session earlier than the servers' rules allow |

mod claims;
mod deletions;
mod permits;
mod shared;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use zk_testing::server::{Commit, Effect, Tree};

pub(crate) use self::claims::{Claim, Share};
pub(crate) use self::deletions::Orphan;
pub(crate) use self::permits::LIMIT_PATH;
pub(crate) use self::shared::{COUNT_PATH, VALUE_PATH};

use self::claims::{Tokens, conflict};
use self::deletions::Deletions;
use self::permits::Limits;
use self::shared::Shared;
use crate::bound::Bounds;
use crate::clock::now;
use crate::history::{History, ROOT, is_at_or_below};
use crate::trace::Trace;
use crate::workload::holding::Holding;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: I1 to I16, or `panic`.
    pub invariant: &'static str,
    /// What was seen.
    pub text: String,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    lock_prefix: String,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
    /// Wakes who waits for the target, or for a violation.
    pub(crate) news: Arc<Notify>,
    pub(crate) handoffs: u64,
    pub(crate) target: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    guards: Vec<Held>,
    /// Attempts that go on, by number, with who makes them.
    attempts: BTreeMap<u64, String>,
    /// Those that may have more nodes than one, and how many.
    nodes_max: BTreeMap<u64, usize>,
    /// The lock nodes at the leader.
    nodes: BTreeMap<String, LockNode>,
    /// Sessions ended by force, and when: their clients cannot know.
    forced: BTreeMap<i64, Instant>,
    /// Sessions that have ended at the leader.
    dead: BTreeSet<i64>,
    /// Nodes that an operator has deleted, or may have.
    operated: BTreeSet<String>,
    deletions: Deletions,
    /// How early sessions may expire.
    pub(crate) bounds: Bounds,
    /// Sessions whose last lock node is new, for a fault that waits for that.
    pub(crate) fresh_owners: VecDeque<i64>,
    /// Wakes that fault.
    pub(crate) fresh: Arc<Notify>,
    requests: BTreeMap<String, Made>,
    /// By lock.
    tokens: BTreeMap<String, Tokens>,
    limits: Limits,
    shared: Shared,
    /// Lock nodes that somebody was asked to give up.
    asked_for: BTreeSet<String>,
    /// Lock nodes of attempts with several, in the order in which they were deleted.
    deleted: BTreeMap<u64, Vec<String>>,
    /// Of the nodes that sessions work on.
    pub(crate) history: History,
    /// Requests that sessions have made, and after how many a run without locks is over.
    pub(crate) asked: u64,
    asked_target: Option<u64>,
    connects: BTreeMap<usize, VecDeque<Instant>>,
}

#[derive(Debug)]
struct Held {
    guard: Weak<dyn Holding>,
    attempt: u64,
    claims: Vec<Claim>,
    session: i64,
    timeout: Duration,
    lost: bool,
}

#[derive(Debug)]
struct LockNode {
    czxid: i64,
    owner: i64,
    /// 0 for the nodes whose data are not up to their makers.
    attempt: u64,
    /// Its place among its siblings, as all clients read it.
    number: u32,
}

/// What is known of a node that a request beside the locks makes.
#[derive(Debug, Default)]
struct Made {
    times: u32,
    denied: bool,
}

/// Reconnects in [`CONNECTS_WINDOW`], at most: a back-off that doubles up to a second, drawn below
/// its step, starts over only after a second of good service.
const CONNECTS_MAX: usize = 60;
const CONNECTS_WINDOW: Duration = Duration::from_secs(10);

/// The owner of a node that is a container.
const CONTAINER: i64 = i64::MIN;

/// What is in a node that somebody is asked to give up.
const REVOKE: &[u8] = b"__REVOKE__";

/// What the names of writers' nodes hold.
const WRITER: &str = "__WRIT__";

impl Oracle {
    pub(crate) fn new(lock_path: &str, target: u64, asked_target: Option<u64>) -> Self {
        Self {
            lock_prefix: format!("{lock_path}/"),
            trace: Trace::new(now()),
            violation: None,
            news: Arc::default(),
            handoffs: 0,
            target,
            faults: BTreeMap::new(),
            guards: Vec::new(),
            attempts: BTreeMap::new(),
            nodes_max: BTreeMap::new(),
            nodes: BTreeMap::new(),
            forced: BTreeMap::new(),
            dead: BTreeSet::new(),
            operated: BTreeSet::new(),
            deletions: Deletions::default(),
            bounds: Bounds::default(),
            fresh_owners: VecDeque::new(),
            fresh: Arc::default(),
            requests: BTreeMap::new(),
            tokens: BTreeMap::new(),
            limits: Limits::default(),
            shared: Shared::default(),
            asked_for: BTreeSet::new(),
            deleted: BTreeMap::new(),
            history: History::default(),
            asked: 0,
            asked_target,
            connects: BTreeMap::new(),
        }
    }

    pub(crate) fn log(&mut self, what: fmt::Arguments<'_>) {
        self.trace.line(now(), what);
    }

    /// Only the first counts: what follows may follow from it.
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

    /// The leader has applied a transaction.
    pub(crate) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) {
        let session = commit.session_id;
        self.history.reached(commit.zxid);
        match commit.effect {
            Effect::SessionCreated => self.log(format_args!("session {session:#x} begins")),
            Effect::SessionClosed => {
                self.log(format_args!("session {session:#x} ends at the leader"));
                if !self.forced.contains_key(&session) {
                    let in_time = self.bounds.ends(session, now());
                    self.must("I16", in_time);
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
                    self.log(format_args!("deleted {path} by {session:#x}"));
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
        self.check();
    }

    /// What recipes keep in nodes other than a lock's own, or write into those.
    fn put_shared(&mut self, tree: &Tree, path: &str, zxid: i64) {
        let Some(data) = tree.node(path).map(|node| node.data().unwrap_or_default()) else {
            return;
        };
        match path {
            LIMIT_PATH => {
                self.log(format_args!("the limit is {data:?} from {zxid:#x} on"));
                self.limits.set(zxid, data);
            }
            COUNT_PATH | VALUE_PATH => {
                self.log(format_args!("put {path} {data:?} at {zxid:#x}"));
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

    /// A node that sessions work on has new data.
    fn put(&mut self, tree: &Tree, path: &str, commit: Commit<'_>) {
        let Some(node) = tree.node(path).filter(|_| is_at_or_below(path, ROOT)) else { return };
        let Commit { zxid, session_id: session, .. } = commit;
        let (data, owner) = (node.data().unwrap_or_default(), node.stat().ephemeral_owner);
        let text = String::from_utf8_lossy(data);
        self.log(format_args!("put {path} #{text} by {session:#x} at {zxid:#x}"));
        if self.dead.contains(&session) {
            let text = format!("{path} was written by {session:#x}, which had ended");
            self.violated("I7", text);
        }
        let put = self.history.put(path, zxid, data, owner);
        self.must("I7", put);
        if owner != 0 && node.stat().czxid == zxid {
            self.fresh_owners.push_back(owner);
            self.fresh.notify_one();
        }
    }

    pub(crate) fn must(&mut self, invariant: &'static str, result: Result<(), String>) {
        if let Err(text) = result {
            self.violated(invariant, text);
        }
    }

    /// A session makes a request.
    pub(crate) fn asked(&mut self) {
        self.asked += 1;
        if self.asked_target == Some(self.asked) {
            self.news.notify_one();
        }
    }

    fn created(&mut self, tree: &Tree, path: &str, zxid: i64) {
        if let Some(made) = self.requests.get_mut(path) {
            made.times += 1;
            if made.times > 1 || made.denied {
                let text = format!("{path}: created, though that was denied or had been done");
                self.violated("I7", text);
            }
        }
        let Some(node) = tree.node(path).filter(|_| path.starts_with(&self.lock_prefix)) else {
            return;
        };
        let owner = node.stat().ephemeral_owner;
        if owner == 0 || owner == CONTAINER {
            return;
        }
        let data = String::from_utf8_lossy(node.data().unwrap_or_default());
        let attempt = data.rsplit_once('#').and_then(|(_, it)| it.parse().ok()).unwrap_or(0);
        self.trace.line(now(), format_args!("created {path} by {owner:#x} for {data}, {zxid:#x}"));
        let twins = self.nodes.iter().filter(|(_, it)| it.attempt == attempt && it.owner == owner);
        let twins: Vec<&String> = twins.map(|(path, _)| path).collect();
        let max = self.nodes_max.get(&attempt).copied().unwrap_or(1);
        // One who has lost some of several makes all of them anew.
        let is_exempt = attempt == 0 || max > 1 && self.any_operated();
        if twins.len() >= max && !is_exempt {
            let text = format!("{data} has one node too many: {path}, beside {twins:?}");
            self.violated("I5", text);
        }
        self.nodes.insert(
            path.to_owned(),
            LockNode { czxid: zxid, owner, attempt, number: number(path) },
        );
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
    }

    /// An attempt may have that many nodes at a time.
    pub(crate) fn may_have(&mut self, attempt: u64, nodes: usize) {
        self.nodes_max.insert(attempt, nodes);
    }

    pub(crate) fn fix_limit(&mut self, limit: u32) {
        self.limits.fix(limit);
    }

    /// An acquisition has returned. The claims are in the order of the guard's tokens.
    pub(crate) fn granted<G: Holding>(
        &mut self,
        attempt: u64,
        guard: &Arc<G>,
        claims: Vec<Claim>,
        session: i64,
        timeout: Duration,
    ) {
        self.had();
        let tokens = guard.tokens();
        let nodes: Vec<&str> = claims.iter().map(|claim| claim.node.as_str()).collect();
        self.log(format_args!("granted #{attempt} {nodes:?}, tokens {tokens:?}"));
        let guard: Weak<G> = Arc::downgrade(guard);
        let held = Held { guard, attempt, claims, session, timeout, lost: false };
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
        self.guards.push(held);
        self.check();
    }

    /// One more of what a run is to bring about.
    pub(crate) fn had(&mut self) {
        self.handoffs += 1;
        if self.handoffs == self.target {
            self.news.notify_one();
        }
    }

    /// Looks at who was in the queue before one that has just been granted something.
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

    /// A holder that has just looked at its guard writes to the register of the lock.
    pub(crate) fn write(&mut self, attempt: u64, tokens: &[i64]) {
        let Some(held) = self.guards.iter().find(|held| held.attempt == attempt) else { return };
        let exempt = self.is_exempt(held);
        let claims = held.claims.iter().zip(tokens);
        let alone = claims.filter(|(claim, _)| claim.share == Share::Alone);
        let writes: Vec<(String, i64)> =
            alone.map(|(it, token)| (it.lock.clone(), *token)).collect();
        for (lock, token) in writes {
            let written = self.tokens.entry(lock).or_default().written(token);
            if let (Err(register), false) = (written, exempt) {
                let text = format!("#{attempt} holds token {token}, refused for {register}");
                self.violated("I2", text);
            }
        }
    }

    /// I1 and I3, of all guards there are.
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

    /// Whether there still is such a guard.
    fn check_one(&mut self, held: &mut Held) -> bool {
        let Some(guard) = held.guard.upgrade() else { return false };
        let (attempt, is_held) = (held.attempt, guard.is_held());
        if !is_held {
            if !held.lost {
                self.log(format_args!("lost #{attempt} {}", held.claims[0].node));
            }
            held.lost = true;
            return true;
        }
        if held.lost {
            self.violated("I3", format!("#{attempt} was lost and is held again"));
        }
        if self.is_exempt(held) {
            return true;
        }
        for Claim { node, .. } in &held.claims {
            let there = self.nodes.get(node).is_some_and(|it| it.owner == held.session);
            if !there {
                self.violated("I3", format!("#{attempt} is held, {node} is not there"));
            }
        }
        true
    }

    /// Somebody was told that its node is asked for.
    pub(crate) fn was_asked(&mut self, node: &str) {
        if !self.asked_for.contains(node) {
            self.violated("I13", format!("{node}: told to give it up, and nobody asked"));
        }
    }

    /// Somebody was told that there is no such node.
    pub(crate) fn is_gone(&mut self, node: &str) {
        if self.nodes.contains_key(node) {
            self.violated("I13", format!("{node} is there, and said not to be"));
        }
    }

    /// An attempt has given up these nodes, which it had taken in this order.
    pub(crate) fn gave_up(&mut self, attempt: u64, nodes: &[String]) {
        let mut deleted = self.deleted.remove(&attempt).unwrap_or_default();
        deleted.retain(|node| nodes.contains(node));
        // One that an operator has deleted went before its turn.
        let is_exempt = nodes.iter().any(|node| self.operated.contains(node));
        if deleted.len() == nodes.len() && !is_exempt && !deleted.iter().rev().eq(nodes) {
            self.violated("I14", format!("#{attempt} was given up in the order of {deleted:?}"));
        }
    }

    /// Judges what was said of the shared value.
    pub(crate) fn value_read(&mut self, zxid: i64, data: &[u8]) {
        let read = self.shared.read(zxid, data);
        self.must("I12", read);
    }

    pub(crate) fn value_swapped(&mut self, before: i64, zxid: i64, data: &[u8]) {
        let swapped = self.shared.swapped(before, zxid, data);
        self.must("I12", swapped);
    }

    pub(crate) fn value_not_set(&mut self, before: Option<i64>, data: &[u8]) {
        let not_set = self.shared.not_set(before, data);
        self.must("I12", not_set);
    }

    /// True if somebody did behind the client's back what the protocol gives it no way to know in
    /// time. A session that was ended by force is known to be over after its timeout, at most.
    fn is_exempt(&self, held: &Held) -> bool {
        held.claims.iter().any(|claim| self.operated.contains(&claim.node))
            || self.forced.get(&held.session).is_some_and(|at| now() < *at + held.timeout)
    }

    pub(crate) fn was_operated(&self, node: &str, session: i64) -> bool {
        self.operated.contains(node) || self.forced.contains_key(&session)
    }

    /// A lock node for an operator to delete.
    pub(crate) fn operate(&mut self, choice: usize) -> Option<String> {
        let path = self.nodes.keys().nth(choice % self.nodes.len().max(1))?.clone();
        self.operate_on(&path);
        Some(path)
    }

    pub(crate) fn any_operated(&self) -> bool {
        !self.operated.is_empty()
    }

    pub(crate) fn force(&mut self, session: i64) {
        self.forced.entry(session).or_insert_with(now);
    }

    /// A client says that its session was expired by the server.
    pub(crate) fn said_expired(&mut self, session: i64) {
        if !self.dead.contains(&session) {
            let text = format!("session {session:#x} is said to have expired, and is alive");
            self.violated("I7", text);
        }
    }

    pub(crate) fn request(&mut self, path: &str) {
        self.requests.insert(path.to_owned(), Made::default());
    }

    /// A request has ended; `applied` is what it says of itself, if it says anything.
    pub(crate) fn answered(&mut self, path: &str, applied: Option<bool>) {
        let Some(made) = self.requests.get_mut(path) else { return };
        made.denied |= applied == Some(false);
        let times = made.times;
        let wrong = match applied {
            Some(true) => times != 1,
            Some(false) => times != 0,
            None => false,
        };
        if wrong {
            let text = format!("{path}: applied {times} times, said to be {applied:?}");
            self.violated("I7", text);
        }
    }

    /// A client goes to a server.
    pub(crate) fn connects(&mut self, slot: usize) {
        let now = now();
        let times = self.connects.entry(slot).or_default();
        times.push_back(now);
        while times.front().is_some_and(|at| now - *at > CONNECTS_WINDOW) {
            times.pop_front();
        }
        let count = times.len();
        if count > CONNECTS_MAX {
            let text = format!("client {slot} connected {count} times in {CONNECTS_WINDOW:?}");
            self.violated("I8", text);
        }
    }

    /// A new client takes the place of an old one, and starts afresh.
    pub(crate) fn reborn(&mut self, slot: usize) {
        self.connects.remove(&slot);
    }

    pub(crate) fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Who still waits, or what is left, for a message.
    pub(crate) fn leftovers(&self) -> String {
        let nodes: Vec<&String> = self.nodes.keys().collect();
        let attempts: Vec<&String> = self.attempts.values().collect();
        format!("attempts {attempts:?}, nodes {nodes:?}")
    }
}

/// The number at the end of a node's name, which its place in the queue is.
fn number(path: &str) -> u32 {
    let digits = path.len().checked_sub(10).and_then(|at| path.get(at..));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
