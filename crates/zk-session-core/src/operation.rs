//! Operation that an error names.

use std::fmt;

use proto::OpCode;

/// Operation of a client, as errors name it.
///
/// `Display` prints its [name](Operation::name).
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

impl Operation {
    /// Returns ZooKeeper's name of a request, or the text of another operation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request(op) => op.name(),
            Self::Other(text) => text,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseSetting, Limit};

    #[test]
    fn names_are_padded_to_a_width() {
        let get = Operation::from(OpCode::GetData);
        assert_eq!(format!("{get:<9}|{:>8}|", OpCode::Sync), "getData  |    sync|");
        let names = format!("{:<13}|{:>8}|", Limit::Requests, LeaseSetting::Margin);
        assert_eq!(names, "REQUESTS_MAX |  margin|");
    }
}
