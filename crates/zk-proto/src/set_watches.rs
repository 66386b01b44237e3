//! Re-registration of watches after a reconnect.
//!
//! ```text
//! SetWatches   relativeZxid: long, dataWatches, existWatches, childWatches: vector<ustring>
//! SetWatches2  the same, then persistentWatches, persistentRecursiveWatches: vector<ustring>
//! ```
//!
//! The replies have no body.
//!
//! A server keeps watches per connection, so they are lost with the connection. At the re-registration, the
//! server compares each node with `relative_zxid`. A one-shot watch fires at once if its node has changed
//! since, before the reply and regardless of the ACL. All other one-shot watches are set. Persistent watches
//! are set, and the events they missed are lost.
//!
//! Split long lists: the whole request has to fit a frame.
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Decode, Encode, SetWatches2, Zxid};
//!
//! let request = SetWatches2 {
//!     relative_zxid: Zxid(7),
//!     persistent: vec!["/a".into()],
//!     ..SetWatches2::default()
//! };
//! let mut out = BytesMut::new();
//! request.encode(&mut out);
//! assert_eq!(SetWatches2::from_frame(&out.freeze())?, request);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::borrow::Cow;

use crate::{
    ids::Zxid,
    record::{Plain, forms, record, request},
    request::OpCode,
    wire::writer::{self, INT_LEN},
};

record! {
    /// Request to re-register one-shot watches on a new connection. All server versions support it.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct SetWatches<'a> as "SetWatches" {
        /// The highest zxid that the client has seen.
        pub relative_zxid: Zxid as "relativeZxid",
        /// Paths watched with getData, or with exists on an existing node.
        pub data: Vec<Cow<'a, str>> as "dataWatches",
        /// Paths watched with exists on a missing node.
        pub exist: Vec<Cow<'a, str>> as "existWatches",
        /// Paths watched with getChildren.
        pub child: Vec<Cow<'a, str>> as "childWatches",
    }
}

request!(SetWatches<'_>: OpCode::SetWatches -> ());

record! {
    /// Request to re-register watches of all kinds on a new connection.
    ///
    /// It needs a server of 3.6.0 or newer; an older one closes the connection. Use [`SetWatches`] if there
    /// are no persistent watches.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct SetWatches2<'a> as "SetWatches2" {
        /// The highest zxid that the client has seen.
        pub relative_zxid: Zxid as "relativeZxid",
        /// Paths watched with getData, or with exists on an existing node.
        pub data: Vec<Cow<'a, str>> as "dataWatches",
        /// Paths watched with exists on a missing node.
        pub exist: Vec<Cow<'a, str>> as "existWatches",
        /// Paths watched with getChildren.
        pub child: Vec<Cow<'a, str>> as "childWatches",
        /// Paths watched with [`AddWatchMode::Persistent`](crate::AddWatchMode::Persistent).
        pub persistent: Vec<Cow<'a, str>> as "persistentWatches",
        /// Paths watched with
        /// [`AddWatchMode::PersistentRecursive`](crate::AddWatchMode::PersistentRecursive).
        pub persistent_recursive: Vec<Cow<'a, str>> as "persistentRecursiveWatches",
    }
}

request!(SetWatches2<'_>: OpCode::SetWatches2 -> ());

forms! { Plain:
    Vec<Cow<'a, str>> =>
        |paths| writer::vector_len(paths),
        |paths, out| writer::put_vector(out, paths),
        |r, field| r.vector(field, INT_LEN, |r| r.text(field));
}
