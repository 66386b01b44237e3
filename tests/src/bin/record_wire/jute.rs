//! Hand-encoded bytes, so that no recording depends on the encoder that it tests.

/// Builder of a frame: its payload, without the length prefix.
#[derive(Clone, Default)]
pub(crate) struct Payload(Vec<u8>);

impl Payload {
    /// Starts with the header of a request.
    pub(crate) fn request(xid: i32, op: i32) -> Self {
        Self::default().int(xid).int(op)
    }

    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends a buffer or a string.
    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self = self.int(i32::try_from(value.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(value);
        self
    }

    /// Appends a null buffer or string.
    pub(crate) fn null(self) -> Self {
        self.int(-1)
    }

    /// Appends an ACL with one entry that permits everything to everyone.
    pub(crate) fn open_acl(self) -> Self {
        self.int(1).int(31).bytes(b"world").bytes(b"anyone")
    }

    /// Appends the header of an operation of a multi.
    pub(crate) fn multi_op(self, op: i32) -> Self {
        self.int(op).byte(0).int(-1)
    }

    /// Appends the end of a multi.
    pub(crate) fn multi_end(self) -> Self {
        self.int(-1).byte(1).int(-1)
    }

    /// Returns the whole frame with its length prefix.
    pub(crate) fn frame(&self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}
