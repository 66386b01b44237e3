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

use bytes::Bytes;

use crate::{
    record::{record, request},
    request::OpCode,
    stat::Stat,
};

record! {
    /// Request to read a node's data and Stat.
    ///
    /// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or
    /// [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetData<'a> as "GetDataRequest" {
        /// The path.
        pub path: Cow<'a, str>,
        /// Whether to set a one-shot watch for data changes and deletion. The server sets no watch if the
        /// node does not exist.
        pub watch: bool,
    }
}

request!(GetData<'_>: OpCode::GetData -> DataReply, path);

record! {
    /// Data and Stat of a node.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DataReply as "GetDataResponse" {
        /// The data, which shares the memory of its frame. `None` is null, which a server distinguishes from
        /// empty.
        ///
        /// Even a small slice keeps the whole frame allocated. Copy data that is stored for long.
        pub data: Option<Bytes>,
        /// The node's Stat.
        pub stat: Stat,
    }
}

record! {
    /// Request to replace a node's data and return its new Stat.
    ///
    /// A server rejects it with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path),
    /// [`NO_NODE`](crate::ErrorCode::NO_NODE), [`NO_AUTH`](crate::ErrorCode::NO_AUTH),
    /// [`QUOTA_EXCEEDED`](crate::ErrorCode::QUOTA_EXCEEDED) or
    /// [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetData<'a> as "SetDataRequest" {
        /// The path.
        pub path: Cow<'a, str>,
        /// The new data. `None` is null, which a server distinguishes from empty.
        pub data: Option<Cow<'a, [u8]>>,
        /// The version that the current data must have; -1 for any version.
        pub version: i32,
    }
}

request!(SetData<'_>: OpCode::SetData -> Stat, path);
