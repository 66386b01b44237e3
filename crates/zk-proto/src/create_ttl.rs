//! Request that creates a node with a time to live. The server deletes such a node after a period without
//! changes.
//!
//! ```text
//! CreateTTLRequest  path: ustring, data: buffer, acl: vector<ACL>, flags: int, ttl: long
//! Create2Response   path: ustring, stat: Stat
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{CreateTtl, Decode, Encode, OPEN_ACL_UNSAFE};
//!
//! let request = CreateTtl {
//!     path: "/cache/entry".into(),
//!     data: None,
//!     acl: OPEN_ACL_UNSAFE.into(),
//!     sequential: false,
//!     ttl_ms: 60_000,
//! };
//! let mut out = BytesMut::new();
//! request.encode(&mut out);
//! assert_eq!(CreateTtl::from_frame(&out.freeze())?, request);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    acl::Acl,
    create::CreateReply,
    op::OpCode,
    request::Request,
    wire::{
        Decode, DecodeError, DecodeErrorKind, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Flags of a node with a time to live, without and with a sequence number.
const WITH_TTL: i32 = 5;
const SEQUENTIAL_WITH_TTL: i32 = 6;

/// Request to create a node with a time to live and return its path and Stat.
///
/// It needs a server of 3.5.3 or newer that runs with `zookeeper.extendedTypesEnabled=true`.
///
/// It is a separate type, so that the operation is never sent with the flags of another kind of node. Such a
/// request passes the checks of a 3.8.0 or 3.9.5 server and then terminates its process. The server cannot
/// restart from its log afterwards.
///
/// The errors are those of the other create operations. In addition, a server without extended types returns
/// [`UNIMPLEMENTED`](crate::ErrorCode::UNIMPLEMENTED). A time to live out of range is rejected with
/// [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTtl<'a> {
    /// The path; the server appends ten digits if `sequential` is set.
    pub path: Cow<'a, str>,
    /// The data. `None` is null, which a server distinguishes from empty.
    pub data: Option<Cow<'a, [u8]>>,
    /// The access control list; a server rejects an empty one.
    pub acl: Cow<'a, [Acl]>,
    /// Whether the server appends a sequence number to the name.
    pub sequential: bool,
    /// The time to live in milliseconds, 1 to 2^40 - 1. The server rejects any other value.
    pub ttl_ms: i64,
}

impl Encode for CreateTtl<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path)
            + writer::buffer_len(self.data.as_deref())
            + writer::vector_len(&self.acl)
            + INT_LEN
            + size_of::<i64>()
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        writer::put_buffer(out, self.data.as_deref());
        writer::put_vector(out, &self.acl);
        out.put_i32(if self.sequential { SEQUENTIAL_WITH_TTL } else { WITH_TTL });
        out.put_i64(self.ttl_ms);
    }
}

impl<'a> Decode<'a> for CreateTtl<'a> {
    const RECORD: &'static str = "CreateTTLRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let path = r.text("path")?;
        let data = r.slice("data")?.map(Cow::Borrowed);
        let acl = r.vector("acl", Acl::LEN_MIN, Acl::decode)?.into();
        let start = r.offset();
        let sequential = match r.i32("flags")? {
            WITH_TTL => false,
            SEQUENTIAL_WITH_TTL => true,
            flags => {
                return Err(r.error("flags", start, DecodeErrorKind::UnknownCreateFlags(flags)));
            }
        };
        Ok(Self { path, data, acl, sequential, ttl_ms: r.i64("ttl")? })
    }
}

impl Request for CreateTtl<'_> {
    const OP: OpCode = OpCode::CreateTtl;
    type Reply = CreateReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}
