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

use bytes::{BufMut, BytesMut};

use crate::{
    ids::Zxid,
    request::{OpCode, Request},
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN, LONG_LEN},
    },
};

/// Request to re-register one-shot watches on a new connection. All server versions support it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetWatches<'a> {
    /// The highest zxid that the client has seen.
    pub relative_zxid: Zxid,
    /// Paths watched with getData, or with exists on an existing node.
    pub data: Vec<Cow<'a, str>>,
    /// Paths watched with exists on a missing node.
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
        out.put_i64(self.relative_zxid.0);
        writer::put_vector(out, &self.data);
        writer::put_vector(out, &self.exist);
        writer::put_vector(out, &self.child);
    }
}

impl<'a> Decode<'a> for SetWatches<'a> {
    const RECORD: &'static str = "SetWatches";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            relative_zxid: Zxid(r.i64("relativeZxid")?),
            data: paths(r, "dataWatches")?,
            exist: paths(r, "existWatches")?,
            child: paths(r, "childWatches")?,
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

/// Request to re-register watches of all kinds on a new connection.
///
/// It needs a server of 3.6.0 or newer; an older one closes the connection. Use [`SetWatches`] if there are
/// no persistent watches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetWatches2<'a> {
    /// The highest zxid that the client has seen.
    pub relative_zxid: Zxid,
    /// Paths watched with getData, or with exists on an existing node.
    pub data: Vec<Cow<'a, str>>,
    /// Paths watched with exists on a missing node.
    pub exist: Vec<Cow<'a, str>>,
    /// Paths watched with getChildren.
    pub child: Vec<Cow<'a, str>>,
    /// Paths watched with [`AddWatchMode::Persistent`](crate::AddWatchMode::Persistent).
    pub persistent: Vec<Cow<'a, str>>,
    /// Paths watched with
    /// [`AddWatchMode::PersistentRecursive`](crate::AddWatchMode::PersistentRecursive).
    pub persistent_recursive: Vec<Cow<'a, str>>,
}

impl Encode for SetWatches2<'_> {
    fn encoded_len(&self) -> usize {
        LONG_LEN
            + writer::vector_len(&self.data)
            + writer::vector_len(&self.exist)
            + writer::vector_len(&self.child)
            + writer::vector_len(&self.persistent)
            + writer::vector_len(&self.persistent_recursive)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i64(self.relative_zxid.0);
        writer::put_vector(out, &self.data);
        writer::put_vector(out, &self.exist);
        writer::put_vector(out, &self.child);
        writer::put_vector(out, &self.persistent);
        writer::put_vector(out, &self.persistent_recursive);
    }
}

impl<'a> Decode<'a> for SetWatches2<'a> {
    const RECORD: &'static str = "SetWatches2";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            relative_zxid: Zxid(r.i64("relativeZxid")?),
            data: paths(r, "dataWatches")?,
            exist: paths(r, "existWatches")?,
            child: paths(r, "childWatches")?,
            persistent: paths(r, "persistentWatches")?,
            persistent_recursive: paths(r, "persistentRecursiveWatches")?,
        })
    }
}

impl Request for SetWatches2<'_> {
    const OP: OpCode = OpCode::SetWatches2;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        None
    }
}

fn paths<'a>(r: &mut Reader<'a>, field: &'static str) -> Result<Vec<Cow<'a, str>>, DecodeError> {
    r.vector(field, INT_LEN, |r| r.text(field))
}
