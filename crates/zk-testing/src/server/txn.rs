//! What a write becomes once it has been validated: a transaction, the same on every server.

use std::sync::Arc;

use bytes::Bytes;
use proto::{Acl, ErrorCode, Stat};

use super::node::NodeKind;

/// A transaction of the log.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    pub(crate) zxid: i64,
    pub(crate) time_ms: i64,
    pub(crate) session_id: i64,
    pub(crate) body: TxnBody,
}

/// What it does.
#[derive(Clone, Debug)]
pub(crate) enum TxnBody {
    CreateSession {
        /// As the server has granted it that the client connected to.
        timeout_ms: i32,
    },
    CloseSession {
        /// The ephemeral nodes to delete, in order.
        paths: Vec<Box<str>>,
    },
    Op(TxnOp),
    Multi(Vec<TxnOp>),
    /// A multi that failed: the position of the operation that did, and why.
    FailedMulti {
        len: usize,
        at: usize,
        code: ErrorCode,
    },
    /// A write that failed. It is logged all the same and takes a zxid.
    Error(ErrorCode),
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) enum TxnOp {
    Create(CreateTxn),
    Delete { path: Box<str> },
    SetData { path: Box<str>, data: Option<Bytes>, version: i32 },
    SetAcl { path: Box<str>, acl: Arc<[Acl]>, aversion: i32 },
    Check,
}

/// A creation.
#[derive(Clone, Debug)]
pub(crate) struct CreateTxn {
    /// With the sequence number if there is one.
    pub(crate) path: Box<str>,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) kind: NodeKind,
    /// The parent's count of creations, this one included.
    pub(crate) parent_creates: i32,
    /// Whether the client gets a Stat.
    pub(crate) wants_stat: bool,
}

/// What a transaction did, for the reply.
#[derive(Debug)]
pub(crate) enum Applied {
    SessionCreated,
    SessionClosed,
    Op(OpResult),
    Multi(Vec<OpResult>),
    FailedMulti {
        len: usize,
        at: usize,
        code: ErrorCode,
    },
    Error(ErrorCode),
    /// Not even a transaction came of it.
    Lost,
}

/// What one change did.
#[derive(Debug)]
pub(crate) enum OpResult {
    Created {
        path: Box<str>,
        stat: Option<Stat>,
    },
    Deleted,
    /// The Stat right after setData or setACL.
    Set(Stat),
    Checked,
}
