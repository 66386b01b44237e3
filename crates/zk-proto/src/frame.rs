//! Frames: a four-byte length and that many bytes of payload, in both directions; and their headers.
//!
//! ```text
//! RequestHeader  xid: int, type: int
//! ReplyHeader    xid: int, zxid: long, err: int
//!
//! request       length: int, RequestHeader [, body]
//! reply         length: int, ReplyHeader [, body]
//! connect       length: int, ConnectRequest or ConnectResponse
//! notification  length: int, ReplyHeader with xid -1, WatcherEvent
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{FRAME_LEN_MAX_SERVER, FrameError, Ping, encode_request, split_frame, xid};
//!
//! let mut buf = BytesMut::new();
//! encode_request(xid::PING, &Ping, &mut buf);
//! assert_eq!(buf[..], [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]);
//!
//! let rest = buf.split_off(5);
//! assert_eq!(split_frame(&mut buf, FRAME_LEN_MAX_SERVER), Ok(None)); // more bytes needed
//! buf.unsplit(rest);
//! assert_eq!(split_frame(&mut buf, FRAME_LEN_MAX_SERVER)?.unwrap().len(), 8);
//! # Ok::<(), FrameError>(())
//! ```

use std::{error::Error, fmt};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{
    code::ErrorCode,
    ids::Zxid,
    record::record,
    request::Request,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{INT_LEN, LONG_LEN, wire_len},
    },
};

/// The longest payload that a server accepts by default: its `jute.maxbuffer`, just under 1 MiB.
///
/// A server closes the connection after a longer request, without a reply. Every retry fails in the same way.
/// Check [`request_frame_len`] before sending.
pub const FRAME_LEN_MAX_SERVER: usize = 0xf_ffff;

/// The longest payload that a client should accept by default: 16 MiB.
///
/// A server has no limit for its replies. A list of children has been observed to take 2 MB more than the
/// server's own limit for requests. The limit of 16 MiB equals a list of about 280,000 lock contenders, which
/// is more than one node can serve. A client can still afford that amount of memory.
pub const FRAME_LEN_MAX_CLIENT: usize = 16 * 1024 * 1024;

/// Splits the first complete frame off `buf` and returns its payload, which shares `buf`'s memory.
///
/// `Ok(None)` means that more bytes are needed; `buf` is unchanged. The length is compared with `max`
/// (payload bytes) as soon as its four bytes have arrived, before the payload arrives. The function never
/// reserves memory: the caller decides how much to read ahead.
///
/// # Errors
///
/// [`FrameError`] if the length is negative or greater than `max`. The rest of the stream cannot be decoded.
pub fn split_frame(buf: &mut BytesMut, max: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = buf.first_chunk::<INT_LEN>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    let len = usize::try_from(announced).map_err(|_| FrameError::NegativeLength(announced))?;
    if len > max {
        return Err(FrameError::TooLong { len, max });
    }
    if buf.len() - INT_LEN < len {
        return Ok(None);
    }
    buf.advance(INT_LEN);
    Ok(Some(buf.split_to(len).freeze()))
}

/// Appends a request as a frame: length, header, body. Reserves the exact size once.
pub fn encode_request<R: Request>(xid: i32, request: &R, out: &mut BytesMut) {
    begin_frame(request_frame_len(request), out);
    RequestHeader { xid, op: R::OP.code() }.encode(out);
    request.encode(out);
}

/// Returns the payload length of a request's frame in bytes.
///
/// The payload is header and body, without the four bytes of the length itself. A server compares this number
/// with its limit ([`FRAME_LEN_MAX_SERVER`]).
pub fn request_frame_len<R: Request>(request: &R) -> usize {
    RequestHeader::LEN + request.encoded_len()
}

/// Appends a reply or a notification as a frame: length, header, optional body. For servers.
pub fn encode_reply<E: Encode + ?Sized>(
    header: &ReplyHeader,
    body: Option<&E>,
    out: &mut BytesMut,
) {
    begin_frame(ReplyHeader::LEN + body.map_or(0, Encode::encoded_len), out);
    header.encode(out);
    if let Some(body) = body {
        body.encode(out);
    }
}

