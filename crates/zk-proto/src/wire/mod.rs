//! jute primitives, and the two traits that all records implement.
//!
//! jute is ZooKeeper's record format: big-endian integers, length-prefixed buffers and strings, counted
//! vectors, no padding and no tags. A record consists of its fields in declared order. [`Reader`] is the
//! cursor over a received frame; [`writer`] contains the append functions.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use zk_proto::{Reader, writer};
//!
//! let mut out = BytesMut::new();
//! writer::put_text(&mut out, "/a");
//! writer::put_bool(&mut out, true);
//!
//! let frame = out.freeze();
//! let mut r = Reader::new(&frame, "example");
//! assert_eq!(r.text("path")?, "/a");
//! assert!(r.bool("watch")?);
//! assert_eq!(r.remaining(), 0);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

mod error;
pub(crate) mod reader;
pub mod writer;

use bytes::{Bytes, BytesMut};

pub use error::{DecodeError, DecodeErrorKind};
pub use reader::{Reader, decode_text};

/// Record that can be encoded.
pub trait Encode {
    /// Returns the exact number of bytes that [`encode`](Self::encode) appends.
    ///
    /// The length is available before encoding, so that a frame takes one reservation and one append.
    fn encoded_len(&self) -> usize;

    /// Appends the record to `out`: exactly [`encoded_len`](Self::encoded_len) bytes.
    ///
    /// Encoding never fails. The caller checks before encoding whether the frame fits the server's limit,
    /// with [`request_frame_len`](crate::request_frame_len).
    fn encode(&self, out: &mut BytesMut);
}

/// Record that can be decoded from a frame with lifetime `'a`.
///
/// Requests borrow their paths from the frame. Replies own their contents and share the frame's memory for
/// data, so they implement this trait for every `'a`.
pub trait Decode<'a>: Sized {
    /// The record's name in ZooKeeper's definitions, which [`DecodeError`] reports.
    const RECORD: &'static str;

    /// Decodes the record at the cursor and moves the cursor behind it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes are no such record. The position of the cursor is then unspecified.
    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Decodes the record at the start of `frame`.
    ///
    /// Bytes after the record are ignored, as in ZooKeeper's server and Java client, because a newer peer may
    /// append fields.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame does not begin with such a record.
    fn from_frame(frame: &'a Bytes) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(frame, Self::RECORD))
    }
}

/// Empty body of a reply (delete, ping, setWatches, auth, closeSession).
impl Encode for () {
    fn encoded_len(&self) -> usize {
        0
    }

    fn encode(&self, _out: &mut BytesMut) {}
}

/// Empty body of a reply (delete, ping, setWatches, auth, closeSession).
impl<'a> Decode<'a> for () {
    const RECORD: &'static str = "empty";

    fn decode(_r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}
