//! What the servers of a session know: their kind, and the operations that they lack.
//!
//! Apache ZooKeeper since 3.5.1 knows every operation that a lock needs, and nothing here is in the way of
//! a request to it. For other servers, an operation that they lack is replaced by others ([`StandIn`]), or
//! refused before it is sent: some servers close the connection over it, and the session with it.
//!
//! A Keeper is recognized in the handshake, and tells what it knows in a node. A ZooKeeper of 3.4 is
//! recognized by its answer to the first request that it lacks.

use std::borrow::Cow;

use bytes::Bytes;
use proto::{
    AddWatch, AddWatchMode, ConnectResponse, Create, Create2, CreateMode, Decode, DecodeError,
    Delete, ErrorCode, Multi, MultiOp, OpCode, RequestHeader, SessionId, Stat, Zxid,
};

use crate::requests::{Queued, StandIn};
use crate::{ErrorKind, Handles};

/// Kind of the servers of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// Apache ZooKeeper.
    #[default]
    ZooKeeper,
    /// ClickHouse Keeper, or another server of its family, like RaftKeeper.
    ///
    /// * It does not resume a session: a lost connection is the end of the session for its client. Its
    ///   ephemeral nodes stay until the session timeout has passed. RaftKeeper does resume a session, but
    ///   then reports existing nodes as deleted (`processRequestSetWatch`), so that this client does not let
    ///   it.
    /// * [`Stat::pzxid`] does not change when a child is deleted, and [`Stat::cversion`] does change with
    ///   the data of a child.
    /// * Operations that it lacks close the connection, so the client does not send them.
    Keeper,
}

/// Node of a Keeper with its features, one bit for each.
pub(crate) const FEATURES_NODE: &str = "/keeper/feature_flags";

/// Operations that not every Keeper knows, with the number of the feature that they need, if there is one
/// (`KeeperFeatureFlags.h`).
const NOT_IN_EVERY_KEEPER: [(OpCode, Option<usize>); 14] = [
    (OpCode::Create2, Some(8)),
    (OpCode::CreateContainer, None),
    (OpCode::CreateTtl, None),
    (OpCode::Reconfig, None),
    (OpCode::MultiRead, Some(1)),
    (OpCode::AddWatch, Some(7)),
    // They belong to a session that is resumed.
    (OpCode::SetWatches, None),
    (OpCode::SetWatches2, None),
    (OpCode::CheckWatches, Some(7)),
    (OpCode::RemoveWatches, Some(7)),
    (OpCode::GetEphemerals, None),
    (OpCode::GetAllChildrenNumber, None),
    (OpCode::WhoAmI, None),
    (OpCode::Sasl, None),
];

/// Operations that a create can stand in for. All of them came with 3.5.
const CREATES: [OpCode; 2] = [OpCode::Create2, OpCode::CreateContainer];

/// Returns true if the answer `Unimplemented` shows that the servers lack the operation. Nodes with a time to
/// live are off in most servers, and may be switched on.
fn may_lack(op: OpCode) -> bool {
    op != OpCode::CreateTtl && NOT_IN_EVERY_KEEPER.iter().any(|(known, _)| *known == op)
}

/// Deletion of a node that never exists. It needs no permission, the leader checks the session's owner
/// before it looks for the node (`PrepRequestProcessor`), and a quorum agrees to the answer.
pub(crate) const DELETE_NOTHING: Delete<'static> =
    Delete { path: Cow::Borrowed("/zookeeper/no-such-parent/lease"), version: NO_VERSION };

/// A version that no node has.
const NO_VERSION: i32 = -2;

/// What the servers of a session know.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    kind: ServerKind,
    lacks: Vec<OpCode>,
    /// A server has answered a create2 or createContainer, so that the frames of these need not be kept.
    has_create2: bool,
}

impl Vocabulary {
    pub(crate) fn kind(&self) -> ServerKind {
        self.kind
    }

    pub(crate) fn lacks(&self, op: OpCode) -> bool {
        self.lacks.contains(&op)
    }

