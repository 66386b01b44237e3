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
    /// Opening a session.
    Connect,
    /// Creating a handle with another root.
    Chroot,
    /// Creating a node and its missing parents.
    EnsurePath,
    /// Waiting for the event of a watch.
    Watch,
    /// Renewing the lease of the session.
    RenewLease,
    /// Entering a double barrier.
    EnterBarrier,
}

impl From<OpCode> for Operation {
    fn from(op: OpCode) -> Self {
        Self::Request(op)
    }
}

impl Operation {
    /// Returns ZooKeeper's name of a request, or the text of another operation, which precedes the
    /// path in a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request(op) => op.name(),
            Self::Connect => "connect to",
            Self::Chroot => "chroot",
            Self::EnsurePath => "create the path",
            Self::Watch => "watch",
            Self::RenewLease => "renew the lease of",
            Self::EnterBarrier => "enter the barrier",
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
