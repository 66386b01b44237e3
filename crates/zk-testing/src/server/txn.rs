//! Transactions: validated writes, identical on every server.

use std::sync::Arc;

use bytes::Bytes;
use proto::{Acl, ErrorCode, SessionId, Stat, Zxid};

use super::node::NodeKind;

/// Transaction of the log.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    pub(crate) session_id: SessionId,
    pub(crate) body: TxnBody,
}

/// Effect of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum TxnBody {
    CreateSession {
        /// Timeout granted by the server that the client connected to.
        timeout_ms: i32,
    },
    CloseSession {
        /// Ephemeral nodes to delete, in order.
        paths: Vec<Box<str>>,
    },
    Op(TxnOp),
    Multi(Vec<TxnOp>),
    /// Failed multi: its length, the position of the operation that failed, and the error.
    FailedMulti {
        len: usize,
        at: usize,
        code: ErrorCode,
    },
    /// Failed write. It is logged too and takes a zxid.
    Error(ErrorCode),
}

/// One change to the tree.
#[derive(Clone, Debug)]
pub(crate) enum TxnOp {
    Create(CreateTxn),
    Delete { path: Box<str> },
    SetData { path: Box<str>, data: Option<Bytes>, version: i32 },
    SetAcl { path: Box<str>, acl: Arc<[Acl]>, aversion: i32 },
    Check,
}

/// Creation of a node.
#[derive(Clone, Debug)]
pub(crate) struct CreateTxn {
    /// Path, including the sequence number if there is one.
    pub(crate) path: Box<str>,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) kind: NodeKind,
    /// Number of children ever created under the parent, including this one.
    pub(crate) parent_creates: i64,
    /// Whether the client receives a Stat.
    pub(crate) wants_stat: bool,
    /// Path in the events of the watches, if it is not that of the node.
    pub(crate) event_path: Option<Box<str>>,
}

/// Result of a transaction, for the reply.
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
    /// The request produced no transaction.
    Lost,
}

/// Result of one change.
#[derive(Debug)]
pub(crate) enum OpResult {
    Created {
        path: Box<str>,
        stat: Option<Stat>,
    },
    Deleted,
    /// Stat right after setData or setACL.
    Set(Stat),
    Checked,
}
