//! Persistent watches, and requests that check for watches and remove them.
//!
//! ```text
//! AddWatchRequest       path: ustring, mode: int
//! ErrorResponse         err: int                     to addWatch; always 0
//! CheckWatchesRequest   path: ustring, type: int
//! RemoveWatchesRequest  path: ustring, type: int
//! ```
//!
//! The replies to checkWatches and removeWatches have no body. One-shot watches are set by the read requests:
//! exists, getData, getChildren and getChildren2.
//!
//! ```
//! use zk_proto::{AddWatch, AddWatchMode, OpCode, RemoveWatches, Request, WatcherType};
//!
//! let add = AddWatch { path: "/a".into(), mode: AddWatchMode::PersistentRecursive };
//! assert_eq!(add.path(), Some("/a"));
//! let remove = RemoveWatches { path: "/a".into(), watcher_type: WatcherType::Any };
//! assert_eq!(remove.path(), Some("/a"));
//! assert_eq!(RemoveWatches::OP, OpCode::RemoveWatches);
//! ```

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    code::ErrorCode,
    request::{OpCode, Request},
    watch::{AddWatchMode, WatcherType},
    wire::{
        Decode, DecodeError, DecodeErrorKind, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to set a watch that stays after it fires. Needs a server of 3.6.0 or newer; an older one closes
/// the connection.
///
/// The node need not exist. The server checks no ACL when it sets the watch, only when an event occurs on the
/// node. Before 3.9.0 a server keeps one kind of watch per path and connection: the last one set
/// (ZOOKEEPER-4466).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddWatch<'a> {
    /// The path to watch.
    pub path: Cow<'a, str>,
    /// The kind of watch.
    pub mode: AddWatchMode,
}

impl Encode for AddWatch<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path) + INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        out.put_i32(self.mode.code());
    }
}

impl<'a> Decode<'a> for AddWatch<'a> {
    const RECORD: &'static str = "AddWatchRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let path = r.text("path")?;
        let start = r.offset();
        let code = r.i32("mode")?;
        let mode = AddWatchMode::from_code(code)
            .ok_or_else(|| r.error("mode", start, DecodeErrorKind::UnknownValue(code)))?;
        Ok(Self { path, mode })
    }
}

impl Request for AddWatch<'_> {
    const OP: OpCode = OpCode::AddWatch;
    type Reply = AddWatchReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Reply to [`AddWatch`]: the watch is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddWatchReply {
    /// A second code besides the header's; servers always send [`ErrorCode::OK`].
    pub err: ErrorCode,
}

impl Encode for AddWatchReply {
    fn encoded_len(&self) -> usize {
        INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.err.0);
    }
}

impl<'a> Decode<'a> for AddWatchReply {
    const RECORD: &'static str = "ErrorResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { err: ErrorCode(r.i32("err")?) })
    }
}

/// Request to check whether this connection has a watch. Needs a server of 3.5.0 or newer.
///
/// A server rejects it with [`NO_WATCHER`](crate::ErrorCode::NO_WATCHER) if the connection has no such watch.
pub type CheckWatches<'a> = WatchesRequest<'a, { OpCode::CheckWatches.code() }>;

/// Request to remove this connection's watches. Needs a server of 3.5.0 or newer.
///
/// A server rejects it with [`NO_WATCHER`](crate::ErrorCode::NO_WATCHER) if the connection has no such watch.
/// For a one-shot watch that can also mean that the watch has fired and its notification is still in flight.
pub type RemoveWatches<'a> = WatchesRequest<'a, { OpCode::RemoveWatches.code() }>;

/// Body of checkWatches and removeWatches requests; `OP` is the opcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchesRequest<'a, const OP: i32> {
    /// The watched path.
    pub path: Cow<'a, str>,
    /// The kind of watch to check or remove.
    pub watcher_type: WatcherType,
}

impl<const OP: i32> Encode for WatchesRequest<'_, OP> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path) + INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        out.put_i32(self.watcher_type.code());
    }
}

impl<'a, const OP: i32> Decode<'a> for WatchesRequest<'a, OP> {
    const RECORD: &'static str = "CheckWatchesRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let path = r.text("path")?;
        let start = r.offset();
        let code = r.i32("type")?;
        let watcher_type = WatcherType::from_code(code)
            .ok_or_else(|| r.error("type", start, DecodeErrorKind::UnknownValue(code)))?;
        Ok(Self { path, watcher_type })
    }
}

impl Request for CheckWatches<'_> {
    const OP: OpCode = OpCode::CheckWatches;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

impl Request for RemoveWatches<'_> {
    const OP: OpCode = OpCode::RemoveWatches;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}