/// Appends a record without header as a frame, for the connect exchange.
pub fn encode_record<E: Encode>(record: &E, out: &mut BytesMut) {
    begin_frame(record.encoded_len(), out);
    record.encode(out);
}

/// Replaces the xid of an encoded request. `frame` starts at its length prefix.
///
/// Use it for requests that were queued without a connection, because the xids of a connection follow the
/// order of sending. A slice too short for a request stays unchanged.
///
/// ```
/// use bytes::BytesMut;
/// use zk_proto::{Delete, encode_request, patch_xid};
///
/// let request = Delete { path: "/a".into(), version: -1 };
/// let (mut queued, mut sent) = (BytesMut::new(), BytesMut::new());
/// encode_request(0, &request, &mut queued);
/// encode_request(7, &request, &mut sent);
/// patch_xid(&mut queued, 7);
/// assert_eq!(queued, sent);
/// ```
pub fn patch_xid(frame: &mut [u8], xid: i32) {
    if let Some(slot) = frame.get_mut(INT_LEN..2 * INT_LEN) {
        slot.copy_from_slice(&xid.to_be_bytes());
    }
}

/// Reserves space for a whole frame and appends its length prefix.
fn begin_frame(payload_len: usize, out: &mut BytesMut) {
    out.reserve(INT_LEN + payload_len);
    out.put_i32(wire_len(payload_len));
}

/// Invalid length prefix of a frame. The connection has to be closed. `Debug` prints the same line as
/// `Display`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length is negative.
    NegativeLength(i32),
    /// The frame is longer than the limit.
    TooLong {
        /// Payload bytes announced.
        len: usize,
        /// Payload bytes accepted.
        max: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeLength(len) => write!(f, "frame length {len} is negative"),
            Self::TooLong { len, max } => {
                write!(f, "frame of {len} bytes is longer than the accepted {max}")
            }
        }
    }
}

impl fmt::Debug for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for FrameError {}

record! {
    /// Header of every request except the connect request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RequestHeader as "RequestHeader" {
        /// The number of the request; see [`xid`](crate::xid).
        pub xid: i32,
        /// The operation, as returned by [`OpCode::code`](crate::OpCode::code). It is a raw number, because a
        /// server has to reply to unknown opcodes too.
        pub op: i32 as "type",
    }
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

record! {
    /// Header of every reply and notification except the connect response.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use zk_proto::{Encode, ErrorCode, ReplyHeader, Zxid};
    ///
    /// let header = ReplyHeader { xid: 3, zxid: Zxid(9), err: ErrorCode::NO_NODE };
    /// let mut out = BytesMut::new();
    /// header.encode(&mut out);
    /// let (read, body) = ReplyHeader::split(&out.freeze())?;
    /// assert_eq!(read, header);
    /// assert!(body.is_empty());
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReplyHeader as "ReplyHeader" {
        /// The number of the request, or one of the fixed numbers of [`xid`](crate::xid).
        pub xid: i32,
        /// The last zxid that the server had applied when it built the reply.
        ///
        /// A client should store it only if it is positive and the frame is no notification:
        ///
        /// * It is 0 in auth replies.
        /// * It is -1 for unimplemented operations, and in notifications of servers before 3.9.
        /// * From 3.9 on, all notifications of one transaction carry its zxid. A client that stored the first
        ///   one would miss the others if the connection broke in between.
        pub zxid: Zxid,
        /// The outcome of the operation. Unless it is [`ErrorCode::OK`], ignore the bytes after the header.
        /// Most error replies have no body; some have one without meaning.
        pub err: ErrorCode,
    }
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

fn split_header<'a, H: Decode<'a>>(frame: &'a Bytes) -> Result<(H, Bytes), DecodeError> {
    let mut r = Reader::new(frame, H::RECORD);
    let header = H::decode(&mut r)?;
    Ok((header, frame.slice(r.offset()..)))
}
