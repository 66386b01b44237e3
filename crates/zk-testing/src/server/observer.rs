//! Who is told of every transaction, the moment the leader has applied it: the oracle of a
//! simulation.

use std::fmt;

use super::tree::Tree;
use super::txn::{Txn, TxnBody, TxnOp};

/// A transaction that the leader has applied.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// Its zxid.
    pub zxid: i64,
    /// The session that asked for it, or that it ends.
    pub session_id: i64,
    /// What it did.
    pub effect: Effect<'a>,
}

/// What a transaction did to the tree. A multi is told as one commit for each of its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect<'a> {
    /// A session began.
    SessionCreated,
    /// A session ended, whether it was closed or expired; its ephemeral nodes are gone.
    SessionClosed,
    /// A node was created.
    Created(&'a str),
    /// A node was deleted, other than with its session.
    Deleted(&'a str),
    /// A node's data was set.
    Changed(&'a str),
    /// Anything else, a write that failed included.
    Other,
}

/// Somebody who is told.
pub(super) struct Observer(Look);

/// What is called at each commit.
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
