//! Header of every entry of a multi and of its end, in both directions.

use bytes::BytesMut;

use crate::{
    code::ErrorCode,
    record::record,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{BOOL_LEN, INT_LEN},
    },
};

/// Type of an error result and of the end.
pub(super) const NO_TYPE: i32 = -1;

record! {
    /// Header of an entry.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct MultiHeader as "MultiHeader" {
        /// The opcode of an operation, or the type of a result.
        pub(super) entry_type: i32 as "type",
        /// Whether this header ends the list.
        done: bool,
        /// The code of an error result, which its body repeats; -1 in a request and at the end.
        err: i32,
    }
}

impl MultiHeader {
    /// Length on the wire, in bytes.
    pub(super) const LEN: usize = 2 * INT_LEN + BOOL_LEN;

    const END: Self = Self { entry_type: NO_TYPE, done: true, err: -1 };

    pub(super) const fn op(code: i32) -> Self {
        Self { entry_type: code, done: false, err: -1 }
    }

    pub(super) const fn result(result_type: i32, err: ErrorCode) -> Self {
        Self { entry_type: result_type, done: false, err: err.0 }
    }
}

/// Returns the number of bytes that [`put_list`] appends.
pub(super) fn list_len<T: Encode>(entries: &[T]) -> usize {
    entries.iter().map(Encode::encoded_len).sum::<usize>() + MultiHeader::LEN
}

/// Appends the entries, which include their headers, and the end.
pub(super) fn put_list<T: Encode>(out: &mut BytesMut, entries: &[T]) {
    for entry in entries {
        entry.encode(out);
    }
    MultiHeader::END.encode(out);
}

/// Reads entries up to the end. `body` receives the type of each entry and the offset of its header.
///
/// The list has no count in front, so entries are read twice, the first time to count them. A growing vector
/// would take up to three times the length of long entries. The frame bounds the allocation, because every
/// entry takes a header of its bytes.
pub(super) fn read_list<'a, T>(
    r: &mut Reader<'a>,
    mut body: impl FnMut(&mut Reader<'a>, i32, usize) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut counting = r.clone();
    let mut count = 0;
    while read_entry(&mut counting, &mut body)?.is_some() {
        count += 1;
    }
    let mut entries = Vec::with_capacity(count);
    while let Some(entry) = read_entry(r, &mut body)? {
        entries.push(entry);
    }
    Ok(entries)
}

/// Reads the next entry; returns `None` at the end.
fn read_entry<'a, T>(
    r: &mut Reader<'a>,
    body: &mut impl FnMut(&mut Reader<'a>, i32, usize) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    let start = r.offset();
    let header = MultiHeader::decode(r)?;
    if header.done { Ok(None) } else { body(r, header.entry_type, start).map(Some) }
}
