//! Setting persistent watches, and asking for watches and removing them.
//!
//! ```text
//! AddWatchRequest       path: ustring, mode: int
//! ErrorResponse         err: int                     to addWatch; always 0
//! CheckWatchesRequest   path: ustring, type: int
//! RemoveWatchesRequest  path: ustring, type: int
//! ```
//!
//! The replies to the last two have no body. One-shot watches are set by the requests that read:
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
    op::OpCode,
    request::Request,
    watch::{AddWatchMode, WatcherType},
    wire::{
        Decode, DecodeError, DecodeErrorKind, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Sets a watch that stays. Needs a server of 3.6.0 or newer; an older one closes the connection.
///
/// The node need not exist, and nothing is asked of its ACL until something happens to it. Before
/// 3.9.0 a server remembers one kind of watch per path and connection, the last one asked for
/// (ZOOKEEPER-4466).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddWatch<'a> {
    /// The path.
    pub path: Cow<'a, str>,
    /// What is watched.
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

/// The watch is set.
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

/// Asks whether this connection has a watch, and changes nothing. Needs a server of 3.5.0 or newer.
/// Refused with [`NO_WATCHER`](crate::ErrorCode::NO_WATCHER) if it has none.
pub type CheckWatches<'a> = WatchesRequest<'a, { OpCode::CheckWatches.code() }>;

/// Removes this connection's watches. Needs a server of 3.5.0 or newer. Refused with
/// [`NO_WATCHER`](crate::ErrorCode::NO_WATCHER) if there are none: of a one-shot watch that means
/// as well that it has fired, and the notification may be on its way.
pub type RemoveWatches<'a> = WatchesRequest<'a, { OpCode::RemoveWatches.code() }>;

/// The body that checkWatches and removeWatches share; `OP` is the opcode it goes with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchesRequest<'a, const OP: i32> {
    /// The path that is watched.
    pub path: Cow<'a, str>,
    /// Which of its watches are meant.
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
