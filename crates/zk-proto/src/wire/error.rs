//! Decoding errors and their positions.

use std::{error::Error, fmt};

/// Failure to decode received bytes as a record.
///
/// The error is small and `Copy`. It contains names and numbers, but no text or data of the peer. `Debug`
/// prints the same line as `Display`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// The decoded record, e.g. `"ReplyHeader"`.
    pub record: &'static str,
    /// The decoded field, e.g. `"zxid"`.
    pub field: &'static str,
    /// The offset of the failed read, in bytes from the start of the frame. For the body of a reply or
    /// request, it counts from the end of the header.
    pub offset: usize,
    /// The cause of the failure.
    pub kind: DecodeErrorKind,
}

/// Cause of a decoding failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The frame ends before the field does.
    Truncated {
        /// Bytes that the field needs from its offset on.
        needed: usize,
        /// Bytes that the frame has from its offset on.
        remaining: usize,
    },
    /// A buffer or string length below -1 (-1 is null).
    NegativeLength(i32),
    /// A null string where ZooKeeper never sends one.
    NullText,
    /// A null buffer in a field that must not be null.
    NullBuffer,
    /// A vector announces more elements than the rest of the frame can hold.
    CountTooLarge {
        /// Elements announced.
        count: usize,
        /// Elements of the smallest possible size that would fit in the rest.
        room: usize,
    },
    /// Create flags that are no [`CreateMode`](crate::CreateMode). Unlike for the other causes, a server
    /// replies with `BadArguments` (or `Unimplemented` for the time-to-live modes).
    UnknownCreateFlags(i32),
    /// A number that the field cannot have. A server replies with `MarshallingError`.
    UnknownValue(i32),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, field, offset, kind } = self;
        write!(f, "{record}.{field} at byte {offset}: {kind}")
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, remaining } => {
                write!(f, "needs {needed} bytes, the frame has {remaining} left")
            }
            Self::NegativeLength(len) => write!(f, "negative length {len}"),
            Self::NullText => f.write_str("null string"),
            Self::NullBuffer => f.write_str("null buffer"),
            Self::CountTooLarge { count, room } => {
                write!(f, "{count} elements announced, the frame has room for {room}")
            }
            Self::UnknownCreateFlags(flags) => write!(f, "unknown create flags {flags}"),
            Self::UnknownValue(value) => write!(f, "unknown value {value}"),
        }
    }
}

impl Error for DecodeError {}
