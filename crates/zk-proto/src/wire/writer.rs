//! Functions that append the jute primitives, and functions that return the appended lengths.
//!
//! Integers are appended with [`bytes::BufMut`] directly, which is big-endian like jute.
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::writer;
//!
//! let mut out = BytesMut::new();
//! writer::put_buffer(&mut out, None);
//! writer::put_buffer(&mut out, Some(b""));
//! assert_eq!(out[..], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
//! assert_eq!(out.len(), writer::buffer_len(None) + writer::buffer_len(Some(b"")));
//! ```

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use super::Encode;

/// Length of an int on the wire, in bytes; also of a length prefix and of a vector count.
pub const INT_LEN: usize = 4;
/// Length of a long on the wire, in bytes.
pub const LONG_LEN: usize = 8;
/// Length of a boolean on the wire, in bytes.
pub const BOOL_LEN: usize = 1;

/// Appends a boolean: 0 or 1.
pub fn put_bool(out: &mut BytesMut, value: bool) {
    out.put_u8(u8::from(value));
}

/// Returns the number of bytes that [`put_text`] appends.
#[must_use]
pub fn text_len(text: &str) -> usize {
    buffer_len(Some(text.as_bytes()))
}

/// Appends a string as UTF-8, which every peer can decode. Only Java's writer produces CESU-8.
pub fn put_text(out: &mut BytesMut, text: &str) {
    put_buffer(out, Some(text.as_bytes()));
}

/// Returns the number of bytes that [`put_java_text`] appends.
#[must_use]
pub fn java_text_len(text: &str) -> usize {
    // Two surrogates of three bytes each instead of four bytes.
    text_len(text) + 2 * text.chars().filter(|c| *c > '\u{ffff}').count()
}

/// Appends a string as Java and therefore every server does: characters beyond U+FFFF as CESU-8.
pub fn put_java_text(out: &mut BytesMut, text: &str) {
    out.put_i32(wire_len(java_text_len(text) - INT_LEN));
    let mut buffer = [0; 4];
    for c in text.chars() {
        if c <= '\u{ffff}' {
            out.put_slice(c.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let [high, low] = unit.to_be_bytes();
            let middle = 0x80 | (high & 0x0f) << 2 | low >> 6;
            out.put_slice(&[0xe0 | high >> 4, middle, 0x80 | low & 0x3f]);
        }
    }
}

/// Returns the number of bytes that [`put_opt_text`] appends.
#[must_use]
pub fn opt_text_len(text: Option<&str>) -> usize {
    buffer_len(text.map(str::as_bytes))
}

/// Appends a string or null.
pub fn put_opt_text(out: &mut BytesMut, text: Option<&str>) {
    put_buffer(out, text.map(str::as_bytes));
}

/// Returns the number of bytes that [`put_buffer`] appends.
#[must_use]
pub fn buffer_len(bytes: Option<&[u8]>) -> usize {
    INT_LEN + bytes.map_or(0, <[u8]>::len)
}

/// Appends a buffer, or null for `None`.
pub fn put_buffer(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.put_i32(wire_len(bytes.len()));
            out.put_slice(bytes);
        }
        None => out.put_i32(-1),
    }
}

/// Returns the number of bytes that [`put_vector`] appends.
#[must_use]
pub fn vector_len<T: Encode>(elements: &[T]) -> usize {
    INT_LEN + elements.iter().map(Encode::encoded_len).sum::<usize>()
}

/// Appends a counted vector.
pub fn put_vector<T: Encode>(out: &mut BytesMut, elements: &[T]) {
    out.put_i32(wire_len(elements.len()));
    for element in elements {
        element.encode(out);
    }
}

/// Converts a length to its number on the wire.
///
/// A length of 2 GiB or more does not fit and saturates. No peer accepts a frame that large. The frame's own
/// length prefix saturates too, so the peer rejects the frame.
pub(crate) fn wire_len(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

/// String as an element of a vector.
impl Encode for Cow<'_, str> {
    fn encoded_len(&self) -> usize {
        text_len(self)
    }

    fn encode(&self, out: &mut BytesMut) {
        put_text(out, self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_text_has_two_surrogates_beyond_u_ffff() {
        let mut out = BytesMut::new();
        put_java_text(&mut out, "u\u{1f600}\u{e9}");
        assert_eq!(out[..], *b"\0\0\0\x09u\xed\xa0\xbd\xed\xb8\x80\xc3\xa9");
        assert_eq!(out.len(), java_text_len("u\u{1f600}\u{e9}"));
    }
}
