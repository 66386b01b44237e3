//! Frames: a four-byte length, then that many bytes of payload, both ways.
//!
//! ```text
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
    header::{ReplyHeader, RequestHeader},
    request::Request,
    wire::{
        Encode,
        writer::{INT_LEN, wire_len},
    },
};

/// The longest payload a server accepts by default: its `jute.maxbuffer`, just under 1 MiB.
///
/// A server closes the connection of whoever sends more, without a reply, and every retry would end
/// the same way. So check [`request_frame_len`] before sending.
pub const FRAME_LEN_MAX_SERVER: usize = 0xf_ffff;

/// The longest payload a client should accept by default: 16 MiB.
///
/// A server has no limit on what it sends: the children of one node have been seen to fill 2 MB
/// past its own limit for requests. 16 MiB is a list of about 280,000 lock contenders, more than
/// one node can serve, and still an amount of memory a client survives.
pub const FRAME_LEN_MAX_CLIENT: usize = 16 * 1024 * 1024;

/// Takes one whole frame off the front of `buf` and returns its payload, sharing `buf`'s memory.
///
/// `Ok(None)`: more bytes are needed; `buf` is untouched. The length is checked against `max`
/// (payload bytes) as soon as its four bytes are there, before the payload is waited for. Never
/// reserves: how much to read ahead is the caller's business.
///
/// # Errors
///
/// [`FrameError`] if the length is negative or above `max`. The stream cannot be read any further.
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

/// Appends a request as a frame: length, header, body. Reserves once, exactly.
pub fn encode_request<R: Request>(xid: i32, request: &R, out: &mut BytesMut) {
    begin_frame(request_frame_len(request), out);
    RequestHeader { xid, op: R::OP.code() }.encode(out);
    request.encode(out);
}

/// The payload length of a request's frame in bytes: header and body, without the four bytes of
/// the length itself. This is what a server compares with its limit ([`FRAME_LEN_MAX_SERVER`]).
pub fn request_frame_len<R: Request>(request: &R) -> usize {
    RequestHeader::LEN + request.encoded_len()
}

/// Appends a reply, or a notification, as a frame: length, header, body if any. For servers.
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

/// Appends a bare record as a frame: the connect exchange, which has no headers.
pub fn encode_record<E: Encode>(record: &E, out: &mut BytesMut) {
    begin_frame(record.encoded_len(), out);
    record.encode(out);
}

/// Overwrites the xid of a request encoded earlier. `frame` starts at its length prefix.
///
/// For requests that were queued while there was no connection: the numbers of a connection follow
/// the order of sending. A slice too short to hold a request is left as it is.
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

/// Makes room for a whole frame and writes its length prefix.
fn begin_frame(payload_len: usize, out: &mut BytesMut) {
    out.reserve(INT_LEN + payload_len);
    out.put_i32(wire_len(payload_len));
}

/// The length in front of a frame is not one to read on from. The connection has to be closed.
/// `Debug` prints the same line as `Display`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length is negative.
    NegativeLength(i32),
    /// The frame is longer than accepted.
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
