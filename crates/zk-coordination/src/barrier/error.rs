//! Errors of barriers.

use std::fmt;

use zk_recipes::session::{self, Outcome, RetryOn};

use crate::limits::MEMBERS_MAX;

/// Error of an operation on a barrier.
///
/// `Debug` prints the same line as `Display`, so that `main` may return this error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierError {
    /// A request failed, and a retry on this session does not help.
    ///
    /// If a member cannot enter a double barrier, its node is deleted. The outcome of the error is that
    /// of the entry: if it is unknown, the barrier may have opened before, and counted the member.
    Client(session::Error),
    /// The number of members of a double barrier is 0 or larger than
    /// [`MEMBERS_MAX`].
    MembersOutOfRange {
        /// The path of the barrier.
        path: String,
        /// The number of members.
        members: u32,
    },
    /// Other clients deleted the node of a waiting member again and again.
    NodeDeleted {
        /// The path of the barrier.
        path: String,
    },
}

impl BarrierError {
    /// Returns on which session a retry may help. A failed call leaves nothing behind. So it can
    /// always be repeated on the next session when its own session has ended.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Client(error) => error.clone().with_outcome(Outcome::NotApplied).retry_on(),
            Self::NodeDeleted { .. } => RetryOn::SameSession,
            Self::MembersOutOfRange { .. } => RetryOn::Never,
        }
    }
}

impl From<session::Error> for BarrierError {
    fn from(error: session::Error) -> Self {
        Self::Client(error)
    }
}

impl From<session::PathError> for BarrierError {
    fn from(error: session::PathError) -> Self {
        Self::Client(error.into())
    }
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "{error}"),
            Self::MembersOutOfRange { path, members } => write!(
                f,
                "{path}: a double barrier has 1 to {MEMBERS_MAX} members, and not {members}"
            ),
            Self::NodeDeleted { path } => {
                write!(f, "{path}: other clients deleted the nodes of this member of the barrier")
            }
        }
    }
}

impl fmt::Debug for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BarrierError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            _ => None,
        }
    }
}
