//! Operation that an error names.

use std::fmt;

use proto::OpCode;

/// Operation of a client, as errors name it.
///
/// `Display` prints ZooKeeper's name of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A request. All requests that create a node are [`OpCode::Create`], and both that list
    /// children are [`OpCode::GetChildren`].
    Request(OpCode),
    /// Any other operation. The text precedes the path in a message: `connect to`.
    Other(&'static str),
}

impl From<OpCode> for Operation {
    fn from(op: OpCode) -> Self {
        Self::Request(op)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request(op) => op.name(),
            Self::Other(text) => text,
        })
    }
}
