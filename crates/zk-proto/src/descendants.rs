//! Request that counts all descendants of a node.
//!
//! ```text
//! GetAllChildrenNumberRequest   path: ustring
//! GetAllChildrenNumberResponse  totalNumber: int
//! ```

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    request::{OpCode, Request},
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to count all descendants of a node. Needs a server of 3.6.0 or newer; an older one closes the
/// connection.
///
/// The server walks its whole tree to count them. It rejects the request with
/// [`NO_NODE`](crate::ErrorCode::NO_NODE) or [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
///
/// ```
/// use zk_proto::{GetAllChildrenNumber, OpCode, Request};
///
/// let request = GetAllChildrenNumber { path: "/a".into() };
/// assert_eq!(request.path(), Some("/a"));
/// assert_eq!(GetAllChildrenNumber::OP, OpCode::GetAllChildrenNumber);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetAllChildrenNumber<'a> {
    /// The path of the node.
    pub path: Cow<'a, str>,
}

impl Encode for GetAllChildrenNumber<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
    }
}

impl<'a> Decode<'a> for GetAllChildrenNumber<'a> {
    const RECORD: &'static str = "GetAllChildrenNumberRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.text("path")? })
    }
}

impl Request for GetAllChildrenNumber<'_> {
    const OP: OpCode = OpCode::GetAllChildrenNumber;
    type Reply = AllChildrenNumberReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Number of descendants of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllChildrenNumberReply {
    /// All descendants at all levels, without the node itself.
    pub total: i32,
}

impl Encode for AllChildrenNumberReply {
    fn encoded_len(&self) -> usize {
        INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.total);
    }
}

impl<'a> Decode<'a> for AllChildrenNumberReply {
    const RECORD: &'static str = "GetAllChildrenNumberResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { total: r.i32("totalNumber")? })
    }
}
