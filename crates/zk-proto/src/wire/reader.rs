//! Cursor over a received frame.
//!
//! ```
//! use bytes::Bytes;
//! use zk_proto::{DecodeErrorKind, Reader};
//!
//! // A vector that claims 2^31 - 1 elements of at least 4 bytes in a frame of 8.
//! let frame = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
//! let mut r = Reader::new(&frame, "example");
//! let error = r.vector("list", 4, |r| r.i32("element")).unwrap_err();
//! assert_eq!(error.kind, DecodeErrorKind::CountTooLarge { count: 0x7fff_ffff, room: 1 });
//! assert_eq!(
//!     error.to_string(),
//!     "example.list at byte 0: 2147483647 elements announced, the frame has room for 1",
//! );
//! ```

use std::{borrow::Cow, str};

use bytes::Bytes;
use nom::{
    Parser,
    bytes::complete::take,
    number::complete::{be_i32, be_i64, be_u8},
};

use super::{
    DecodeError, DecodeErrorKind,
    writer::{BOOL_LEN, INT_LEN, LONG_LEN},
};

/// Length or count that means null.
const NULL_LEN: i32 = -1;

/// Cursor over a frame.
///
/// Every read takes the name of its field, for error messages. The cursor copies nothing, and it allocates
/// only after a check that the bytes have arrived.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    frame: &'a Bytes,
    /// Unread suffix of `frame`.
    rest: &'a [u8],
    record: &'static str,
}

impl<'a> Reader<'a> {
    /// Creates a cursor at the start of `frame`; `record` is the name of the record for errors.
    #[must_use]
    pub fn new(frame: &'a Bytes, record: &'static str) -> Self {
        Self { frame, rest: frame, record }
    }

    /// Returns the number of unread bytes.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the number of bytes read so far.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.frame.len().saturating_sub(self.rest.len())
    }

    /// Reads one byte; any non-zero value is true, as in ZooKeeper's server.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`].
    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        self.fixed(field, BOOL_LEN, be_u8).map(|byte| byte != 0)
    }

    /// Reads a four-byte integer.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`].
    pub fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.fixed(field, INT_LEN, be_i32)
    }

    /// Reads an eight-byte integer.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`].
    pub fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.fixed(field, LONG_LEN, be_i64)
    }

    /// Reads a length-prefixed buffer as a slice that shares the frame's memory. `None` is null (length -1),
    /// which differs from empty.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`], [`DecodeErrorKind::NegativeLength`].
    pub fn buffer(&mut self, field: &'static str) -> Result<Option<Bytes>, DecodeError> {
        let bytes = self.slice(field)?;
        Ok(bytes.map(|bytes| self.frame.slice_ref(bytes)))
    }

    /// Reads a length-prefixed buffer as a borrowed slice; otherwise like [`buffer`](Self::buffer).
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`], [`DecodeErrorKind::NegativeLength`].
    pub fn slice(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let start = self.offset();
        let announced = self.i32(field)?;
        if announced == NULL_LEN {
            return Ok(None);
        }
        let Ok(len) = usize::try_from(announced) else {
            return Err(self.error(field, start, DecodeErrorKind::NegativeLength(announced)));
        };
        self.fixed(field, len, take(len)).map(Some)
    }

    /// Reads a string that must not be null. Invalid UTF-8 is no error: see [`decode_text`].
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`], [`DecodeErrorKind::NegativeLength`],
    /// [`DecodeErrorKind::NullText`].
    pub fn text(&mut self, field: &'static str) -> Result<Cow<'a, str>, DecodeError> {
        let start = self.offset();
        match self.opt_text(field)? {
            Some(text) => Ok(text),
            None => Err(self.error(field, start, DecodeErrorKind::NullText)),
        }
    }

    /// Reads a string; `None` is null. Invalid UTF-8 is no error: see [`decode_text`].
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`], [`DecodeErrorKind::NegativeLength`].
    pub fn opt_text(&mut self, field: &'static str) -> Result<Option<Cow<'a, str>>, DecodeError> {
        Ok(self.slice(field)?.map(decode_text))
    }

    /// Reads a counted vector and calls `each` for every element.
    ///
    /// `min_element_len` is the length of the shortest possible element. The format does not limit counts. A
    /// count that needs more bytes than the frame has left is therefore rejected before anything is read or
    /// reserved. A negative count reads as empty: -1 is null, and servers read all other negative counts as
    /// empty too.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`], [`DecodeErrorKind::CountTooLarge`], and the errors of `each`.
    pub fn vector<T>(
        &mut self,
        field: &'static str,
        min_element_len: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(field, min_element_len)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(each(self)?);
        }
        Ok(elements)
    }

    /// Reads a counted vector that may be null.
    ///
    /// [`vector`](Self::vector) reads null as empty, as the server does. But the server does not treat null
    /// and empty alike for every field.
    ///
    /// # Errors
    ///
    /// Like [`vector`](Self::vector).
    pub fn opt_vector<T>(
        &mut self,
        field: &'static str,
        min_element_len: usize,
        each: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let is_null = self.rest.starts_with(&NULL_LEN.to_be_bytes());
        let elements = self.vector(field, min_element_len, each)?;
        Ok((!is_null).then_some(elements))
    }

    /// Reads a vector's count, and rejects it if the rest of the frame cannot hold the elements.
    pub(crate) fn count(
        &mut self,
        field: &'static str,
        min_element_len: usize,
    ) -> Result<usize, DecodeError> {
        let start = self.offset();
        let count = usize::try_from(self.i32(field)?).unwrap_or(0);
        let room = self.remaining() / min_element_len.max(1);
        if count > room {
            return Err(self.error(field, start, DecodeErrorKind::CountTooLarge { count, room }));
        }
        Ok(count)
    }

    /// Returns the part of the frame from `start` (an earlier [`offset`](Self::offset)) to the cursor,
    /// sharing the frame's memory.
    pub(crate) fn since(&self, start: usize) -> Bytes {
        let end = self.offset();
        self.frame.slice(start.min(end)..end)
    }

    /// Skips `count` non-null buffers and returns true, or returns false without moving the cursor.
    ///
    /// This function is hand-written, while the others use nom. Every reply with a list of children is walked
    /// once, and this code takes a third of the time per child.
    pub(crate) fn skip_buffers(&mut self, count: usize) -> bool {
        let mut rest = self.rest;
        for _ in 0..count {
            let Some((_, after)) = split_buffer(rest) else { return false };
            rest = after;
        }
        self.rest = rest;
        true
    }

    /// Runs a parser whose only failure is that its `len` bytes are missing.
    fn fixed<T>(
        &mut self,
        field: &'static str,
        len: usize,
        mut parser: impl Parser<&'a [u8], Output = T, Error = ()>,
    ) -> Result<T, DecodeError> {
        match parser.parse(self.rest) {
            Ok((rest, value)) => {
                self.rest = rest;
                Ok(value)
            }
            Err(_) => {
                let remaining = self.remaining();
                let kind = DecodeErrorKind::Truncated { needed: len, remaining };
                Err(self.error(field, self.offset(), kind))
            }
        }
    }

    /// Returns an error for `field`, whose read began at `offset`.
    pub(crate) fn error(
        &self,
        field: &'static str,
        offset: usize,
        kind: DecodeErrorKind,
    ) -> DecodeError {
        DecodeError { record: self.record, field, offset, kind }
    }
}

