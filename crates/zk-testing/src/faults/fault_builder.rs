//! Faults on requests, notifications and connects.

use std::time::Duration;

use proto::{ErrorCode, OpCode, SessionId};

use crate::server::{Action, Cut, Rule, RuleId, Target};
use crate::transport::TestServer;

/// Builder of a fault. The fault takes effect with the last call, which selects the action.
///
/// A fault on requests has a target, an optional condition, and an action:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use zk_testing::{Cut, Op, SessionId, TestServer};
///
/// let server = TestServer::in_memory();
/// server.on(Op::Create).nth(2).apply_then_drop_reply();
/// server.on(Op::Delete).session(SessionId(0x123)).by(Cut::Rst).drop_before_applying();
/// server.next_reply_to(Op::Create2).cut_after(5, Cut::Fin);
/// let pings = server.on(Op::Ping).always().with_probability(0.1).drop_before_applying();
/// assert_eq!(pings.count(), 0);
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "say what is to happen, e.g. `apply_then_drop_reply()`"]
pub struct FaultBuilder {
    server: TestServer,
    rule: Rule,
    how: Cut,
}

/// Fault in force. Dropping the handle leaves the fault in force.
#[derive(Clone, Debug)]
pub struct Fault {
    server: TestServer,
    id: RuleId,
}

impl TestServer {
    /// Starts a fault on requests of one operation. By default it affects only the next request.
    pub fn on(&self, op: OpCode) -> FaultBuilder {
        self.fault_on(Target::Op(op))
    }

    /// Alias of [`on`](Self::on) that reads better before an action on the reply.
    pub fn next_reply_to(&self, op: OpCode) -> FaultBuilder {
        self.on(op)
    }

    /// Starts a fault on requests of any operation, pings included.
    pub fn on_any_request(&self) -> FaultBuilder {
        self.fault_on(Target::AnyRequest)
    }

    /// Starts a fault on connect requests.
    pub fn on_connect(&self) -> FaultBuilder {
        self.fault_on(Target::Connect)
    }

    /// Starts a fault on watch notifications.
    pub fn on_notification(&self) -> FaultBuilder {
        self.fault_on(Target::Notification)
    }

    /// Removes all faults that were added through a [`FaultBuilder`].
    pub fn clear_faults(&self) {
        self.with(|ensemble| ensemble.clear_rules());
    }

    fn fault_on(&self, target: Target) -> FaultBuilder {
        let rule = Rule::new(target, Action::NeverAnswer);
        FaultBuilder { server: self.clone(), rule, how: Cut::Fin }
    }
}

/// Conditions: when and where the fault takes effect.
impl FaultBuilder {
    /// Skips the first `count - 1` matches.
    pub fn nth(mut self, count: u64) -> Self {
        self.rule.skip = count.saturating_sub(1);
        self
    }

    /// Affects `count` matches instead of one.
    pub fn times(mut self, count: u64) -> Self {
        self.rule.times = Some(count);
        self
    }

    /// Affects every match.
    pub fn always(mut self) -> Self {
        self.rule.times = None;
        self
    }

    /// Affects a match with this probability, from 0 to 1. The random numbers come from the seed in
    /// the settings.
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.rule.probability = probability;
        self
    }

    /// Affects only this session.
    pub fn session(mut self, session_id: SessionId) -> Self {
        self.rule.session = Some(session_id);
        self
    }

    /// Affects only this connection.
    pub fn connection(mut self, id: crate::ConnectionId) -> Self {
        self.rule.connection = Some(id);
        self
    }

    /// Affects only this server, counted from 0.
    pub fn at_server(mut self, server: usize) -> Self {
        self.rule.server = Some(server);
        self
    }

    /// Sets how the connection breaks, if the action breaks it. The default is [`Cut::Fin`].
    pub fn by(mut self, how: Cut) -> Self {
        self.how = how;
        self
    }
}

/// Actions: the effect of the fault. Replies to connects and notifications can be delayed, split,
/// coalesced and cut like any other reply.
impl FaultBuilder {
    /// Applies the request, then breaks the connection without a reply.
    pub fn apply_then_drop_reply(self) -> Fault {
        let how = self.how;
        self.does(Action::ApplyThenDrop(how))
    }

    /// Breaks the connection without applying the request. For a notification: breaks the
    /// connection instead of sending it.
    pub fn drop_before_applying(self) -> Fault {
        let how = self.how;
        self.does(Action::DropBefore(how))
    }

    /// Breaks the connection after this many bytes of the reply, including the four of its length.
    pub fn cut_after(self, bytes: usize, how: Cut) -> Fault {
        self.does(Action::CutReply { after: bytes, how })
    }

    /// Breaks the connection after this many bytes of the request, including the four of its
    /// length. The request is applied only if all its bytes pass.
    ///
    /// # Panics
    ///
    /// Panics for a notification, which has no request.
    pub fn cut_request_after(self, bytes: usize, how: Cut) -> Fault {
        self.does(Action::CutRequest { after: bytes, how })
    }

    /// Delays the reply and all bytes behind it by `by`.
    pub fn delay(self, by: Duration) -> Fault {
        self.does(Action::Delay(by))
    }

    /// Sends the reply in pieces of `piece_len` bytes.
    pub fn split(self, piece_len: usize) -> Fault {
        self.does(Action::Split { len: piece_len })
    }

    /// Holds the reply until the next one and sends both together.
    pub fn coalesce(self) -> Fault {
        self.does(Action::Coalesce)
    }

    /// Answers with this error in the request's turn, without applying the request.
    ///
    /// # Panics
    ///
    /// Panics for a connect or a notification.
    pub fn answer(self, code: ErrorCode) -> Fault {
        self.does(Action::Answer(code))
    }

    /// Drops the request without applying or answering it. For a notification: never sends it.
    pub fn never_answer(self) -> Fault {
        self.does(Action::NeverAnswer)
    }

    /// Applies and answers the request, then expires its session.
    ///
    /// # Panics
    ///
    /// Panics for a connect or a notification.
    pub fn apply_then_expire_session(self) -> Fault {
        self.does(Action::ApplyThenExpire)
    }

    fn does(mut self, action: Action) -> Fault {
        self.rule.action = action;
        let rule = self.rule;
        let id = self.server.with(|ensemble| ensemble.add_rule(rule));
        Fault { server: self.server, id }
    }
}

impl Fault {
    /// Returns how often the fault has taken effect.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.server.with(|ensemble| ensemble.rule_count(self.id))
    }

    /// Removes the fault.
    pub fn cancel(self) {
        self.server.with(|ensemble| ensemble.remove_rule(self.id));
    }
}
