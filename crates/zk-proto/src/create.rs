//! Requests that create nodes.
//!
//! ```text
//! CreateRequest    path: ustring, data: buffer, acl: vector<ACL>, flags: int
//! CreateResponse   path: ustring                   to create
//! Create2Response  path: ustring, stat: Stat       to create2, createContainer, createTTL
//! ```
//!
//! The four operations have different opcodes and the same request. Only createTTL appends a field,
//! `ttl: long`.
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Create2, CreateMode, Decode, Encode, OPEN_ACL_UNSAFE};
//!
//! let request = Create2 {
//!     path: "/locks/lock-".into(),
//!     data: Some(b"10.0.0.1"[..].into()),
//!     acl: OPEN_ACL_UNSAFE.into(),
//!     mode: CreateMode::EphemeralSequential,
//! };
//! let mut out = BytesMut::new();
//! request.encode(&mut out);
//! assert_eq!(Create2::from_frame(&out.freeze())?, request);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::borrow::Cow;

use bytes::BufMut;

use crate::{
    acl::Acl,
    record::{Plain, forms, record, request},
    request::OpCode,
    stat::Stat,
    wire::{DecodeErrorKind, writer::INT_LEN},
};

/// Kind of a node: the int `flags` of the create operations.
///
/// Nodes with a time to live have a separate request, [`CreateTtl`]. Their flags (5 and 6)
/// can therefore not be sent with another opcode, and the flags here not with createTTL.
///
/// ```
/// use zk_proto::CreateMode;
///
/// assert_eq!(CreateMode::EphemeralSequential.flags(), 3);
/// assert_eq!(CreateMode::from_flags(3), Some(CreateMode::EphemeralSequential));
/// assert_eq!(CreateMode::from_flags(99), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// The node exists until it is deleted.
    Persistent,
    /// The server deletes the node when its session ends; the node cannot have children.
    Ephemeral,
    /// The node exists until it is deleted; the server appends a sequence number to its name.
    PersistentSequential,
    /// The server deletes the node when its session ends, and appends a sequence number to its name.
    EphemeralSequential,
    /// The server deletes the node some time after its last child was deleted.
    ///
    /// Outside of a multi, only [`CreateContainer`] creates a container. With the
    /// other create operations, these flags create a persistent node that is never deleted automatically.
    Container,
}

impl CreateMode {
    /// Returns the number on the wire. It is not a bit mask.
    #[must_use]
    pub const fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
            Self::Container => 4,
        }
    }

    /// Returns the mode for a number on the wire. Returns `None` for the time-to-live modes (5, 6) and for
    /// numbers that no server knows.
    #[must_use]
    pub const fn from_flags(flags: i32) -> Option<Self> {
        match flags {
            0 => Some(Self::Persistent),
            1 => Some(Self::Ephemeral),
            2 => Some(Self::PersistentSequential),
            3 => Some(Self::EphemeralSequential),
            4 => Some(Self::Container),
            _ => None,
        }
    }

    /// Returns whether the server appends a sequence number to the name.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential)
    }

    /// Returns whether the node is deleted when its session ends.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }
}

forms! { Plain:
    CreateMode =>
        |_| INT_LEN,
        |mode, out| out.put_i32(mode.flags()),
        |r, field| {
            let start = r.offset();
            let flags = r.i32(field)?;
            CreateMode::from_flags(flags)
                .ok_or_else(|| r.error(field, start, DecodeErrorKind::UnknownCreateFlags(flags)))
        };
}

/// Request to create a node and return its path. All server versions support it.
pub type Create<'a> = CreateRequest<'a, { OpCode::Create.code() }>;

/// Request to create a node and return its path and Stat. Needs a server of 3.5.0 or newer.
pub type Create2<'a> = CreateRequest<'a, { OpCode::Create2.code() }>;

/// Request to create a container and return its path and Stat. Needs a server of 3.5.1 or newer.
///
/// Outside a multi, the opcode makes the node a container, and the server reads from the mode only whether
/// it is sequential. The Java client sends [`CreateMode::Container`].
pub type CreateContainer<'a> = CreateRequest<'a, { OpCode::CreateContainer.code() }>;

