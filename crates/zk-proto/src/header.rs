//! Headers of ordinary requests and replies.
//!
//! ```text
//! RequestHeader  xid: int, type: int
//! ReplyHeader    xid: int, zxid: long, err: int
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Encode, ErrorCode, ReplyHeader, Zxid};
//!
//! let header = ReplyHeader { xid: 3, zxid: Zxid(9), err: ErrorCode::NO_NODE };
//! let mut out = BytesMut::new();
//! header.encode(&mut out);
//! let (read, body) = ReplyHeader::split(&out.freeze())?;
//! assert_eq!(read, header);
//! assert!(body.is_empty());
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    code::ErrorCode,
    ids::Zxid,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{INT_LEN, LONG_LEN},
    },
};

/// Header of every request except the connect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// The number of the request; see [`xid`](crate::xid).
    pub xid: i32,
    /// The operation, as returned by [`OpCode::code`](crate::OpCode::code). It is a raw number, because a
    /// server has to reply to unknown opcodes too.
    pub op: i32,
}

impl RequestHeader {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 2 * INT_LEN;

    /// Splits a request frame into its header and its body.
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

/// Header of every reply and notification except the connect response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The number of the request, or one of the fixed numbers of [`xid`](crate::xid).
    pub xid: i32,
    /// The last zxid that the server had applied when it built the reply.
    ///
    /// A client should store it only if it is positive and the frame is no notification:
    ///
    /// * It is 0 in auth replies.
    /// * It is -1 for unimplemented operations, and in notifications of servers before 3.9.
    /// * From 3.9 on, all notifications of one transaction carry its zxid. A client that stored the first one
    ///   would miss the others if the connection broke in between.
    pub zxid: Zxid,
    /// The outcome of the operation. Unless it is [`ErrorCode::OK`], ignore the bytes after the header. Most
    /// error replies have no body; some have one without meaning.
    pub err: ErrorCode,
}

impl ReplyHeader {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 2 * INT_LEN + LONG_LEN;

    /// Splits a reply frame into its header and its body.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame is shorter than a header.
    pub fn split(frame: &Bytes) -> Result<(Self, Bytes), DecodeError> {
        split_header(frame)
    }
}

impl Encode for ReplyHeader {
    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.xid);
        out.put_i64(self.zxid.0);
        out.put_i32(self.err.0);
    }
}

impl<'a> Decode<'a> for ReplyHeader {
    const RECORD: &'static str = "ReplyHeader";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.i32("xid")?, zxid: Zxid(r.i64("zxid")?), err: ErrorCode(r.i32("err")?) })
    }
}

fn split_header<'a, H: Decode<'a>>(frame: &'a Bytes) -> Result<(H, Bytes), DecodeError> {
    let mut r = Reader::new(frame, H::RECORD);
    let header = H::decode(&mut r)?;
    Ok((header, frame.slice(r.offset()..)))
}
