//! Fault rules: the requests, notifications or connects they affect, and their action.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::{ErrorCode, OpCode, SessionId};

use super::connection_id::ConnectionId;
use crate::limits::FAULT_RULES_MAX;
use crate::rng::Rng;

/// How a connection is cut: closed, reset, or silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// The connection is closed in good order; the client reads the end of the stream.
    Fin,
    /// The connection is reset; the client's next read or write fails.
    Rst,
    /// The connection transfers nothing more in either direction, and neither side is notified.
    Silence,
}

/// Target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Requests of one operation.
    Op(OpCode),
    /// Requests of any operation, pings included.
    AnyRequest,
    /// Connect requests.
    Connect,
    /// Watch notifications.
    Notification,
}

/// Action of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Applies the request, then breaks the connection without a reply.
    ApplyThenDrop(Cut),
    /// Breaks the connection without applying the request.
    DropBefore(Cut),
    /// Breaks the connection after this many bytes of the reply or notification.
    CutReply {
        /// Bytes that still arrive, including the four of the length.
        after: usize,
        /// How the connection breaks.
        how: Cut,
    },
    /// Breaks the connection after this many bytes of the request. The request is applied only if
    /// all its bytes pass.
    CutRequest {
        /// Bytes that still arrive, including the four of the length.
        after: usize,
        /// How the connection breaks.
        how: Cut,
    },
    /// Delays the reply or notification, and all bytes behind it, by this time. The reply to a
    /// connect is a reply like any other.
    Delay(Duration),
    /// Sends the reply or notification in pieces of this many bytes.
    Split {
        /// Length of a piece in bytes; at least 1.
        len: usize,
    },
    /// Holds the reply or notification until the next one and sends both together.
    Coalesce,
    /// Answers with this error without applying the request.
    Answer(ErrorCode),
    /// Drops the request without applying or answering it.
    NeverAnswer,
    /// Applies and answers the request, then expires its session.
    ApplyThenExpire,
}

impl Action {
    /// Returns whether the action has an effect on a target. Only a request can be answered with an
    /// error or end its session, and a notification has no request.
    fn fits(self, target: Target) -> bool {
        match self {
            Self::Answer(_) | Self::ApplyThenExpire => {
                !matches!(target, Target::Connect | Target::Notification)
            }
            Self::CutRequest { .. } => target != Target::Notification,
            _ => true,
        }
    }
}

/// Fault: its target, its action and its conditions.
// Closed: tests set the conditions of a rule in a struct expression.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Target of the fault.
    pub target: Target,
    /// Action of the fault.
    pub action: Action,
    /// Session to which the fault is limited.
    pub session: Option<SessionId>,
    /// Connection to which the fault is limited.
    pub connection: Option<ConnectionId>,
    /// Server to which the fault is limited.
    pub server: Option<usize>,
    /// Number of matches to skip first.
    pub skip: u64,
    /// Number of matches to affect; `None` affects all.
    pub times: Option<u64>,
    /// Probability, from 0 to 1, of affecting a match.
    pub probability: f64,
}

impl Rule {
    /// Creates a rule for the next match in any session, on any connection, at any server.
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

/// Id of a rule in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// Event that a rule may match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    pub(crate) target: Target,
    pub(crate) session: Option<SessionId>,
    pub(crate) connection: ConnectionId,
    pub(crate) server: usize,
}

/// Rules in force and the random numbers.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: BTreeMap<RuleId, Counted>,
    next_id: u64,
    rng: Rng,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    seen: u64,
    done: u64,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rules: BTreeMap::new(), next_id: 0, rng: Rng::new(seed) }
    }

    /// Adds a rule. Beyond the limit it replaces the oldest one.
    pub(crate) fn add(&mut self, rule: Rule) -> RuleId {
        let Rule { target, action, .. } = rule;
        assert!(action.fits(target), "a fault on {target:?} cannot have the action {action:?}");
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

    /// Returns how often a rule has taken effect.
    pub(crate) fn done(&self, id: RuleId) -> u64 {
        self.rules.get(&id).map_or(0, |counted| counted.done)
    }

    /// Returns the action of the oldest rule that takes effect on this event, if any.
    pub(crate) fn strike(&mut self, occasion: Occasion) -> Option<Action> {
        if self.rules.is_empty() {
            return None;
        }
        self.rules.values_mut().find_map(|counted| counted.strike(occasion, &mut self.rng))
    }
}

impl Counted {
    fn strike(&mut self, occasion: Occasion, rng: &mut Rng) -> Option<Action> {
        let rule = &self.rule;
        if !rule.matches(occasion) || rule.times.is_some_and(|times| self.done >= times) {
            return None;
        }
        self.seen += 1;
        if self.seen <= rule.skip || (rule.probability < 1.0 && rng.unit() >= rule.probability) {
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
