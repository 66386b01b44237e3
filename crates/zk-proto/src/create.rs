//! Requests that create nodes.
//!
//! ```text
//! CreateRequest    path: ustring, data: buffer, acl: vector<ACL>, flags: int
//! CreateResponse   path: ustring                   to create
//! Create2Response  path: ustring, stat: Stat       to create2, createContainer, createTTL
//! ```
//!
//! The four operations have different opcodes and the same request. Only createTTL appends a field
//! ([`CreateTtl`](crate::CreateTtl)).
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

use bytes::{BufMut, BytesMut};

use crate::{
    acl::Acl,
    mode::CreateMode,
    op::OpCode,
    request::Request,
    stat::Stat,
    wire::{
        Decode, DecodeError, DecodeErrorKind, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to create a node and return its path. All server versions support it.
pub type Create<'a> = CreateRequest<'a, { OpCode::Create.code() }>;

/// Request to create a node and return its path and Stat. Needs a server of 3.5.0 or newer.
pub type Create2<'a> = CreateRequest<'a, { OpCode::Create2.code() }>;

/// Request to create a container and return its path and Stat. Needs a server of 3.5.1 or newer.
///
/// Outside a multi, the opcode makes the node a container, and the server reads from the mode only whether
/// it is sequential. The Java client sends [`CreateMode::Container`].
pub type CreateContainer<'a> = CreateRequest<'a, { OpCode::CreateContainer.code() }>;

/// Body of the create requests; `OP` is the opcode.
///
/// A server rejects the request with one of these errors, in the order of its checks (`PrepRequestProcessor`
/// in ZooKeeper's source):
///
/// * [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) for a path that is not absolute,
/// * [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL),
/// * [`NO_NODE`](crate::ErrorCode::NO_NODE) and [`NO_AUTH`](crate::ErrorCode::NO_AUTH) for the parent,
/// * `BAD_ARGUMENTS` for any other illegal path,
/// * [`NODE_EXISTS`](crate::ErrorCode::NODE_EXISTS),
/// * [`NO_CHILDREN_FOR_EPHEMERALS`](crate::ErrorCode::NO_CHILDREN_FOR_EPHEMERALS),
/// * [`QUOTA_EXCEEDED`](crate::ErrorCode::QUOTA_EXCEEDED).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRequest<'a, const OP: i32> {
    /// The path; the server appends ten digits if the mode is sequential.
    pub path: Cow<'a, str>,
    /// The data. `None` is null, which a server distinguishes from empty.
    pub data: Option<Cow<'a, [u8]>>,
    /// The access control list; a server rejects an empty one.
    pub acl: Cow<'a, [Acl]>,
    /// The kind of node.
    pub mode: CreateMode,
}

impl<const OP: i32> Encode for CreateRequest<'_, OP> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path)
            + writer::buffer_len(self.data.as_deref())
            + writer::vector_len(&self.acl)
            + INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        writer::put_buffer(out, self.data.as_deref());
        writer::put_vector(out, &self.acl);
        out.put_i32(self.mode.flags());
    }
}

impl<'a, const OP: i32> Decode<'a> for CreateRequest<'a, OP> {
    const RECORD: &'static str = "CreateRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let path = r.text("path")?;
        let data = r.slice("data")?.map(Cow::Borrowed);
        let acl = r.vector("acl", Acl::LEN_MIN, Acl::decode)?.into();
        let start = r.offset();
        let flags = r.i32("flags")?;
        let mode = CreateMode::from_flags(flags)
            .ok_or_else(|| r.error("flags", start, DecodeErrorKind::UnknownCreateFlags(flags)))?;
        Ok(Self { path, data, acl, mode })
    }
}

impl Request for Create<'_> {
    const OP: OpCode = OpCode::Create;
    type Reply = CreatePathReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

impl Request for Create2<'_> {
    const OP: OpCode = OpCode::Create2;
    type Reply = CreateReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

impl Request for CreateContainer<'_> {
    const OP: OpCode = OpCode::CreateContainer;
    type Reply = CreateReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Reply to [`Create`]: the path of the created node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePathReply {
    /// The path, with the sequence number if there is one.
    pub path: String,
}

impl Encode for CreatePathReply {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
    }
}

impl<'a> Decode<'a> for CreatePathReply {
    const RECORD: &'static str = "CreateResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.text("path")?.into_owned() })
    }
}

/// Reply to [`Create2`], [`CreateContainer`] and [`CreateTtl`](crate::CreateTtl): path and Stat of the
/// created node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateReply {
    /// The path, with the sequence number if there is one.
    pub path: String,
    /// The node's Stat.
    pub stat: Stat,
}

impl Encode for CreateReply {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path) + Stat::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        self.stat.encode(out);
    }
}

impl<'a> Decode<'a> for CreateReply {
    const RECORD: &'static str = "Create2Response";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.text("path")?.into_owned(), stat: Stat::decode(r)? })
    }
}
