//! Request that makes a server catch up with the leader.
//!
//! ```text
//! SyncRequest   path: ustring
//! SyncResponse  path: ustring
//! ```

use std::borrow::Cow;

use bytes::BytesMut;

use crate::{
    request::{OpCode, Request},
    wire::{Decode, DecodeError, Encode, Reader, writer},
};

/// Request to bring the server up to date with the leader.
///
/// Later reads *on the same connection* see at least the leader's state at the sync. It is no transaction,
/// and a leader that was just deposed may still reply to it. The server ignores the path and returns it
/// unchanged.
///
/// ```
/// use zk_proto::{Decode, Encode, Sync, SyncReply};
/// use bytes::BytesMut;
///
/// let mut echo = BytesMut::new();
/// Sync { path: "/a".into() }.encode(&mut echo);
/// let reply = SyncReply::from_frame(&echo.freeze())?;
/// assert_eq!(reply.path.as_deref(), Some("/a"));
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sync<'a> {
    /// The path that the server returns. Null reads as empty.
    pub path: Cow<'a, str>,
}

impl Encode for Sync<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
    }
}

impl<'a> Decode<'a> for Sync<'a> {
    const RECORD: &'static str = "SyncRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.opt_text("path")?.unwrap_or_default() })
    }
}

impl Request for Sync<'_> {
    const OP: OpCode = OpCode::Sync;
    type Reply = SyncReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Reply to [`Sync`]: the server has caught up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncReply {
    /// The path of the request; null if that was null.
    pub path: Option<String>,
}

impl Encode for SyncReply {
    fn encoded_len(&self) -> usize {
        self.path.as_deref().map_or(writer::INT_LEN, writer::java_text_len)
    }

    fn encode(&self, out: &mut BytesMut) {
        match &self.path {
            Some(path) => writer::put_java_text(out, path),
            None => writer::put_opt_text(out, None),
        }
    }
}

impl<'a> Decode<'a> for SyncReply {
    const RECORD: &'static str = "SyncResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.opt_text("path")?.map(Cow::into_owned) })
    }
}
