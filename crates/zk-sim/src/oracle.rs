//! The oracle: it sees the servers' truth and every guard, and judges after every event.
//!
//! | | invariant |
//! |---|---|
//! | I1 | at most one valid guard of a path |
//! | I2 | tokens grow in the order of grants; a valid holder's write is never refused |
//! | I3 | a valid guard's node is at the leader, owned by its session; lost is final, and told |
//! | I4 | first come, first served |
//! | I5 | no orphan: every lock node belongs to a live attempt, a dead session or a clean-up |
//! | I6 | liveness: once all is well everybody is served |
//! | I7 | every request ends once, and what it says of the outcome is true |
//! | I8 | reconnects are bounded |
//! | I9 | a session never sees time go back |
//! | I10 | the same seed takes the same course (held by running some of them twice) |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use zk_recipes::Guard;
use zk_testing::server::{Commit, Effect, Tree};

use crate::clock::now;
use crate::trace::Trace;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: I1 to I10, or `panic`.
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
    guards: BTreeMap<u64, Held>,
    /// Attempts that go on, by number, with who makes them.
    attempts: BTreeMap<u64, String>,
    /// The lock nodes at the leader.
    nodes: BTreeMap<String, LockNode>,
    /// Sessions ended by force, and when: their clients cannot know.
    forced: BTreeMap<i64, Instant>,
    /// Sessions that have ended at the leader.
    dead: BTreeSet<i64>,
    /// Nodes that an operator has deleted, or may have.
    operated: BTreeSet<String>,
    /// Sessions whose last lock node is new, for a fault that waits for that.
    pub(crate) fresh_owners: VecDeque<i64>,
    /// Wakes that fault.
    pub(crate) fresh: Arc<Notify>,
    requests: BTreeMap<String, Made>,
    register: i64,
    last_token: i64,
    connects: BTreeMap<usize, VecDeque<Instant>>,
}

#[derive(Debug)]
struct Held {
    guard: Weak<Guard>,
    node: String,
    session: i64,
    timeout: Duration,
    lost: bool,
}

#[derive(Debug)]
struct LockNode {
    czxid: i64,
    owner: i64,
    attempt: u64,
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

impl Oracle {
    pub(crate) fn new(lock_path: &str, target: u64) -> Self {
        Self {
            lock_prefix: format!("{lock_path}/"),
            trace: Trace::new(now()),
            violation: None,
            news: Arc::default(),
            handoffs: 0,
            target,
            faults: BTreeMap::new(),
            guards: BTreeMap::new(),
            attempts: BTreeMap::new(),
            nodes: BTreeMap::new(),
            forced: BTreeMap::new(),
            dead: BTreeSet::new(),
            operated: BTreeSet::new(),
            fresh_owners: VecDeque::new(),
            fresh: Arc::default(),
            requests: BTreeMap::new(),
            register: 0,
            last_token: 0,
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
        match commit.effect {
            Effect::SessionCreated => self.log(format_args!("session {session:#x} begins")),
            Effect::SessionClosed => {
                self.log(format_args!("session {session:#x} ends at the leader"));
                self.dead.insert(session);
                self.nodes.retain(|_, node| node.owner != session);
            }
            Effect::Created(path) => self.created(tree, path, commit.zxid),
            Effect::Deleted(path) if self.nodes.remove(path).is_some() => {
                self.log(format_args!("deleted {path} by {session:#x}"));
            }
            _ => {}
        }
        self.check();
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
        let data = String::from_utf8_lossy(node.data().unwrap_or_default());
        let attempt = data.rsplit_once('#').and_then(|(_, it)| it.parse().ok()).unwrap_or(0);
        self.trace.line(now(), format_args!("created {path} by {owner:#x} for {data}, {zxid:#x}"));
        let twin = self.nodes.iter().find(|(_, it)| it.attempt == attempt && it.owner == owner);
        if let Some((twin, _)) = twin {
            let text = format!("{data} has two nodes, {twin} and {path}");
            self.violated("I5", text);
        }
        self.nodes.insert(path.to_owned(), LockNode { czxid: zxid, owner, attempt });
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

    /// An acquisition has returned.
    pub(crate) fn granted(
        &mut self,
        attempt: u64,
        guard: &Arc<Guard>,
        session: i64,
        timeout: Duration,
    ) {
        let node = guard.node().to_owned();
        let token = guard.token().map(|token| token.get());
        self.handoffs += 1;
        if self.handoffs == self.target {
            self.news.notify_one();
        }
        self.log(format_args!("granted #{attempt} {node}, token {token:?}"));
        let held = Held { guard: Arc::downgrade(guard), node, session, timeout, lost: false };
        if let Ok(token) = token
            && !self.is_exempt(&held)
        {
            if token <= self.last_token {
                let text = format!("#{attempt} got token {token} after {}", self.last_token);
                self.violated("I2", text);
            }
            self.last_token = token;
            let czxid = self.nodes.get(&held.node).map(|node| node.czxid);
            let ahead = self.nodes.iter().find(|(_, node)| Some(node.czxid) < czxid);
            if let Some((ahead, _)) = ahead {
                let text = format!("#{attempt} was granted with {ahead} before it in the queue");
                self.violated("I4", text);
            }
        }
        self.guards.insert(attempt, held);
        self.check();
    }

    /// A holder that has just looked at its guard writes to the register.
    pub(crate) fn write(&mut self, attempt: u64, token: i64) {
        let exempt = self.guards.get(&attempt).is_none_or(|held| self.is_exempt(held));
        if token < self.register && !exempt {
            let text = format!("#{attempt} holds token {token}, refused for {}", self.register);
            self.violated("I2", text);
        }
        self.register = self.register.max(token);
    }

    /// I1 and I3, of all guards there are.
    pub(crate) fn check(&mut self) {
        let mut guards = std::mem::take(&mut self.guards);
        let mut valid: Option<u64> = None;
        guards.retain(|attempt, held| {
            let Some(guard) = held.guard.upgrade() else { return false };
            let is_held = guard.is_held();
            if !is_held {
                if !held.lost {
                    self.log(format_args!("lost #{attempt} {}", held.node));
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
            let there = self.nodes.get(&held.node).is_some_and(|it| it.owner == held.session);
            if !there {
                let text = format!("#{attempt} is held, {} is not there", held.node);
                self.violated("I3", text);
            }
            if let Some(other) = valid.replace(*attempt) {
                self.violated("I1", format!("#{other} and #{attempt} are both held"));
            }
            true
        });
        self.guards = guards;
    }

    /// True if somebody did behind the client's back what the protocol gives it no way to know in
    /// time. A session that was ended by force is known to be over after its timeout, at most.
    fn is_exempt(&self, held: &Held) -> bool {
        self.operated.contains(&held.node)
            || self.forced.get(&held.session).is_some_and(|at| now() < *at + held.timeout)
    }

    pub(crate) fn was_operated(&self, node: &str, session: i64) -> bool {
        self.operated.contains(node) || self.forced.contains_key(&session)
    }

    /// A lock node for an operator to delete.
    pub(crate) fn operate(&mut self, choice: usize) -> Option<String> {
        let path = self.nodes.keys().nth(choice % self.nodes.len().max(1))?.clone();
        self.operated.insert(path.clone());
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