record! {
    /// Body of the create requests; `OP` is the opcode.
    ///
    /// A server rejects the request with one of these errors, in the order of its checks
    /// (`PrepRequestProcessor` in ZooKeeper's source):
    ///
    /// * [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) for a path that is not absolute,
    /// * [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL),
    /// * [`NO_NODE`](crate::ErrorCode::NO_NODE) and [`NO_AUTH`](crate::ErrorCode::NO_AUTH) for the parent,
    /// * `BAD_ARGUMENTS` for any other illegal path,
    /// * [`NODE_EXISTS`](crate::ErrorCode::NODE_EXISTS),
    /// * [`NO_CHILDREN_FOR_EPHEMERALS`](crate::ErrorCode::NO_CHILDREN_FOR_EPHEMERALS),
    /// * [`QUOTA_EXCEEDED`](crate::ErrorCode::QUOTA_EXCEEDED).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateRequest<'a, const OP: i32> as "CreateRequest" {
        /// The path; the server appends ten digits if the mode is sequential.
        pub path: Cow<'a, str>,
        /// The data. `None` is null, which a server distinguishes from empty.
        pub data: Option<Cow<'a, [u8]>>,
        /// The access control list; a server rejects an empty one.
        pub acl: Cow<'a, [Acl]>,
        /// The kind of node.
        pub mode: CreateMode as "flags",
    }
}

request!(Create<'_>: OpCode::Create -> CreatePathReply, path);
request!(Create2<'_>: OpCode::Create2 -> CreateReply, path);
request!(CreateContainer<'_>: OpCode::CreateContainer -> CreateReply, path);

record! {
    /// Reply to [`Create`]: the path of the created node.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreatePathReply as "CreateResponse" {
        /// The path, with the sequence number if there is one.
        pub path: String,
    }
}

record! {
    /// Reply to [`Create2`], [`CreateContainer`] and [`CreateTtl`]: path and Stat of the
    /// created node.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateReply as "Create2Response" {
        /// The path, with the sequence number if there is one.
        pub path: String,
        /// The node's Stat.
        pub stat: Stat,
    }
}

/// Form of `sequential`: the flags of a node with a time to live.
struct TtlFlags;

/// Flags of a node with a time to live, without and with a sequence number.
const WITH_TTL: i32 = 5;
const SEQUENTIAL_WITH_TTL: i32 = 6;

forms! { TtlFlags:
    bool =>
        |_| INT_LEN,
        |sequential, out| out.put_i32(if *sequential { SEQUENTIAL_WITH_TTL } else { WITH_TTL }),
        |r, field| {
            let start = r.offset();
            match r.i32(field)? {
                WITH_TTL => Ok(false),
                SEQUENTIAL_WITH_TTL => Ok(true),
                flags => Err(r.error(field, start, DecodeErrorKind::UnknownCreateFlags(flags))),
            }
        };
}

record! {
    /// Request to create a node with a time to live and return its path and Stat.
    ///
    /// It needs a server of 3.5.3 or newer that runs with `zookeeper.extendedTypesEnabled=true`.
    ///
    /// It is a separate type, so that the operation is never sent with the flags of another kind of node.
    /// Such a request passes the checks of a 3.8.0 or 3.9.5 server and then terminates its process. The
    /// server cannot restart from its log afterwards.
    ///
    /// The errors are those of the other create operations. In addition, a server without extended types
    /// returns [`UNIMPLEMENTED`](crate::ErrorCode::UNIMPLEMENTED). A time to live out of range is rejected
    /// with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS).
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use zk_proto::{CreateTtl, Decode, Encode, OPEN_ACL_UNSAFE};
    ///
    /// let request = CreateTtl {
    ///     path: "/cache/entry".into(),
    ///     data: None,
    ///     acl: OPEN_ACL_UNSAFE.into(),
    ///     sequential: false,
    ///     ttl_ms: 60_000,
    /// };
    /// let mut out = BytesMut::new();
    /// request.encode(&mut out);
    /// assert_eq!(CreateTtl::from_frame(&out.freeze())?, request);
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateTtl<'a> as "CreateTTLRequest" {
        /// The path; the server appends ten digits if `sequential` is set.
        pub path: Cow<'a, str>,
        /// The data. `None` is null, which a server distinguishes from empty.
        pub data: Option<Cow<'a, [u8]>>,
        /// The access control list; a server rejects an empty one.
        pub acl: Cow<'a, [Acl]>,
        /// Whether the server appends a sequence number to the name.
        pub sequential: bool as "flags" by TtlFlags,
        /// The time to live in milliseconds, 1 to 2^40 - 1. The server rejects any other value.
        pub ttl_ms: i64 as "ttl",
    }
}

request!(CreateTtl<'_>: OpCode::CreateTtl -> CreateReply, path);
