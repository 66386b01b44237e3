//! Request that checks whether a node exists.
//!
//! ```text
//! ExistsRequest   path: ustring, watch: boolean
//! ExistsResponse  stat: Stat
//! ```

use std::borrow::Cow;

use bytes::BytesMut;

use crate::{
    request::{OpCode, Request, path_watch_len, put_path_watch, read_path_watch},
    stat::Stat,
    wire::{Decode, DecodeError, Encode, Reader},
};

/// Request to check whether a node exists and return its Stat.
///
/// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) if the node does not exist. In that case
/// it still sets the requested watch, which fires when the node is created. Servers from 3.8.4 and 3.9.2 on
/// also return [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
///
/// ```
/// use zk_proto::{Exists, OpCode, Request};
///
/// let request = Exists { path: "/a".into(), watch: true };
/// assert_eq!(request.path(), Some("/a"));
/// assert_eq!(Exists::OP, OpCode::Exists);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exists<'a> {
    /// The path.
    pub path: Cow<'a, str>,
    /// Whether to set a one-shot watch for creation, data changes and deletion.
    pub watch: bool,
}

impl Encode for Exists<'_> {
    fn encoded_len(&self) -> usize {
        path_watch_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        put_path_watch(out, &self.path, self.watch);
    }
}

impl<'a> Decode<'a> for Exists<'a> {
    const RECORD: &'static str = "ExistsRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (path, watch) = read_path_watch(r)?;
        Ok(Self { path, watch })
    }
}

impl Request for Exists<'_> {
    const OP: OpCode = OpCode::Exists;
    type Reply = Stat;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}
