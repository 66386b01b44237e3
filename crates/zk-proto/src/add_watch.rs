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

use crate::{
    code::ErrorCode,
    record::{record, request},
    request::OpCode,
    watch::{AddWatchMode, WatcherType},
};

record! {
    /// Request to set a watch that stays after it fires. Needs a server of 3.6.0 or newer; an older one
    /// closes the connection.
    ///
    /// The node need not exist. The server checks no ACL when it sets the watch, only when an event occurs on
    /// the node. Before 3.9.0 a server keeps one kind of watch per path and connection: the last one set
    /// (ZOOKEEPER-4466).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AddWatch<'a> as "AddWatchRequest" {
        /// The path to watch.
        pub path: Cow<'a, str>,
        /// The kind of watch.
        pub mode: AddWatchMode,
    }
}

request!(AddWatch<'_>: OpCode::AddWatch -> AddWatchReply, path);

record! {
    /// Reply to [`AddWatch`]: the watch is set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AddWatchReply as "ErrorResponse" {
        /// A second code besides the header's; servers always send [`ErrorCode::OK`].
        pub err: ErrorCode,
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

record! {
    /// Body of checkWatches and removeWatches requests; `OP` is the opcode.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WatchesRequest<'a, const OP: i32> as "CheckWatchesRequest" {
        /// The watched path.
        pub path: Cow<'a, str>,
        /// The kind of watch to check or remove.
        pub watcher_type: WatcherType as "type",
    }
}

request!(CheckWatches<'_>: OpCode::CheckWatches -> (), path);
request!(RemoveWatches<'_>: OpCode::RemoveWatches -> (), path);
