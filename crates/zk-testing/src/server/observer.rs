//! Callback for every transaction, right after the leader has applied it: for the oracle of a
//! simulation.

use std::fmt;

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
