//! Cursor that reads a fuzzer's bytes as typed values.

/// Cursor over the fuzzer's bytes.
///
/// Reading never fails: missing bytes are zero or empty. Every input is therefore valid, and truncation does
/// not change the meaning of the bytes that remain.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Creates a cursor at the start.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Returns whether all bytes are read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next `len` bytes, or fewer at the end.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// Returns the next four bytes as a number.
    pub fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    /// Returns the next eight bytes as a number.
    pub fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    /// Reads a length byte, and returns that many bytes.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.byte();
        self.take(usize::from(len))
    }

    /// Like [`bytes`](Self::bytes), as text; invalid UTF-8 is replaced.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }
}
