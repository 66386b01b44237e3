//! Requests with several reads, each with its own result.

use bytes::{BufMut, BytesMut};

use super::{
    OpList,
    header::{MultiHeader, NO_TYPE, list_len, put_list, read_list},
};
use crate::{
    children::ChildList,
    children::GetChildren,
    code::ErrorCode,
    data::{DataReply, GetData},
    record::{Plain, forms, record, request},
    request::OpCode,
    wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, writer::INT_LEN},
};

record! {
    /// Request with several reads. Needs a server of 3.6.0 or newer; an older one closes the connection.
    ///
    /// The server executes the reads one by one, so another client's write may be applied between two of
    /// them.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MultiRead<'a> as "multiRead" {
        /// The reads, in order.
        pub ops: OpList<'a, MultiReadOp<'a>>,
    }
}

impl<'a> MultiRead<'a> {
    /// Creates a request that borrows these reads.
    #[must_use]
    pub const fn new(ops: &'a [MultiReadOp<'a>]) -> Self {
        Self { ops: OpList::Borrowed(ops) }
    }
}

forms! { Plain:
    OpList<'a, MultiReadOp<'a>> =>
        |ops| list_len(ops),
        |ops, out| put_list(out, ops),
        |r, _| read_list(r, MultiReadOp::decode_body).map(OpList::Owned);
}

request!(MultiRead<'_>: OpCode::MultiRead -> MultiReadReply);

/// Read of a [`MultiRead`]. Servers support no other operations here, and they set no watch even if the
/// operation has `watch` set.
///
/// Each request converts with `into()`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiReadOp<'a> {
    /// Reads a node's data and Stat.
    GetData(GetData<'a>),
    /// Lists a node's children.
    GetChildren(GetChildren<'a>),
}

impl MultiReadOp<'_> {
    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::GetData(op) => &op.path,
            Self::GetChildren(op) => &op.path,
        }
    }
}

impl Encode for MultiReadOp<'_> {
    fn encoded_len(&self) -> usize {
        MultiHeader::LEN
            + match self {
                Self::GetData(op) => op.encoded_len(),
                Self::GetChildren(op) => op.encoded_len(),
            }
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::GetData(op) => {
                MultiHeader::op(OpCode::GetData.code()).encode(out);
                op.encode(out);
            }
            Self::GetChildren(op) => {
                MultiHeader::op(OpCode::GetChildren.code()).encode(out);
                op.encode(out);
            }
        }
    }
}

impl<'a> MultiReadOp<'a> {
    fn decode_body(r: &mut Reader<'a>, code: i32, start: usize) -> Result<Self, DecodeError> {
        Ok(match OpCode::from_code(code) {
            Some(OpCode::GetData) => Self::GetData(GetData::decode(r)?),
            Some(OpCode::GetChildren) => Self::GetChildren(GetChildren::decode(r)?),
            _ => return Err(r.error("type", start, DecodeErrorKind::UnknownValue(code))),
        })
    }
}

impl<'a> From<GetData<'a>> for MultiReadOp<'a> {
    fn from(op: GetData<'a>) -> Self {
        Self::GetData(op)
    }
}

impl<'a> From<GetChildren<'a>> for MultiReadOp<'a> {
    fn from(op: GetChildren<'a>) -> Self {
        Self::GetChildren(op)
    }
}

record! {
    /// Results of a [`MultiRead`], in the order of its reads. Each of them may be an error.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MultiReadReply as "MultiResponse" {
        /// One result for each read.
        pub results: Vec<MultiReadResult>,
    }
}

forms! { Plain:
    Vec<MultiReadResult> =>
        |results| list_len(results),
        |results, out| put_list(out, results),
        |r, _| read_list(r, MultiReadResult::decode_body);
}

/// Result of one read of a [`MultiRead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiReadResult {
    /// A node's data and Stat.
    Data(DataReply),
    /// The names of a node's children.
    Children(ChildList),
    /// The server rejected the read, e.g. with [`NO_NODE`](ErrorCode::NO_NODE).
    Error(ErrorCode),
}

impl MultiReadResult {
    fn decode_body(r: &mut Reader<'_>, code: i32, start: usize) -> Result<Self, DecodeError> {
        if code == NO_TYPE {
            return Ok(Self::Error(ErrorCode(r.i32("error.err")?)));
        }
        Ok(match OpCode::from_code(code) {
            Some(OpCode::GetData) => Self::Data(DataReply::decode(r)?),
            Some(OpCode::GetChildren) => Self::Children(ChildList::decode(r)?),
            _ => return Err(r.error("type", start, DecodeErrorKind::UnknownValue(code))),
        })
    }
}

impl Encode for MultiReadResult {
    fn encoded_len(&self) -> usize {
        MultiHeader::LEN
            + match self {
                Self::Data(data) => data.encoded_len(),
                Self::Children(children) => children.encoded_len(),
                Self::Error(_) => INT_LEN,
            }
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Data(data) => {
                MultiHeader::result(OpCode::GetData.code(), ErrorCode::OK).encode(out);
                data.encode(out);
            }
            Self::Children(children) => {
                MultiHeader::result(OpCode::GetChildren.code(), ErrorCode::OK).encode(out);
                children.encode(out);
            }
            Self::Error(code) => {
                MultiHeader::result(NO_TYPE, *code).encode(out);
                out.put_i32(code.0);
            }
        }
    }
}
