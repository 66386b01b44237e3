//! Request that deletes a node.
//!
//! ```text
//! DeleteRequest  path: ustring, version: int
//! ```
//!
//! The reply has no body.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    request::{OpCode, Request},
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to delete a node that has no children.
///
/// A server rejects it with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path is illegal or
/// reserved by the server), [`NO_NODE`](crate::ErrorCode::NO_NODE),
/// [`NO_AUTH`](crate::ErrorCode::NO_AUTH) (for the parent),
/// [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION) or
/// [`NOT_EMPTY`](crate::ErrorCode::NOT_EMPTY).
///
/// ```
/// use zk_proto::{Delete, Encode, Request};
///
/// let request = Delete { path: "/a".into(), version: -1 };
/// assert_eq!(request.path(), Some("/a"));
/// assert_eq!(request.encoded_len(), 4 + 2 + 4);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The path.
    pub path: Cow<'a, str>,
    /// The version that the node's data must have; -1 for any version.
    pub version: i32,
}

impl Encode for Delete<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path) + INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        out.put_i32(self.version);
    }
}

impl<'a> Decode<'a> for Delete<'a> {
    const RECORD: &'static str = "DeleteRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.text("path")?, version: r.i32("version")? })
    }
}

impl Request for Delete<'_> {
    const OP: OpCode = OpCode::Delete;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}