/// Splits a length-prefixed, non-null buffer off the front.
#[inline]
pub(crate) fn split_buffer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = bytes.split_first_chunk::<INT_LEN>()?;
    let len = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
    rest.split_at_checked(len)
}

/// Decodes a string received from a peer; never fails.
///
/// Java encodes each UTF-16 unit separately, so a character beyond U+FFFF becomes CESU-8: two surrogates of
/// three bytes each (U+1F600 as `ed a0 bd ed b8 80`). Paths cannot contain such characters, but ACL ids and
/// auth ids can. One stored id must not make a whole reply unreadable. Therefore no string is an error here.
///
/// Valid UTF-8 is borrowed. A CESU-8 surrogate pair becomes the character it encodes. Any other invalid byte
/// sequence becomes U+FFFD. The result is at most three times as long as the input.
///
/// ```
/// use zk_proto::decode_text;
///
/// assert_eq!(decode_text(b"/plain"), "/plain");
/// assert_eq!(decode_text(b"u\xed\xa0\xbd\xed\xb8\x80"), "u\u{1f600}");
/// assert_eq!(decode_text(b"a\xffb"), "a\u{fffd}b");
/// ```
#[must_use]
pub fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_broken(bytes)),
    }
}

fn decode_broken(mut rest: &[u8]) -> String {
    let mut text = String::with_capacity(rest.len());
    loop {
        let broken = match str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return text;
            }
            Err(error) => error,
        };
        let (valid, tail) = rest.split_at(broken.valid_up_to());
        text.push_str(str::from_utf8(valid).unwrap_or_default());
        if let Some((c, after)) = split_surrogate_pair(tail) {
            text.push(c);
            rest = after;
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
            // Without an error length, the string ends inside a character.
            let skip = match tail {
                // An unpaired surrogate is one character.
                [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
                _ => broken.error_len().unwrap_or(tail.len()),
            };
            rest = tail.get(skip..).unwrap_or_default();
        }
    }
}

/// Splits a CESU-8 surrogate pair off the front: `ed a0..af 80..bf ed b0..bf 80..bf`.
fn split_surrogate_pair(bytes: &[u8]) -> Option<(char, &[u8])> {
    let (pair, after) = bytes.split_first_chunk::<6>()?;
    let [0xed, h1 @ 0xa0..=0xaf, h2 @ 0x80..=0xbf, 0xed, l1 @ 0xb0..=0xbf, l2 @ 0x80..=0xbf] =
        *pair
    else {
        return None;
    };
    let bits = |hi: u8, lo: u8| u32::from(hi & 0x0f) << 6 | u32::from(lo & 0x3f);
    let c = char::from_u32(0x1_0000 + (bits(h1, h2) << 10 | bits(l1, l2)))?;
    Some((c, after))
}
