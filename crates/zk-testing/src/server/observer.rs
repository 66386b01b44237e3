//! Callbacks for every transaction, right after the leader has applied it, and for every step of the
//! servers with a session: for the oracle of a simulation.

use std::fmt;
use std::time::{Duration, Instant};

use proto::{SessionId, Zxid};

use super::tree::Tree;
use super::txn::{Txn, TxnBody, TxnOp};

/// Transaction that the leader has applied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Commit<'a> {
    /// Zxid of the transaction.
    pub zxid: Zxid,
    /// Session that sent the request, or that the transaction ends.
    pub session_id: SessionId,
    /// Effect of the transaction.
    pub effect: Effect<'a>,
}

/// Effect of a transaction on the tree. A multi is reported as one commit for each of its
/// operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect<'a> {
    /// A session was created.
    SessionCreated,
    /// A session was closed or expired, and its ephemeral nodes were deleted.
    SessionClosed,
    /// A node was created.
    Created(&'a str),
    /// A node was deleted by a request or by the reaper, and not with its session.
    Deleted(&'a str),
    /// A node's data was set.
    Changed(&'a str),
    /// Any other transaction, including a write that failed.
    Other,
}

/// Step of the servers with a session, beside the transactions: with the timeout that a server has granted,
/// and the number of the server. Steps of a leader that was replaced, of a read-only server, and of models of
/// other servers than ZooKeeper are not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionStep {
    /// A server has accepted a connect request, and the leader has set its clock for the session.
    Connected(SessionId, Duration),
    /// The leader has received a packet of a session, and has set its clock for the session.
    Touched(SessionId, Duration),
    /// A follower has noted a packet of a session in its touch table.
    Noted(SessionId, Duration, usize),
    /// The leader has received the touch table of a follower, and has set its clock for a session in it.
    Flushed(SessionId, Duration, usize),
    /// A server has lost its touch table.
    TableLost(usize),
    /// The leader has taken the bucket of a session, and closes the session soon.
    BucketTaken(SessionId),
    /// The session was closed.
    Closed(SessionId, CloseCause),
    /// A server has begun to lead, and has set its clocks for all sessions.
    Elected,
}

/// Reason for which a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseCause {
    /// A client has requested it.
    Requested,
    /// A test or a fault has requested it.
    Forced,
    /// The leader has received nothing for the session timeout.
    Expired,
}

/// Registered callback for steps with sessions.
pub(super) struct StepObserver(Box<dyn FnMut(Instant, SessionStep) + Send>);

impl StepObserver {
    pub(super) fn new(told: impl FnMut(Instant, SessionStep) + Send + 'static) -> Self {
        Self(Box::new(told))
    }

    pub(super) fn tell(&mut self, now: Instant, step: SessionStep) {
        (self.0)(now, step);
    }
}

impl fmt::Debug for StepObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepObserver")
    }
}

/// Registered callback.
pub(super) struct Observer(Look);

/// Function called at each commit.
type Look = Box<dyn FnMut(&Tree, Commit<'_>) + Send>;

impl Observer {
    pub(super) fn new(told: impl FnMut(&Tree, Commit<'_>) + Send + 'static) -> Self {
        Self(Box::new(told))
    }

    pub(super) fn tell(&mut self, tree: &Tree, txn: &Txn) {
        let &Txn { zxid, session_id, .. } = txn;
        let mut tell = |effect| (self.0)(tree, Commit { zxid, session_id, effect });
        match &txn.body {
            TxnBody::CreateSession { .. } => tell(Effect::SessionCreated),
            TxnBody::CloseSession { .. } => tell(Effect::SessionClosed),
            TxnBody::Op(op) => tell(effect_of(op)),
            TxnBody::Multi(ops) => ops.iter().for_each(|op| tell(effect_of(op))),
            TxnBody::FailedMulti { .. } | TxnBody::Error(_) => tell(Effect::Other),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

fn effect_of(op: &TxnOp) -> Effect<'_> {
    match op {
        TxnOp::Create(create) => Effect::Created(&create.path),
        TxnOp::Delete { path } => Effect::Deleted(path),
        TxnOp::SetData { path, .. } => Effect::Changed(path),
        TxnOp::SetAcl { .. } | TxnOp::Check => Effect::Other,
    }
}
