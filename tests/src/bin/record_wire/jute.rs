//! Bytes put together by hand, so that no recording depends on the encoder it is to test.

/// A frame in the making: its payload, without the length in front.
#[derive(Clone, Default)]
pub(crate) struct Payload(Vec<u8>);

impl Payload {
    /// A request's header.
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

    /// A buffer or a string.
    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self = self.int(i32::try_from(value.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(value);
        self
    }

    /// A buffer or a string that is null.
    pub(crate) fn null(self) -> Self {
        self.int(-1)
    }

    /// The ACL list of one entry that permits everything to everybody.
    pub(crate) fn open_acl(self) -> Self {
        self.int(1).int(31).bytes(b"world").bytes(b"anyone")
    }

    /// The header in front of an operation of a multi.
    pub(crate) fn multi_op(self, op: i32) -> Self {
        self.int(op).byte(0).int(-1)
    }

    /// The end of a multi.
    pub(crate) fn multi_end(self) -> Self {
        self.int(-1).byte(1).int(-1)
    }

    /// The whole frame, as it goes over the wire.
    pub(crate) fn frame(&self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}
