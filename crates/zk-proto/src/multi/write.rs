//! Transaction: the server applies all of its operations, or none.

use std::borrow::Cow;

use bytes::BytesMut;

use super::{
    MultiReply, OpList,
    header::{MultiHeader, list_len, put_list, read_list},
};
use crate::{
    create::{Create, Create2, CreateContainer, CreateTtl},
    data::SetData,
    delete::Delete,
    record::{Plain, forms, record, request},
    request::OpCode,
    wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader},
};

record! {
    /// Request with several writes, of which the server applies all or none. Needs a server of 3.4 or newer.
    ///
    /// Later operations see the effect of earlier ones. All operations share one zxid. The whole request has
    /// to fit a frame, which is the only limit on the number of operations.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Multi<'a> as "multi" {
        /// The operations, in order. A transaction without operations succeeds and takes a zxid.
        pub ops: OpList<'a, MultiOp<'a>>,
    }
}

impl<'a> Multi<'a> {
    /// Creates a transaction that borrows these operations.
    #[must_use]
    pub const fn new(ops: &'a [MultiOp<'a>]) -> Self {
        Self { ops: OpList::Borrowed(ops) }
    }
}

forms! { Plain:
    OpList<'a, MultiOp<'a>> =>
        |ops| list_len(ops),
        |ops, out| put_list(out, ops),
        |r, _| read_list(r, MultiOp::decode_body).map(OpList::Owned);
}

request!(Multi<'_>: OpCode::Multi -> MultiReply);

/// Operation of a [`Multi`]. A server rejects a multi with any other operation.
///
/// Each request converts with `into()`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiOp<'a> {
    /// Creates a node. The mode [`CreateMode::Container`](crate::CreateMode::Container) creates a container:
    /// inside a multi, unlike outside, servers evaluate the mode.
    Create(Create<'a>),
    /// Creates a node and returns its Stat. A server before 3.7.2 or 3.8.2 returns no Stat.
    Create2(Create2<'a>),
    /// Creates a container, for the mode [`CreateMode::Container`](crate::CreateMode::Container). With
    /// another mode, servers before 3.7.2 and 3.8.2 create a node of that mode.
    CreateContainer(CreateContainer<'a>),
    /// Creates a node with a time to live.
    CreateTtl(CreateTtl<'a>),
    /// Deletes a node.
    Delete(Delete<'a>),
    /// Replaces a node's data.
    SetData(SetData<'a>),
    /// Compares a node's version.
    Check(Check<'a>),
}

impl MultiOp<'_> {
    /// Returns the operation's opcode.
    #[must_use]
    pub const fn op(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::SetData(_) => OpCode::SetData,
            Self::Check(_) => OpCode::Check,
        }
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Create(op) => &op.path,
            Self::Create2(op) => &op.path,
            Self::CreateContainer(op) => &op.path,
            Self::CreateTtl(op) => &op.path,
            Self::Delete(op) => &op.path,
            Self::SetData(op) => &op.path,
            Self::Check(op) => &op.path,
        }
    }

    fn body(&self) -> &dyn Encode {
        match self {
            Self::Create(op) => op,
            Self::Create2(op) => op,
            Self::CreateContainer(op) => op,
            Self::CreateTtl(op) => op,
            Self::Delete(op) => op,
            Self::SetData(op) => op,
            Self::Check(op) => op,
        }
    }
}

impl Encode for MultiOp<'_> {
    fn encoded_len(&self) -> usize {
        MultiHeader::LEN + self.body().encoded_len()
    }

    fn encode(&self, out: &mut BytesMut) {
        MultiHeader::op(self.op().code()).encode(out);
        self.body().encode(out);
    }
}

impl<'a> MultiOp<'a> {
    fn decode_body(r: &mut Reader<'a>, code: i32, start: usize) -> Result<Self, DecodeError> {
        Ok(match OpCode::from_code(code) {
            Some(OpCode::Create) => Self::Create(Create::decode(r)?),
            Some(OpCode::Create2) => Self::Create2(Create2::decode(r)?),
            Some(OpCode::CreateContainer) => Self::CreateContainer(CreateContainer::decode(r)?),
            Some(OpCode::CreateTtl) => Self::CreateTtl(CreateTtl::decode(r)?),
            Some(OpCode::Delete) => Self::Delete(Delete::decode(r)?),
            Some(OpCode::SetData) => Self::SetData(SetData::decode(r)?),
            Some(OpCode::Check) => Self::Check(Check::decode(r)?),
            _ => return Err(r.error("type", start, DecodeErrorKind::UnknownValue(code))),
        })
    }
}

/// Implements the conversion of each request into an operation of a multi.
macro_rules! from_requests {
    ($($name:ident)*) => {$(
        impl<'a> From<$name<'a>> for MultiOp<'a> {
            fn from(op: $name<'a>) -> Self {
                Self::$name(op)
            }
        }
    )*};
}

from_requests!(Create Create2 CreateContainer CreateTtl Delete SetData Check);

record! {
    /// Check of the version of a node's data. If the version differs, the whole [`Multi`] fails.
    ///
    /// ```text
    /// CheckVersionRequest  path: ustring, version: int
    /// ```
    ///
    /// It is not a [`Request`](crate::Request). Sent alone, it makes some servers close the connection, and
    /// others never reply. It fails with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path),
    /// [`NO_NODE`](crate::ErrorCode::NO_NODE), [`NO_AUTH`](crate::ErrorCode::NO_AUTH) or
    /// [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Check<'a> as "CheckVersionRequest" {
        /// The path.
        pub path: Cow<'a, str>,
        /// The version that the node's data must have; -1 for any version, which checks that the node exists.
        pub version: i32,
    }
}
