//! Watches: re-arming them after a reconnect, and what they report.
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

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    op::OpCode,
    request::Request,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN, LONG_LEN},
    },
};

/// Re-arms one-shot watches on a new connection.
///
/// The server compares each node with `relative_zxid`: what has changed since is reported at once,
/// before the reply, the rest is armed. Split long lists: the whole request has to fit a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// The highest zxid the client has seen.
    pub relative_zxid: i64,
    /// Paths watched with getData, or with exists on a node that was there.
    pub data: Vec<Cow<'a, str>>,
    /// Paths watched with exists on a node that was not there.
    pub exist: Vec<Cow<'a, str>>,
    /// Paths watched with getChildren.
    pub child: Vec<Cow<'a, str>>,
}

impl Encode for SetWatches<'_> {
    fn encoded_len(&self) -> usize {
        LONG_LEN
            + writer::vector_len(&self.data)
            + writer::vector_len(&self.exist)
            + writer::vector_len(&self.child)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i64(self.relative_zxid);
        writer::put_vector(out, &self.data);
        writer::put_vector(out, &self.exist);
        writer::put_vector(out, &self.child);
    }
}

impl<'a> Decode<'a> for SetWatches<'a> {
    const RECORD: &'static str = "SetWatches";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            relative_zxid: r.i64("relativeZxid")?,
            data: r.vector("dataWatches", INT_LEN, |r| r.text("dataWatches.path"))?,
            exist: r.vector("existWatches", INT_LEN, |r| r.text("existWatches.path"))?,
            child: r.vector("childWatches", INT_LEN, |r| r.text("childWatches.path"))?,
        })
    }
}

impl Request for SetWatches<'_> {
    const OP: OpCode = OpCode::SetWatches;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        None
    }
}

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
        2 * INT_LEN + writer::text_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.event_type.0);
        out.put_i32(self.state.0);
        writer::put_text(out, &self.path);
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventType(pub i32);

impl EventType {
    /// The node was created.
    pub const NODE_CREATED: Self = Self(1);
    /// The node was deleted.
    pub const NODE_DELETED: Self = Self(2);
    /// The node's data was set, perhaps to what it was.
    pub const NODE_DATA_CHANGED: Self = Self(3);
    /// A child of the node was created or deleted.
    pub const NODE_CHILDREN_CHANGED: Self = Self(4);

    /// The name ZooKeeper gives the type; `None` for one that servers do not send.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::NODE_CREATED => Some("NodeCreated"),
            Self::NODE_DELETED => Some("NodeDeleted"),
            Self::NODE_DATA_CHANGED => Some("NodeDataChanged"),
            Self::NODE_CHILDREN_CHANGED => Some("NodeChildrenChanged"),
            _ => None,
        }
    }
}

/// The state of a session as a notification gives it. A plain number, like [`EventType`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeeperState(pub i32);

impl KeeperState {
    /// Connected to a server of the quorum: the only state servers send.
    pub const SYNC_CONNECTED: Self = Self(3);
}
