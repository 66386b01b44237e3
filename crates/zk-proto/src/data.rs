//! Requests that read and replace a node's data.
//!
//! ```text
//! GetDataRequest   path: ustring, watch: boolean
//! GetDataResponse  data: buffer, stat: Stat
//! SetDataRequest   path: ustring, data: buffer, version: int
//! SetDataResponse  stat: Stat
//! ```
//!
//! A null buffer (length -1) and an empty buffer (length 0) are different values, for a server too.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use zk_proto::{DataReply, Decode, Encode, Stat};
//!
//! let mut out = BytesMut::new();
//! DataReply { data: Some(Bytes::from_static(b"on")), stat: Stat::default() }.encode(&mut out);
//! let frame = out.freeze();
//! let data = DataReply::from_frame(&frame)?.data.unwrap();
//! assert_eq!(data, "on");
//! assert_eq!(data.as_ptr(), frame[4..].as_ptr()); // not a copy
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    request::{OpCode, Request, path_watch_len, put_path_watch, read_path_watch},
    stat::Stat,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to read a node's data and Stat.
///
/// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or
/// [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetData<'a> {
    /// The path.
    pub path: Cow<'a, str>,
    /// Whether to set a one-shot watch for data changes and deletion. The server sets no watch if the node
    /// does not exist.
    pub watch: bool,
}

impl Encode for GetData<'_> {
    fn encoded_len(&self) -> usize {
        path_watch_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        put_path_watch(out, &self.path, self.watch);
    }
}

impl<'a> Decode<'a> for GetData<'a> {
    const RECORD: &'static str = "GetDataRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (path, watch) = read_path_watch(r)?;
        Ok(Self { path, watch })
    }
}

impl Request for GetData<'_> {
    const OP: OpCode = OpCode::GetData;
    type Reply = DataReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// Data and Stat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReply {
    /// The data, which shares the memory of its frame. `None` is null, which a server distinguishes from
    /// empty.
    ///
    /// Even a small slice keeps the whole frame allocated. Copy data that is stored for long.
    pub data: Option<Bytes>,
    /// The node's Stat.
    pub stat: Stat,
}

impl Encode for DataReply {
    fn encoded_len(&self) -> usize {
        writer::buffer_len(self.data.as_deref()) + Stat::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_buffer(out, self.data.as_deref());
        self.stat.encode(out);
    }
}

impl<'a> Decode<'a> for DataReply {
    const RECORD: &'static str = "GetDataResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { data: r.buffer("data")?, stat: Stat::decode(r)? })
    }
}

/// Request to replace a node's data and return its new Stat.
///
/// A server rejects it with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path),
/// [`NO_NODE`](crate::ErrorCode::NO_NODE), [`NO_AUTH`](crate::ErrorCode::NO_AUTH),
/// [`QUOTA_EXCEEDED`](crate::ErrorCode::QUOTA_EXCEEDED) or
/// [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetData<'a> {
    /// The path.
    pub path: Cow<'a, str>,
    /// The new data. `None` is null, which a server distinguishes from empty.
    pub data: Option<Cow<'a, [u8]>>,
    /// The version that the current data must have; -1 for any version.
    pub version: i32,
}

impl Encode for SetData<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path) + writer::buffer_len(self.data.as_deref()) + INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        writer::put_buffer(out, self.data.as_deref());
        out.put_i32(self.version);
    }
}

impl<'a> Decode<'a> for SetData<'a> {
    const RECORD: &'static str = "SetDataRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            path: r.text("path")?,
            data: r.slice("data")?.map(Cow::Borrowed),
            version: r.i32("version")?,
        })
    }
}

impl Request for SetData<'_> {
    const OP: OpCode = OpCode::SetData;
    type Reply = Stat;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}
