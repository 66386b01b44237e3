//! The operations a client may ask for.
//!
//! ```
//! use zk_proto::OpCode;
//!
//! assert_eq!(OpCode::GetChildren2.code(), 12);
//! assert_eq!(OpCode::from_code(12), Some(OpCode::GetChildren2));
//! assert_eq!(OpCode::GetChildren2.name(), "getChildren2");
//! assert!(!OpCode::GetChildren2.is_write());
//! ```

/// An operation, by its number on the wire.
///
/// Left out on purpose: createSession (-10), which a server answers with a bare connect response
/// that confuses the stream, and deleteContainer (20), which belongs to the server's own reaper and
/// which no server checks against an ACL. A server answers an opcode it does not know with
/// `Unimplemented` and closes the connection, so sending one that is too new costs the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum OpCode {
    /// Creates a node; the reply has no Stat.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Asks for a node's Stat.
    Exists = 3,
    /// Asks for a node's data and Stat.
    GetData = 4,
    /// Replaces a node's data.
    SetData = 5,
    /// Asks for a node's ACL.
    GetAcl = 6,
    /// Replaces a node's ACL; the version compared is the ACL's.
    SetAcl = 7,
    /// Lists a node's children, without its Stat.
    GetChildren = 8,
    /// Brings the server up to date with the leader, for the reads that follow.
    Sync = 9,
    /// Shows that the session is alive.
    Ping = 11,
    /// Lists a node's children, with its Stat. Since 3.3.
    GetChildren2 = 12,
    /// Compares a node's version. Only inside a multi: alone, some servers close the connection and
    /// others never answer.
    Check = 13,
    /// A transaction of several operations. Since 3.4.
    Multi = 14,
    /// Creates a node; the reply has a Stat. Since 3.5.0.
    Create2 = 15,
    /// Changes the members of the ensemble. Since 3.5.0.
    Reconfig = 16,
    /// Asks whether a watch is set. Since 3.5.0.
    CheckWatches = 17,
    /// Removes watches. Since 3.5.0.
    RemoveWatches = 18,
    /// Creates a container: a node the server removes some time after its last child went. It is
    /// this opcode that makes it one, not the flags. Since 3.5.1.
    CreateContainer = 19,
    /// Creates a node with a time to live. Since 3.5.3, off by default.
    CreateTtl = 21,
    /// Several reads in one request. Since 3.6.0.
    MultiRead = 22,
    /// Adds an identity to the connection.
    Auth = 100,
    /// Re-arms one-shot watches after a reconnect.
    SetWatches = 101,
    /// One step of a SASL exchange. Since 3.4.
    Sasl = 102,
    /// Lists the session's own ephemeral nodes. Since 3.6.0.
    GetEphemerals = 103,
    /// Counts all descendants of a node. Since 3.6.0.
    GetAllChildrenNumber = 104,
    /// Re-arms watches, persistent ones too, after a reconnect. Since 3.6.0.
    SetWatches2 = 105,
    /// Sets a persistent watch. Since 3.6.0.
    AddWatch = 106,
    /// Lists the identities of the connection. Since 3.7.0.
    WhoAmI = 107,
    /// Ends the session.
    CloseSession = -11,
}

impl OpCode {
    /// Every operation, by number.
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

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The operation of a number, if a client may send it.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.code() == code)
    }

    /// The name, as ZooKeeper spells it.
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

    /// Whether the operation takes a zxid, that is, goes through the leader and may change
    /// something. After a lost connection these are the ones whose outcome is unknown.
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