    /// Notes the kind of the server that has answered a handshake. Returns true if its features have to be
    /// asked for.
    pub(crate) fn greeted(&mut self, response: &ConnectResponse) -> bool {
        let is_keeper = is_keeper(response);
        let kind = if is_keeper { ServerKind::Keeper } else { ServerKind::ZooKeeper };
        if is_keeper || kind != self.kind {
            *self = Self { kind, ..Self::default() };
        }
        // The next server may be older, or newer. A newer one is still sent a create, or each connection
        // would end with the first create2.
        self.has_create2 = false;
        self.lacks.retain(|op| CREATES.contains(op));
        if is_keeper {
            self.lacks = NOT_IN_EVERY_KEEPER.iter().map(|(op, _)| *op).collect();
        }
        is_keeper
    }

    /// Notes the features of a Keeper: bit `n` is in byte `n / 8`, counted from the highest.
    pub(crate) fn has_features(&mut self, features: &[u8]) {
        let has = |n: usize| features.get(n / 8).is_some_and(|byte| byte & (0x80 >> (n % 8)) != 0);
        let known = NOT_IN_EVERY_KEEPER.iter().filter(|(_, feature)| feature.is_some_and(has));
        let known: Vec<_> = known.map(|(op, _)| *op).collect();
        self.lacks.retain(|op| !known.contains(op));
        self.has_create2 = !self.lacks(OpCode::Create2);
    }

    /// Returns true if requests of this kind are sent as they are.
    pub(crate) fn is_plain(&self, op: OpCode) -> bool {
        let is_zookeeper = self.kind == ServerKind::ZooKeeper;
        let may_be_sent = match op {
            OpCode::Create2 | OpCode::CreateContainer => self.has_create2,
            OpCode::Multi => self.has_create2 && is_zookeeper,
            OpCode::AddWatch => is_zookeeper,
            _ => true,
        };
        may_be_sent && !self.lacks(op)
    }

    /// Returns true for servers that answer a transaction without operations. A Keeper takes the first of
    /// its changes unseen (`KeeperStorage`, `process` of a multi).
    pub(crate) fn has_empty_multi(&self) -> bool {
        self.kind == ServerKind::ZooKeeper
    }

    /// Replaces a request that is not [plain](Self::is_plain), if the servers lack it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if nothing can stand in for it.
    pub(crate) fn adapt<H: Handles>(
        &self,
        request: &mut Queued<H>,
    ) -> Result<Option<StandIn>, ErrorKind> {
        match request.op {
            op @ (OpCode::Create2 | OpCode::CreateContainer) => {
                Ok(if self.lacks(op) { replace_by_create(request) } else { self.unproven(request) })
            }
            OpCode::Multi => self.adapt_multi(request),
            // The events of a Keeper have the path of the watch, not that of the node (ClickHouse #115475).
            OpCode::AddWatch if self.kind == ServerKind::Keeper && is_recursive(request) => {
                Err(ErrorKind::Unsupported(OpCode::AddWatch))
            }
            op if self.lacks(op) => Err(ErrorKind::Unsupported(op)),
            _ => Ok(None),
        }
    }

    fn adapt_multi<H: Handles>(
        &self,
        request: &mut Queued<H>,
    ) -> Result<Option<StandIn>, ErrorKind> {
        let body = body(request);
        let Ok(multi) = Multi::from_frame(&body) else { return Ok(None) };
        if multi.ops.is_empty() && !self.has_empty_multi() {
            request.replace(&DELETE_NOTHING);
            return Ok(Some(StandIn::EmptyMulti));
        }
        if let Some(op) = multi.ops.iter().map(MultiOp::op).find(|op| self.lacks(*op)) {
            let known = multi.ops.iter().map(|op| self.known_op(op)).collect::<Option<Vec<_>>>();
            request.replace(&Multi::new(&known.ok_or(ErrorKind::Unsupported(op))?));
            return Ok(None);
        }
        let is_new =
            |op: &MultiOp<'_>| matches!(op, MultiOp::Create2(_) | MultiOp::CreateContainer(_));
        Ok(if multi.ops.iter().any(is_new) { self.unproven(request) } else { None })
    }

