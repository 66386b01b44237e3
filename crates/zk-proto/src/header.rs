//! The headers of ordinary requests and replies.
//!
//! ```text
//! RequestHeader  xid: int, type: int
//! ReplyHeader    xid: int, zxid: long, err: int
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Encode, ErrorCode, ReplyHeader};
//!
//! let header = ReplyHeader { xid: 3, zxid: 9, err: ErrorCode::NO_NODE };
//! let mut out = BytesMut::new();
//! header.encode(&mut out);
//! let (read, body) = ReplyHeader::split(&out.freeze())?;
//! assert_eq!(read, header);
//! assert!(body.is_empty());
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    code::ErrorCode,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{INT_LEN, LONG_LEN},
    },
};

/// What stands before every request except the connect record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// The request's number; see [`xid`](crate::xid).
    pub xid: i32,
    /// The operation, as [`OpCode::code`](crate::OpCode::code) gives it. Raw, because a server has
    /// to answer opcodes it does not know.
    pub op: i32,
}

impl RequestHeader {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 2 * INT_LEN;

    /// Reads the header of a request frame and returns it with the body behind it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame is shorter than a header.
    pub fn split(frame: &Bytes) -> Result<(Self, Bytes), DecodeError> {
        split_header(frame)
    }
}

impl Encode for RequestHeader {
    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.xid);
        out.put_i32(self.op);
    }
}

impl<'a> Decode<'a> for RequestHeader {
    const RECORD: &'static str = "RequestHeader";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.i32("xid")?, op: r.i32("type")? })
    }
}

/// What stands before every reply and notification except the connect response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The number of the request answered, or one of the fixed numbers of [`xid`](crate::xid).
    pub xid: i32,
    /// The last zxid the answering server had applied when it built the reply.
    ///
    /// Only worth remembering when positive and not on a notification: it is 0 in auth replies, -1
    /// for unimplemented operations and for notifications of servers before 3.9, and from 3.9 on
    /// the events of one transaction all carry its zxid, so that remembering the first would lose
    /// the others if the connection broke in between.
    pub zxid: i64,
    /// How the operation ended. Unless it is [`ErrorCode::OK`], ignore what follows the header:
    /// usually there is nothing, but some error replies have a body that means nothing.
    pub err: ErrorCode,
}

impl ReplyHeader {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 2 * INT_LEN + LONG_LEN;

    /// Reads the header of a reply frame and returns it with the body behind it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame is shorter than a header.
    pub fn split(frame: &Bytes) -> Result<(Self, Bytes), DecodeError> {
        split_header(frame)
    }
}

impl fmt::Debug for ReplyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyHeader")
            .field("xid", &self.xid)
            .field("zxid", &format_args!("{:#x}", self.zxid))
            .field("err", &self.err)
            .finish()
    }
}

impl Encode for ReplyHeader {
    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.xid);
        out.put_i64(self.zxid);
        out.put_i32(self.err.0);
    }
}

impl<'a> Decode<'a> for ReplyHeader {
    const RECORD: &'static str = "ReplyHeader";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.i32("xid")?, zxid: r.i64("zxid")?, err: ErrorCode(r.i32("err")?) })
    }
}

fn split_header<'a, H: Decode<'a>>(frame: &'a Bytes) -> Result<(H, Bytes), DecodeError> {
    let mut r = Reader::new(frame, H::RECORD);
    let header = H::decode(&mut r)?;
    Ok((header, frame.slice(r.offset()..)))
}
