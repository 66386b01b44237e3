//! What watches report, and the numbers that say which watches are meant.
//!
//! ```text
//! WatcherEvent  type: int, state: int, path: ustring
//! ```
//!
//! The names and numbers are those of `Watcher.Event`, `Watcher.WatcherType` and `AddWatchMode` in
//! ZooKeeper's source. The requests are in [`set_watches`](crate::set_watches) and
//! [`add_watch`](crate::add_watch).
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

use bytes::{BufMut, BytesMut};

use crate::wire::{
    Decode, DecodeError, Encode, Reader,
    writer::{self, INT_LEN},
};

/// A notification: the body of a frame numbered [`xid::NOTIFICATION`](crate::xid::NOTIFICATION).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatcherEvent {
    /// What happened.
    pub event_type: EventType,
    /// The state of the session, of little use: on the wire always
    /// [`SYNC_CONNECTED`](KeeperState::SYNC_CONNECTED).
    pub state: KeeperState,
    /// The path of the node it happened to.
    pub path: String,
}

impl Encode for WatcherEvent {
    fn encoded_len(&self) -> usize {
        2 * INT_LEN + writer::java_text_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.event_type.0);
        out.put_i32(self.state.0);
        writer::put_java_text(out, &self.path);
    }
}

impl<'a> Decode<'a> for WatcherEvent {
    const RECORD: &'static str = "WatcherEvent";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            event_type: EventType(r.i32("type")?),
            state: KeeperState(r.i32("state")?),
            path: r.text("path")?.into_owned(),
        })
    }
}

/// What happened to a watched node. A plain number, so that an unknown one can be passed over.
/// `Display` and `Debug` print the name.
///
/// Servers send the four that begin with `NODE`. The others are how clients tell their own watchers
/// about themselves.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventType(pub i32);

/// The state of a session as a notification gives it. A plain number, like [`EventType`].
///
/// Servers only ever send [`SYNC_CONNECTED`](Self::SYNC_CONNECTED); the others are how clients tell
/// their watchers about the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeeperState(pub i32);

/// Declares the constants of a plain number and their names in one table.
macro_rules! names {
    ($type:ident: $($(#[$doc:meta])* $constant:ident = $code:literal, $name:literal;)*) => {
        impl $type {
            $($(#[$doc])* pub const $constant: Self = Self($code);)*

            /// The name ZooKeeper gives the number; `None` for an unknown one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($name),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($type), "({})"), self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

names! { EventType:
    /// Made by clients: the state of the session changed; there is no path. The C client calls it
    /// the session event.
    NONE = -1, "None";
    /// Made by the C client: a watch was not set.
    NOT_WATCHING = -2, "NotWatching";
    /// The node was created.
    NODE_CREATED = 1, "NodeCreated";
    /// The node was deleted.
    NODE_DELETED = 2, "NodeDeleted";
    /// The node's data was set, perhaps to what it was.
    NODE_DATA_CHANGED = 3, "NodeDataChanged";
    /// A child of the node was created or deleted.
    NODE_CHILDREN_CHANGED = 4, "NodeChildrenChanged";
    /// Made by clients: a watch for data or existence was removed.
    DATA_WATCH_REMOVED = 5, "DataWatchRemoved";
    /// Made by clients: a watch for children was removed.
    CHILD_WATCH_REMOVED = 6, "ChildWatchRemoved";
    /// Made by clients: a persistent watch, recursive or not, was removed.
    PERSISTENT_WATCH_REMOVED = 7, "PersistentWatchRemoved";
}

names! { KeeperState:
    /// Never used.
    UNKNOWN = -1, "Unknown";
    /// Made by clients: there is no connection.
    DISCONNECTED = 0, "Disconnected";
    /// Never used.
    NO_SYNC_CONNECTED = 1, "NoSyncConnected";
    /// Connected to a server of the quorum: the only state servers send.
    SYNC_CONNECTED = 3, "SyncConnected";
    /// Made by clients: authentication was refused; there will be no further connection.
    AUTH_FAILED = 4, "AuthFailed";
    /// Made by clients: connected to a server that has no quorum.
    CONNECTED_READ_ONLY = 5, "ConnectedReadOnly";
    /// Made by clients: the SASL exchange succeeded.
    SASL_AUTHENTICATED = 6, "SaslAuthenticated";
    /// Made by clients since 3.6: the client was closed.
    CLOSED = 7, "Closed";
    /// Made by clients: the session has expired; there will be no further connection.
    EXPIRED = -112, "Expired";
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
            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> i32 {
                self as i32
            }

            /// What a number on the wire stands for; `None` for one that no server knows.
            #[must_use]
            pub const fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Which watches on a path [`CheckWatches`](crate::CheckWatches) and
    /// [`RemoveWatches`](crate::RemoveWatches) mean.
    ///
    /// Before 3.9.0 the first two match watches of any mode.
    WatcherType:
    /// One-shot watches for the list of children.
    Children = 1,
    /// One-shot watches for data and existence.
    Data = 2,
    /// All watches.
    Any = 3,
    /// Persistent watches that are not recursive. Since 3.9.0; an older server answers
    /// [`MARSHALLING_ERROR`](crate::ErrorCode::MARSHALLING_ERROR).
    Persistent = 4,
    /// Persistent recursive watches. Since 3.9.0, like [`Persistent`](Self::Persistent).
    PersistentRecursive = 5,
}

codes! {
    /// What an [`AddWatch`](crate::AddWatch) watches.
    AddWatchMode:
    /// The node, and the list of its children.
    Persistent = 0,
    /// The node and all below it. Lists of children are not reported, each creation and deletion
    /// is.
    PersistentRecursive = 1,
}