    fn unproven<H: Handles>(&self, request: &Queued<H>) -> Option<StandIn> {
        let (id, frame) = (request.id, request.frame.clone());
        (!self.has_create2).then_some(StandIn::Unproven { id, frame })
    }

    /// Returns an operation of a transaction, or one that stands in for it.
    fn known_op<'a>(&self, op: &MultiOp<'a>) -> Option<MultiOp<'a>> {
        if !self.lacks(op.op()) {
            return Some(op.clone());
        }
        let (path, data, acl, mode) = match op.clone() {
            MultiOp::Create2(op) => (op.path, op.data, op.acl, op.mode),
            MultiOp::CreateContainer(op) => (op.path, op.data, op.acl, CreateMode::Persistent),
            _ => return None,
        };
        Some(Create { path, data, acl, mode }.into())
    }

    /// Notes the answer to a request, and returns true if it is to be sent again in another form.
    ///
    /// An old server answers with `Unimplemented`, and closes the connection. To an operation of a
    /// transaction that it does not know, it answers `MarshallingError`.
    pub(crate) fn answered(
        &mut self,
        op: OpCode,
        code: ErrorCode,
        stand_in: Option<&StandIn>,
    ) -> bool {
        let is_unproven = matches!(stand_in, Some(StandIn::Unproven { .. }));
        let is_create = CREATES.contains(&op);
        let is_unknown = match op {
            OpCode::Multi => code == ErrorCode::MARSHALLING_ERROR,
            _ => code == ErrorCode::UNIMPLEMENTED,
        };
        if is_unproven && is_unknown {
            CREATES.iter().for_each(|op| self.note(*op));
            return true;
        }
        if is_unproven && (is_create || code.is_ok()) {
            self.has_create2 = true;
        } else if code == ErrorCode::UNIMPLEMENTED && may_lack(op) {
            self.note(op);
        }
        false
    }

    /// Notes that the servers lack an operation.
    fn note(&mut self, op: OpCode) {
        if !self.lacks(op) {
            self.lacks.push(op);
        }
    }
}

/// Returns true for the answer of a Keeper. It has no passwords of sessions, and sends zeros
/// (`KeeperTCPHandler::sendHandshake`).
pub(crate) fn is_keeper(response: &ConnectResponse) -> bool {
    response.read_only.is_none() && response.password.iter().all(|byte| *byte == 0)
}

/// Replaces a create2 or createContainer. A container becomes a persistent node.
fn replace_by_create<H: Handles>(request: &mut Queued<H>) -> Option<StandIn> {
    let body = body(request);
    // The request of both is the same.
    let asked: Result<_, DecodeError> = Create2::from_frame(&body);
    let Create2 { path, data, acl, mode } = asked.ok()?;
    let mode = if mode == CreateMode::Container { CreateMode::Persistent } else { mode };
    request.replace(&Create { path, data, acl, mode });
    Some(StandIn::Create { is_ephemeral: mode.is_ephemeral() })
}

fn is_recursive<H: Handles>(request: &Queued<H>) -> bool {
    let body = body(request);
    AddWatch::from_frame(&body).is_ok_and(|asked| asked.mode == AddWatchMode::PersistentRecursive)
}

fn body<H: Handles>(request: &Queued<H>) -> Bytes {
    Bytes::copy_from_slice(request.frame.get(FRAME_HEAD_LEN..).unwrap_or_default())
}

/// Length of what precedes the body of a request in a frame.
const FRAME_HEAD_LEN: usize = 4 + RequestHeader::LEN;

/// Returns what a new node's Stat is, as far as its client knows it, if the node was deleted before it could
/// be read. The times and the length of the data are not known.
pub(crate) fn stat_of_deleted(zxid: Zxid, owner: Option<SessionId>) -> Stat {
    let ephemeral_owner = owner.unwrap_or(SessionId::NONE);
    Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ephemeral_owner, ..Stat::default() }
}
