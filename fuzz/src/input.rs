//! Reads a fuzzer's bytes as whatever a target wants to be told.

/// A cursor over the fuzzer's bytes. Never fails: what is missing is zero or empty, so that every
/// input means something, and cutting one short leaves its beginning as it was.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// A cursor at the start.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most `len` bytes.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// Four bytes.
    pub fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    /// Eight bytes.
    pub fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    /// A byte of length, and that many bytes.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.byte();
        self.take(usize::from(len))
    }

    /// The same as text; what is not UTF-8 is replaced.
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
