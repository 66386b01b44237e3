//! The jute primitives, and the two traits every record implements.
//!
//! jute is ZooKeeper's record format: big-endian integers, length-prefixed buffers and strings,
//! counted vectors, no padding and no tags. A record is its fields in declared order and nothing
//! else. [`Reader`] is the cursor over one received frame; [`writer`] holds the append functions.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use zk_proto::wire::{Reader, writer};
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
mod text;
pub mod writer;

use bytes::{Bytes, BytesMut};

pub use error::{DecodeError, DecodeErrorKind};
pub use reader::Reader;
pub use text::decode_text;

/// A record that can be written to the wire.
pub trait Encode {
    /// The number of bytes [`encode`](Self::encode) appends, exactly.
    ///
    /// Known before anything is written, so that a frame is one reservation and one append.
    fn encoded_len(&self) -> usize;

    /// Appends the record to `out`: exactly [`encoded_len`](Self::encoded_len) bytes.
    ///
    /// Never fails. Whether the result fits a server's frame limit is for the caller to check,
    /// with [`request_frame_len`](crate::request_frame_len), before it encodes.
    fn encode(&self, out: &mut BytesMut);
}

/// A record that can be read from a frame that lives for `'a`.
///
/// Requests borrow their paths from the frame; replies own what they hold and share the frame's
/// memory for data, so they implement this for every `'a`.
pub trait Decode<'a>: Sized {
    /// The name of the record in ZooKeeper's own definitions; [`DecodeError`] reports it.
    const RECORD: &'static str;

    /// Reads the record at the cursor and leaves the cursor behind it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes are not such a record. The cursor is then in an unspecified
    /// place.
    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads the record from the start of `frame`.
    ///
    /// Bytes behind the record are ignored, as ZooKeeper's server and Java client do: a newer peer
    /// may have appended fields.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame does not begin with such a record.
    fn from_frame(frame: &'a Bytes) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(frame, Self::RECORD))
    }
}

/// The body of a reply that has none (delete, ping, setWatches, auth, closeSession).
impl Encode for () {
    fn encoded_len(&self) -> usize {
        0
    }

    fn encode(&self, _out: &mut BytesMut) {}
}

/// The body of a reply that has none (delete, ping, setWatches, auth, closeSession).
impl<'a> Decode<'a> for () {
    const RECORD: &'static str = "empty";

    fn decode(_r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}
