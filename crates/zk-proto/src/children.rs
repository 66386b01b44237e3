//! Requests that list a node's children.
//!
//! ```text
//! GetChildrenRequest, GetChildren2Request  path: ustring, watch: boolean
//! GetChildrenResponse                      children: vector<ustring>
//! GetChildren2Response                     children: vector<ustring>, stat: Stat
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{ChildList, ChildrenReply, Decode, Encode, Stat};
//!
//! let reply = ChildrenReply {
//!     children: ChildList::from_names(["lock-0000000001", "lock-0000000000"]),
//!     stat: Stat { num_children: 2, ..Stat::default() },
//! };
//! let mut out = BytesMut::new();
//! reply.encode(&mut out);
//! assert_eq!(ChildrenReply::from_frame(&out.freeze())?, reply);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::{borrow::Cow, fmt};

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    record::{record, request},
    request::OpCode,
    stat::Stat,
    wire::{
        Decode, DecodeError, DecodeErrorKind, Encode, Reader, decode_text,
        reader::split_buffer,
        writer::{self, INT_LEN, wire_len},
    },
};

record! {
    /// Request to list a node's children. All server versions support it.
    ///
    /// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or
    /// [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetChildren<'a> as "GetChildrenRequest" {
        /// The path of the parent.
        pub path: Cow<'a, str>,
        /// Whether to set a one-shot watch for changes of the list and for deletion of the parent.
        pub watch: bool,
    }
}

request!(GetChildren<'_>: OpCode::GetChildren -> ChildList, path);

record! {
    /// Request to list a node's children and return its Stat. Needs a server of 3.3 or newer.
    ///
    /// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or
    /// [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetChildren2<'a> as "GetChildren2Request" {
        /// The path of the parent.
        pub path: Cow<'a, str>,
        /// Whether to set a one-shot watch for changes of the list and for deletion of the parent.
        pub watch: bool,
    }
}

request!(GetChildren2<'_>: OpCode::GetChildren2 -> ChildrenReply, path);

record! {
    /// Children and Stat of a node.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ChildrenReply as "GetChildren2Response" {
        /// The names of the children, in the order of the server's hash table.
        pub children: ChildList,
        /// The Stat of the parent.
        pub stat: Stat,
    }
}

/// List of child names that shares the memory of its frame, in the order of the server.
///
/// Contenders of a lock list its node on every acquire, and the list may have thousands of names. The list is
/// therefore one slice of the frame it was received in. Decoding checks every length once and allocates
/// nothing. Iterating walks the bytes.
///
/// ```text
/// children  vector<ustring>, in the replies to getChildren and getChildren2
/// ```
///
/// ```
/// use zk_proto::ChildList;
///
/// let list = ChildList::from_names(["b", "a"]);
/// assert_eq!(list.len(), 2);
/// assert!(list.names().eq(["b", "a"]));
/// for name in &list {
///     println!("/path/{name}");
/// }
/// let first = list.iter().min().unwrap();
/// assert_eq!(first, b"a");
/// assert_eq!(list.name_bytes(first), "a"); // shares the list's memory
/// ```
///
/// The names are in the server's order, which is that of a hash table. Two lists are equal if they have the
/// same names in the same order.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ChildList {
    /// The encoded names, one after the other, each with its length prefix. There are always `count` complete
    /// names, because only [`Decode`] and [`from_names`](Self::from_names) construct lists.
    bytes: Bytes,
    count: usize,
}

impl ChildList {
    /// Creates a list of the given names, in their order. For servers and tests.
    pub fn from_names(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut bytes = BytesMut::new();
        let mut count = 0;
        for name in names {
            writer::put_buffer(&mut bytes, Some(name.as_ref()));
            count += 1;
        }
        Self { bytes: bytes.freeze(), count }
    }

    /// Returns the number of names.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the raw names in the server's order.
    #[must_use]
    #[inline]
    pub fn iter(&self) -> ChildIter<'_> {
        ChildIter { rest: &self.bytes, left: self.count }
    }

    /// Iterates over the names with their byte offsets, for use with [`name_at`](Self::name_at).
    #[inline]
    pub fn places(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut names = self.iter();
        std::iter::from_fn(move || {
            // A frame's length is an i32, so every offset in it fits.
            let place = u32::try_from(self.bytes.len() - names.rest.len()).ok()?;
            names.next().map(|name| (place, name))
        })
    }

    /// Returns the name at an offset that [`places`](Self::places) returned. Any other offset returns an
    /// unspecified name.
    #[must_use]
    #[inline]
    pub fn name_at(&self, place: u32) -> &[u8] {
        let rest = usize::try_from(place).ok().and_then(|place| self.bytes.get(place..));
        rest.and_then(|rest| ChildIter { rest, left: 1 }.next()).unwrap_or_default()
    }

    /// Iterates over the names as text. Invalid UTF-8 is replaced, see [`decode_text`].
    pub fn names(&self) -> ChildNames<'_> {
        self.iter().map(decode_text as fn(&[u8]) -> Cow<'_, str>)
    }

    /// Returns a name as [`Bytes`] that share the list's memory. `raw` should be an item of
    /// [`iter`](Self::iter); any other slice is copied.
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

/// Returns the offset and cause of a decoding failure. Reads the names a second time, one by one.
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

/// Iterates over the names as text, like [`names`](ChildList::names).
impl<'a> IntoIterator for &'a ChildList {
    type Item = Cow<'a, str>;
    type IntoIter = ChildNames<'a>;

    fn into_iter(self) -> ChildNames<'a> {
        self.names()
    }
}

/// Iterates over copies of the names as text. [`names`](ChildList::names) copies nothing.
impl IntoIterator for ChildList {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        let names: Vec<String> = self.names().map(Cow::into_owned).collect();
        names.into_iter()
    }
}

impl fmt::Debug for ChildList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Iterator over the names of a [`ChildList`] as text.
pub type ChildNames<'a> = std::iter::Map<ChildIter<'a>, fn(&'a [u8]) -> Cow<'a, str>>;

/// Iterator over the raw names of a [`ChildList`].
#[derive(Debug, Clone)]
pub struct ChildIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for ChildIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        // A list holds `count` complete names, so the bytes end exactly with the count.
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
