//! Requests that list a node's children.
//!
//! ```text
//! GetChildrenRequest, GetChildren2Request  path: ustring, watch: boolean
//! GetChildrenResponse                      children: vector<ustring>
//! GetChildren2Response                     children: vector<ustring>, stat: Stat
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{ChildList, ChildrenReply, Decode, Encode, Stat};
//!
//! let reply = ChildrenReply {
//!     children: ChildList::from_names(["lock-0000000001", "lock-0000000000"]),
//!     stat: Stat { num_children: 2, ..Stat::default() },
//! };
//! let mut out = BytesMut::new();
//! reply.encode(&mut out);
//! assert_eq!(ChildrenReply::from_frame(&out.freeze())?, reply);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::borrow::Cow;

use bytes::BytesMut;

use crate::{
    child_list::ChildList,
    op::OpCode,
    request::{Request, path_watch_len, put_path_watch, read_path_watch},
    stat::Stat,
    wire::{Decode, DecodeError, Encode, Reader},
};

/// Request to list a node's children. All server versions support it.
///
/// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetChildren<'a> {
    /// The path of the parent.
    pub path: Cow<'a, str>,
    /// Whether to set a one-shot watch for changes of the list and for deletion of the parent.
    pub watch: bool,
}

impl Encode for GetChildren<'_> {
    fn encoded_len(&self) -> usize {
        path_watch_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        put_path_watch(out, &self.path, self.watch);
    }
}

impl<'a> Decode<'a> for GetChildren<'a> {
    const RECORD: &'static str = "GetChildrenRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (path, watch) = read_path_watch(r)?;
        Ok(Self { path, watch })
    }
}

impl Request for GetChildren<'_> {
    const OP: OpCode = OpCode::GetChildren;
    type Reply = ChildList;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Request to list a node's children and return its Stat. Needs a server of 3.3 or newer.
///
/// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetChildren2<'a> {
    /// The path of the parent.
    pub path: Cow<'a, str>,
    /// Whether to set a one-shot watch for changes of the list and for deletion of the parent.
    pub watch: bool,
}

impl Encode for GetChildren2<'_> {
    fn encoded_len(&self) -> usize {
        path_watch_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        put_path_watch(out, &self.path, self.watch);
    }
}

impl<'a> Decode<'a> for GetChildren2<'a> {
    const RECORD: &'static str = "GetChildren2Request";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (path, watch) = read_path_watch(r)?;
        Ok(Self { path, watch })
    }
}

impl Request for GetChildren2<'_> {
    const OP: OpCode = OpCode::GetChildren2;
    type Reply = ChildrenReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Children and Stat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildrenReply {
    /// The names of the children, in the order of the server's hash table.
    pub children: ChildList,
    /// The Stat of the parent.
    pub stat: Stat,
}

impl Encode for ChildrenReply {
    fn encoded_len(&self) -> usize {
        self.children.encoded_len() + Stat::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        self.children.encode(out);
        self.stat.encode(out);
    }
}

impl<'a> Decode<'a> for ChildrenReply {
    const RECORD: &'static str = "GetChildren2Response";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { children: ChildList::decode(r)?, stat: Stat::decode(r)? })
    }
}
