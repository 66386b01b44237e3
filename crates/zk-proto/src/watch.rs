//! Watch notifications, event types, and kinds of watches.
//!
//! ```text
//! WatcherEvent  type: int, state: int, path: ustring
//! ```
//!
//! The names and numbers are those of `Watcher.Event`, `Watcher.WatcherType` and `AddWatchMode` in
//! ZooKeeper's source. The requests are in `set_watches.rs` and
//! `add_watch.rs`.
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Decode, Encode, EventType, KeeperState, WatcherEvent};
//!
//! let event = WatcherEvent {
//!     event_type: EventType::NODE_DELETED,
//!     state: KeeperState::SYNC_CONNECTED,
//!     path: "/locks/lock-0000000000".into(),
//! };
//! let mut out = BytesMut::new();
//! event.encode(&mut out);
//! assert_eq!(WatcherEvent::from_frame(&out.freeze())?, event);
//! assert_eq!(event.event_type.name(), Some("NodeDeleted"));
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::fmt;

use bytes::BufMut;

use crate::{
    named_numbers::named_numbers,
    record::{JavaText, Plain, forms, record},
    wire::{DecodeErrorKind, writer::INT_LEN},
};

record! {
    /// Notification: the body of a frame with the number [`xid::NOTIFICATION`](crate::xid::NOTIFICATION).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WatcherEvent as "WatcherEvent" {
        /// The type of the event.
        pub event_type: EventType as "type",
        /// The state of the session. On the wire it is always
        /// [`SYNC_CONNECTED`](KeeperState::SYNC_CONNECTED).
        pub state: KeeperState,
        /// The path of the node.
        pub path: String as "path" by JavaText,
    }
}

/// Type of an event on a watched node, as the number on the wire.
///
/// A client can ignore an unknown number. `Display` and `Debug` print the name. Servers send the four types
/// that begin with `NODE`. Clients use the others for events of their own, such as a removed watch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventType(pub i32);

/// State of a session in a notification, as the number on the wire.
///
/// Servers only send [`SYNC_CONNECTED`](Self::SYNC_CONNECTED). Clients use the other states to notify their
/// watchers of session events.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeeperState(pub i32);

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for KeeperState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

named_numbers! { EventType:
    /// Produced by clients: the state of the session changed; there is no path. The C client names it session
    /// event.
    NONE = -1, "None";
    /// Produced by the C client: a watch was not set.
    NOT_WATCHING = -2, "NotWatching";
    /// The node was created.
    NODE_CREATED = 1, "NodeCreated";
    /// The node was deleted.
    NODE_DELETED = 2, "NodeDeleted";
    /// The node's data was set, possibly to the same value.
    NODE_DATA_CHANGED = 3, "NodeDataChanged";
    /// A child of the node was created or deleted.
    NODE_CHILDREN_CHANGED = 4, "NodeChildrenChanged";
    /// Produced by clients: a watch for data or existence was removed.
    DATA_WATCH_REMOVED = 5, "DataWatchRemoved";
    /// Produced by clients: a watch for children was removed.
    CHILD_WATCH_REMOVED = 6, "ChildWatchRemoved";
    /// Produced by clients: a persistent watch, recursive or not, was removed.
    PERSISTENT_WATCH_REMOVED = 7, "PersistentWatchRemoved";
}

named_numbers! { KeeperState:
    /// Never used.
    UNKNOWN = -1, "Unknown";
    /// Produced by clients: there is no connection.
    DISCONNECTED = 0, "Disconnected";
    /// Never used.
    NO_SYNC_CONNECTED = 1, "NoSyncConnected";
    /// Connected to a server of the quorum: the only state servers send.
    SYNC_CONNECTED = 3, "SyncConnected";
    /// Produced by clients: authentication failed; the client does not reconnect.
    AUTH_FAILED = 4, "AuthFailed";
    /// Produced by clients: connected to a server that has no quorum.
    CONNECTED_READ_ONLY = 5, "ConnectedReadOnly";
    /// Produced by clients: the SASL exchange succeeded.
    SASL_AUTHENTICATED = 6, "SaslAuthenticated";
    /// Produced by clients since 3.6: the client was closed.
    CLOSED = 7, "Closed";
    /// Produced by clients: the session has expired; the client does not reconnect.
    EXPIRED = -112, "Expired";
}

forms! { Plain:
    EventType => |_| INT_LEN, |event, out| out.put_i32(event.0), |r, field| r.i32(field).map(EventType);
    KeeperState => |_| INT_LEN, |state, out| out.put_i32(state.0), |r, field| r.i32(field).map(KeeperState);
}

/// Declares an enum of numbers on the wire.
macro_rules! codes {
    (
        $(#[$type_doc:meta])* $type:ident:
        $($(#[$doc:meta])* $variant:ident = $code:literal,)*
    ) => {
        $(#[$type_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])* $variant = $code,)*
        }

        impl $type {
            /// Returns the number on the wire.
            #[must_use]
            pub const fn code(self) -> i32 {
                self as i32
            }

            /// Returns the value for a number on the wire, or `None` for a number that no server knows.
            #[must_use]
            pub const fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        forms! { Plain:
            $type =>
                |_| INT_LEN,
                |value, out| out.put_i32(value.code()),
                |r, field| {
                    let start = r.offset();
                    let code = r.i32(field)?;
                    $type::from_code(code)
                        .ok_or_else(|| r.error(field, start, DecodeErrorKind::UnknownValue(code)))
                };
        }
    };
}

codes! {
    /// Kind of watches that [`CheckWatches`](crate::CheckWatches) and [`RemoveWatches`](crate::RemoveWatches)
    /// select.
    ///
    /// Before 3.9.0 the first two kinds match watches of any mode.
    WatcherType:
    /// One-shot watches for the list of children.
    Children = 1,
    /// One-shot watches for data and existence.
    Data = 2,
    /// All watches.
    Any = 3,
    /// Persistent watches that are not recursive. Since 3.9.0; an older server replies with
    /// [`MARSHALLING_ERROR`](crate::ErrorCode::MARSHALLING_ERROR).
    Persistent = 4,
    /// Persistent recursive watches. Since 3.9.0, like [`Persistent`](Self::Persistent).
    PersistentRecursive = 5,
}

codes! {
    /// Scope of an [`AddWatch`](crate::AddWatch).
    AddWatchMode:
    /// The node, and the list of its children.
    Persistent = 0,
    /// The node and all its descendants. The watch reports each creation and deletion, and no changes to
    /// lists of children.
    PersistentRecursive = 1,
}
