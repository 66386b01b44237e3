//! Faults on requests, notifications and connects.

use std::time::Duration;

use proto::{ErrorCode, OpCode};

use crate::server::{Action, Cut, Rule, RuleId, Target};
use crate::transport::TestServer;

/// A fault being described. Nothing happens until its last word says what.
#[derive(Clone, Debug)]
#[must_use = "say what is to happen, e.g. `apply_then_drop_reply()`"]
pub struct Sentence {
    server: TestServer,
    rule: Rule,
    how: Cut,
}

/// A fault in force. Dropping this leaves it so.
#[derive(Clone, Debug)]
pub struct Fault {
    server: TestServer,
    id: RuleId,
}

impl TestServer {
    /// A fault on requests of one operation: on the next one, unless more is said.
    pub fn on(&self, op: OpCode) -> Sentence {
        self.fault_on(Target::Op(op))
    }

    /// The same as [`on`](Self::on), for sentences about replies.
    pub fn next_reply_to(&self, op: OpCode) -> Sentence {
        self.on(op)
    }

    /// A fault on requests of any operation, pings too.
    pub fn on_any_request(&self) -> Sentence {
        self.fault_on(Target::AnyRequest)
    }

    /// A fault on connect requests.
    pub fn on_connect(&self) -> Sentence {
        self.fault_on(Target::Connect)
    }

    /// A fault on watch notifications.
    pub fn on_notification(&self) -> Sentence {
        self.fault_on(Target::Notification)
    }

    /// Takes every fault that was described with a sentence out of force.
    pub fn clear_faults(&self) {
        self.with(|ensemble| ensemble.clear_rules());
    }

    fn fault_on(&self, target: Target) -> Sentence {
        let rule = Rule::new(target, Action::NeverAnswer);
        Sentence { server: self.clone(), rule, how: Cut::Fin }
    }
}

/// When, and where.
impl Sentence {
    /// The first `count - 1` matches pass unharmed.
    pub fn nth(mut self, count: u64) -> Self {
        self.rule.skip = count.saturating_sub(1);
        self
    }

    /// It happens this many times, instead of once.
    pub fn times(mut self, count: u64) -> Self {
        self.rule.times = Some(count);
        self
    }

    /// It happens every time.
    pub fn always(mut self) -> Self {
        self.rule.times = None;
        self
    }

    /// It happens to a match with this probability, 0 to 1, drawn from the seed of the settings.
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.rule.probability = probability;
        self
    }

    /// Only in this session.
    pub fn session(mut self, session_id: i64) -> Self {
        self.rule.session = Some(session_id);
        self
    }

    /// Only on this connection.
    pub fn connection(mut self, id: crate::ConnectionId) -> Self {
        self.rule.connection = Some(id);
        self
    }

    /// Only at this server, counted from 0.
    pub fn at_server(mut self, server: usize) -> Self {
        self.rule.server = Some(server);
        self
    }

    /// How a connection breaks, if it does: [`Cut::Fin`] unless said otherwise.
    pub fn by(mut self, how: Cut) -> Self {
        self.how = how;
        self
    }
}

/// What happens.
impl Sentence {
    /// The request is carried out; its reply is lost with the connection.
    pub fn apply_then_drop_reply(self) -> Fault {
        let how = self.how;
        self.does(Action::ApplyThenDrop(how))
    }

    /// The request is lost with the connection, and not carried out. A notification is lost with
    /// it too.
    pub fn drop_before_applying(self) -> Fault {
        let how = self.how;
        self.does(Action::DropBefore(how))
    }

    /// The connection breaks after this many bytes of the reply, the four of its length included.
    pub fn cut_after(self, bytes: usize, how: Cut) -> Fault {
        self.does(Action::CutReply { after: bytes, how })
    }

    /// The connection breaks after this many bytes of the request, the four of its length
    /// included. If that is all of them it is carried out.
    pub fn cut_request_after(self, bytes: usize, how: Cut) -> Fault {
        self.does(Action::CutRequest { after: bytes, how })
    }

    /// The reply, and all behind it, arrives this much later.
    pub fn delay(self, by: Duration) -> Fault {
        self.does(Action::Delay(by))
    }

    /// The reply arrives in pieces of this many bytes.
    pub fn split(self, piece_len: usize) -> Fault {
        self.does(Action::Split { len: piece_len })
    }

    /// The reply waits for the next one, and arrives together with it.
    pub fn coalesce(self) -> Fault {
        self.does(Action::Coalesce)
    }

    /// The request is not carried out, and answered with this error.
    pub fn answer(self, code: ErrorCode) -> Fault {
        self.does(Action::Answer(code))
    }

    /// The request is not carried out, and never answered. A notification never arrives.
    pub fn never_answer(self) -> Fault {
        self.does(Action::NeverAnswer)
    }

    /// The request is carried out and answered; then its session expires.
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
    /// How often it has happened.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.server.with(|ensemble| ensemble.rule_count(self.id))
    }

    /// Takes it out of force.
    pub fn cancel(self) {
        self.server.with(|ensemble| ensemble.remove_rule(self.id));
    }
}
