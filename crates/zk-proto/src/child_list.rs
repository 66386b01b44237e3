//! The names of a node's children, as they came.
//!
//! A contended lock lists its node on every acquire, and the list may be thousands of names long.
//! So a list is one slice of the frame it came in: decoding checks every length once and allocates
//! nothing, and iterating walks the bytes.
//!
//! ```text
//! children  vector<ustring>, in the replies to getChildren and getChildren2
//! ```
//!
//! ```
//! use zk_proto::ChildList;
//!
//! let list = ChildList::from_names(["b", "a"]);
//! assert_eq!(list.len(), 2);
//! assert!(list.names().eq(["b", "a"]));
//! let first = list.iter().min().unwrap();
//! assert_eq!(first, b"a");
//! assert_eq!(list.name_bytes(first), "a"); // shares the list's memory
//! ```

use std::{borrow::Cow, fmt};

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::{
    Decode, DecodeError, DecodeErrorKind, Encode, Reader, decode_text,
    reader::split_buffer,
    writer::{self, INT_LEN, wire_len},
};

/// A list of child names that shares the memory of the frame it came in.
///
/// In the server's order, which is that of a hash table. Equal lists have the same names in the
/// same order.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ChildList {
    /// The encoded names, each with its length prefix, one after the other. Always `count` whole
    /// ones: only [`Decode`] and [`from_names`](Self::from_names) make lists.
    bytes: Bytes,
    count: usize,
}

impl ChildList {
    /// A list of the given names, in their order. For servers and tests.
    pub fn from_names(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut bytes = BytesMut::new();
        let mut count = 0;
        for name in names {
            writer::put_buffer(&mut bytes, Some(name.as_ref()));
            count += 1;
        }
        Self { bytes: bytes.freeze(), count }
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names as the server sent them.
    #[must_use]
    pub fn iter(&self) -> ChildIter<'_> {
        ChildIter { rest: &self.bytes, left: self.count }
    }

    /// The names with their places, by which [`name_at`](Self::name_at) finds them again.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut names = self.iter();
        std::iter::from_fn(move || {
            // A frame's length is an i32, so that every place in it fits.
            let place = u32::try_from(self.bytes.len() - names.rest.len()).ok()?;
            names.next().map(|name| (place, name))
        })
    }

    /// The name at a place that [`places`](Self::places) gave.
    pub(crate) fn name_at(&self, place: u32) -> &[u8] {
        let rest = usize::try_from(place).ok().and_then(|place| self.bytes.get(place..));
        rest.and_then(|rest| ChildIter { rest, left: 1 }.next()).unwrap_or_default()
    }

    /// The names as text; what is not UTF-8 is replaced, see [`decode_text`].
    pub fn names(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.iter().map(decode_text)
    }

    /// A name as a value of its own that shares the list's memory. `raw` is one of
    /// [`iter`](Self::iter); anything else is copied.
    #[must_use]
    pub fn name_bytes(&self, raw: &[u8]) -> Bytes {
        let (whole, part) = (self.bytes.as_ptr_range(), raw.as_ptr_range());
        if whole.start <= part.start && part.end <= whole.end {
            self.bytes.slice_ref(raw)
        } else {
            Bytes::copy_from_slice(raw)
        }
    }
}

impl Encode for ChildList {
    fn encoded_len(&self) -> usize {
        INT_LEN + self.bytes.len()
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(wire_len(self.count));
        out.put_slice(&self.bytes);
    }
}

impl<'a> Decode<'a> for ChildList {
    const RECORD: &'static str = "children";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = r.count("children", INT_LEN)?;
        let start = r.offset();
        if !r.skip_buffers(count) {
            return Err(what_is_wrong(r, count));
        }
        Ok(Self { bytes: r.since(start), count })
    }
}

/// Goes over the names once more, slowly, for the place and the cause.
#[cold]
fn what_is_wrong(r: &mut Reader<'_>, count: usize) -> DecodeError {
    for _ in 0..count {
        let at = r.offset();
        match r.slice("children.name") {
            Ok(Some(_)) => {}
            Ok(None) => return r.error("children.name", at, DecodeErrorKind::NullText),
            Err(error) => return error,
        }
    }
    r.error("children", r.offset(), DecodeErrorKind::NullText)
}

impl<'a> IntoIterator for &'a ChildList {
    type Item = &'a [u8];
    type IntoIter = ChildIter<'a>;

    fn into_iter(self) -> ChildIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for ChildList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Iterates the raw names of a [`ChildList`].
#[derive(Debug, Clone)]
pub struct ChildIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for ChildIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // A list holds `count` whole names, so this ends exactly with the count.
        let (name, rest) = split_buffer(self.rest)?;
        self.rest = rest;
        self.left = self.left.saturating_sub(1);
        Some(name)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ChildIter<'_> {}
