//! Operations that a client may request, and the trait of all requests.

use std::fmt;

use crate::wire::{Decode, Encode};

/// Request: the body that a client sends, its opcode, and the type of its reply.
///
/// The reply's type follows from the request's type, so the caller never guesses the type of a body:
///
/// ```
/// use bytes::Bytes;
/// use zk_proto::{Decode, DecodeError, Delete, Exists, Request};
///
/// fn reply<R: Request>(_request: &R, body: &Bytes) -> Result<R::Reply, DecodeError> {
///     R::Reply::from_frame(body)
/// }
///
/// let delete = Delete { path: "/a".into(), version: -1 };
/// assert_eq!(reply(&delete, &Bytes::new()), Ok(()));
/// let exists = Exists { path: "/a".into(), watch: false };
/// assert_eq!(reply(&exists, &Bytes::from_static(&[0; 68])), Ok(zk_proto::Stat::default()));
/// ```
pub trait Request: Encode {
    /// The operation.
    const OP: OpCode;

    /// The body of a successful reply.
    type Reply: for<'a> Decode<'a>;

    /// Returns the path of the request's node, or `None` if the request has no single node.
    fn path(&self) -> Option<&str>;
}

/// Operation, with its number on the wire. `Display` prints its [name](OpCode::name).
///
/// ```
/// use zk_proto::OpCode;
///
/// assert_eq!(OpCode::GetChildren2.code(), 12);
/// assert_eq!(OpCode::from_code(12), Some(OpCode::GetChildren2));
/// assert_eq!(OpCode::GetChildren2.name(), "getChildren2");
/// assert_eq!(OpCode::GetChildren2.to_string(), "getChildren2");
/// assert!(!OpCode::GetChildren2.is_write());
/// ```
///
/// Two operations are omitted on purpose. A server replies to createSession (-10) with a bare connect
/// response, which breaks the stream. deleteContainer (20) belongs to the server's own container manager, and
/// no server checks it against an ACL.
///
/// A server replies to an unknown opcode with `Unimplemented` and closes the connection. An operation that is
/// too new for the server therefore costs the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum OpCode {
    /// Creates a node; the reply has no Stat.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Reads a node's Stat.
    Exists = 3,
    /// Reads a node's data and Stat.
    GetData = 4,
    /// Replaces a node's data.
    SetData = 5,
    /// Reads a node's ACL.
    GetAcl = 6,
    /// Replaces a node's ACL; the version compared is the ACL's.
    SetAcl = 7,
    /// Lists a node's children, without its Stat.
    GetChildren = 8,
    /// Makes the server catch up with the leader, for the following reads.
    Sync = 9,
    /// Keeps the session alive.
    Ping = 11,
    /// Lists a node's children, with its Stat. Since 3.3.
    GetChildren2 = 12,
    /// Checks a node's version. It is only valid inside a multi: alone, some servers close the connection and
    /// others never reply.
    Check = 13,
    /// Applies several operations as a transaction. Since 3.4.
    Multi = 14,
    /// Creates a node; the reply has a Stat. Since 3.5.0.
    Create2 = 15,
    /// Changes the members of the ensemble. Since 3.5.0.
    Reconfig = 16,
    /// Checks whether a watch is set. Since 3.5.0.
    CheckWatches = 17,
    /// Removes watches. Since 3.5.0.
    RemoveWatches = 18,
    /// Creates a container: a node that the server deletes some time after its last child was deleted. The
    /// opcode makes the node a container, and the flags do not. Since 3.5.1.
    CreateContainer = 19,
    /// Creates a node with a time to live. Since 3.5.3, off by default.
    CreateTtl = 21,
    /// Sends several reads in one request. Since 3.6.0.
    MultiRead = 22,
    /// Adds an identity to the connection.
    Auth = 100,
    /// Re-registers one-shot watches after a reconnect.
    SetWatches = 101,
    /// Performs one step of a SASL exchange. Since 3.4.
    Sasl = 102,
    /// Lists the session's ephemeral nodes. Since 3.6.0.
    GetEphemerals = 103,
    /// Counts all descendants of a node. Since 3.6.0.
    GetAllChildrenNumber = 104,
    /// Re-registers watches, including persistent ones, after a reconnect. Since 3.6.0.
    SetWatches2 = 105,
    /// Sets a persistent watch. Since 3.6.0.
    AddWatch = 106,
    /// Lists the identities of the connection. Since 3.7.0.
    WhoAmI = 107,
    /// Closes the session.
    CloseSession = -11,
}

impl OpCode {
    /// All operations, ordered by number.
    pub const ALL: [Self; 29] = [
        Self::CloseSession,
        Self::Create,
        Self::Delete,
        Self::Exists,
        Self::GetData,
        Self::SetData,
        Self::GetAcl,
        Self::SetAcl,
        Self::GetChildren,
        Self::Sync,
        Self::Ping,
        Self::GetChildren2,
        Self::Check,
        Self::Multi,
        Self::Create2,
        Self::Reconfig,
        Self::CheckWatches,
        Self::RemoveWatches,
        Self::CreateContainer,
        Self::CreateTtl,
        Self::MultiRead,
        Self::Auth,
        Self::SetWatches,
        Self::Sasl,
        Self::GetEphemerals,
        Self::GetAllChildrenNumber,
        Self::SetWatches2,
        Self::AddWatch,
        Self::WhoAmI,
    ];

    /// Returns the number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Returns the operation for a number, or `None` if a client may not send it.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.code() == code)
    }

    /// Returns ZooKeeper's name of the operation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Exists => "exists",
            Self::GetData => "getData",
            Self::SetData => "setData",
            Self::GetAcl => "getACL",
            Self::SetAcl => "setACL",
            Self::GetChildren => "getChildren",
            Self::Sync => "sync",
            Self::Ping => "ping",
            Self::GetChildren2 => "getChildren2",
            Self::Check => "check",
            Self::Multi => "multi",
            Self::Create2 => "create2",
            Self::Reconfig => "reconfig",
            Self::CheckWatches => "checkWatches",
            Self::RemoveWatches => "removeWatches",
            Self::CreateContainer => "createContainer",
            Self::CreateTtl => "createTTL",
            Self::MultiRead => "multiRead",
            Self::Auth => "auth",
            Self::SetWatches => "setWatches",
            Self::Sasl => "sasl",
            Self::GetEphemerals => "getEphemerals",
            Self::GetAllChildrenNumber => "getAllChildrenNumber",
            Self::SetWatches2 => "setWatches2",
            Self::AddWatch => "addWatch",
            Self::WhoAmI => "whoAmI",
            Self::CloseSession => "closeSession",
        }
    }

    /// Returns whether the operation takes a zxid, i.e. goes through the leader and may change the state.
    /// After a connection loss, the outcome of such an operation is unknown.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Create2
                | Self::CreateContainer
                | Self::CreateTtl
                | Self::Delete
                | Self::SetData
                | Self::SetAcl
                | Self::Multi
                | Self::Reconfig
                | Self::CloseSession
        )
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
