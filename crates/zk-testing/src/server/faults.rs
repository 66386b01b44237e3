//! Faults: which requests, notifications or connects something happens to, and what.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::{ErrorCode, OpCode};

use super::connection::ConnectionId;
use crate::limits::FAULT_RULES_MAX;

/// How a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It is closed in good order; the client reads the end of the stream.
    Fin,
    /// It is reset; the client's next read or write fails.
    Rst,
    /// It falls silent: nothing arrives any more, either way, and neither side is told.
    Silence,
}

/// What a fault happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Requests of one operation.
    Op(OpCode),
    /// Requests of any operation, pings too.
    AnyRequest,
    /// Connect requests.
    Connect,
    /// Watch notifications.
    Notification,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The request is carried out, the reply lost with the connection.
    ApplyThenDrop(Cut),
    /// The request is lost with the connection, and not carried out.
    DropBefore(Cut),
    /// The connection breaks after this many bytes of the reply or notification.
    CutReply {
        /// Bytes that still arrive, the four of the length included.
        after: usize,
        /// How it breaks.
        how: Cut,
    },
    /// The connection breaks after this many bytes of the request. It is carried out if that is
    /// all of them.
    CutRequest {
        /// Bytes that still arrive, the four of the length included.
        after: usize,
        /// How it breaks.
        how: Cut,
    },
    /// The reply or notification, and all behind it, arrives this much later.
    Delay(Duration),
    /// The reply or notification arrives in pieces of this many bytes.
    Split {
        /// Bytes of a piece; at least 1.
        len: usize,
    },
    /// The reply or notification waits for the next one, and arrives together with it.
    Coalesce,
    /// The request is not carried out, and answered with this error.
    Answer(ErrorCode),
    /// The request is not carried out, and never answered.
    NeverAnswer,
    /// The request is carried out and answered; then its session expires.
    ApplyThenExpire,
}

/// When a fault happens, and what it is.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it happens to.
    pub target: Target,
    /// What happens.
    pub action: Action,
    /// Only in this session.
    pub session: Option<i64>,
    /// Only on this connection.
    pub connection: Option<ConnectionId>,
    /// Only at this server.
    pub server: Option<usize>,
    /// How many matches pass unharmed first.
    pub skip: u64,
    /// How many matches it happens to; `None` is all of them.
    pub times: Option<u64>,
    /// With which probability, 0 to 1, it happens to a match.
    pub probability: f64,
}

impl Rule {
    /// A rule for the next match, wherever it is.
    #[must_use]
    pub fn new(target: Target, action: Action) -> Self {
        Self {
            target,
            action,
            session: None,
            connection: None,
            server: None,
            skip: 0,
            times: Some(1),
            probability: 1.0,
        }
    }
}

/// A rule in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// What might happen to something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    pub(crate) target: Target,
    pub(crate) session: Option<i64>,
    pub(crate) connection: ConnectionId,
    pub(crate) server: usize,
}

/// The rules in force, and the dice.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: BTreeMap<RuleId, Counted>,
    next_id: u64,
    random: u64,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    seen: u64,
    done: u64,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rules: BTreeMap::new(), next_id: 0, random: seed }
    }

    /// Puts a rule in force. Past the limit of rules the oldest gives way.
    pub(crate) fn add(&mut self, rule: Rule) -> RuleId {
        if self.rules.len() >= FAULT_RULES_MAX {
            self.rules.pop_first();
        }
        let id = RuleId(self.next_id);
        self.next_id += 1;
        self.rules.insert(id, Counted { rule, seen: 0, done: 0 });
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) {
        self.rules.remove(&id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// How often a rule has struck.
    pub(crate) fn done(&self, id: RuleId) -> u64 {
        self.rules.get(&id).map_or(0, |counted| counted.done)
    }

    /// What happens now, if anything: by the oldest rule that strikes.
    pub(crate) fn strike(&mut self, occasion: Occasion) -> Option<Action> {
        if self.rules.is_empty() {
            return None;
        }
        let random = &mut self.random;
        self.rules.values_mut().find_map(|counted| counted.strike(occasion, random))
    }
}

impl Counted {
    fn strike(&mut self, occasion: Occasion, random: &mut u64) -> Option<Action> {
        let rule = &self.rule;
        if !rule.matches(occasion) || rule.times.is_some_and(|times| self.done >= times) {
            return None;
        }
        self.seen += 1;
        if self.seen <= rule.skip || (rule.probability < 1.0 && draw(random) >= rule.probability) {
            return None;
        }
        self.done += 1;
        Some(rule.action)
    }
}

impl Rule {
    fn matches(&self, occasion: Occasion) -> bool {
        let on_target = match (self.target, occasion.target) {
            (Target::AnyRequest, Target::Op(_)) => true,
            (wanted, met) => wanted == met,
        };
        on_target
            && self.session.is_none_or(|session| occasion.session == Some(session))
            && self.connection.is_none_or(|connection| occasion.connection == connection)
            && self.server.is_none_or(|server| occasion.server == server)
    }
}

/// A number from 0 to 1, without 1: `SplitMix64`.
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // 32 bits are plenty, and exact in a float.
    let bits = u32::try_from(z >> 32).unwrap_or(u32::MAX);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
