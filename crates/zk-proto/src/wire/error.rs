//! What can be wrong with received bytes, and where.

use std::{error::Error, fmt};

/// Received bytes are not the record they should be.
///
/// Small and `Copy`: it names things, it carries nothing the peer sent except lengths. `Debug`
/// prints the same line as `Display`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// The record being read, e.g. `"ReplyHeader"`.
    pub record: &'static str,
    /// The field being read, e.g. `"zxid"`.
    pub field: &'static str,
    /// Where the read that failed began, in bytes from the start of the frame (for a reply's or a
    /// request's body: from the end of its header).
    pub offset: usize,
    /// What is wrong there.
    pub kind: DecodeErrorKind,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The frame ends before the field does.
    Truncated {
        /// Bytes the field needs from its offset on.
        needed: usize,
        /// Bytes the frame has from there on.
        remaining: usize,
    },
    /// A buffer or string length below -1 (-1 is null).
    NegativeLength(i32),
    /// A null string where ZooKeeper never sends one.
    NullText,
    /// A null buffer where it must not be null.
    NullBuffer,
    /// A vector announces more elements than the rest of the frame can hold.
    CountTooLarge {
        /// Elements announced.
        count: usize,
        /// Elements of the smallest possible size that would fit.
        room: usize,
    },
    /// Create flags that are not a [`CreateMode`](crate::CreateMode). A server answers these with
    /// `BadArguments` (or `Unimplemented` for the TTL modes), unlike the other kinds.
    UnknownCreateFlags(i32),
    /// A number that is none of those the field may have. A server answers `MarshallingError`.
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
