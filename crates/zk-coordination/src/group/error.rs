//! Errors of groups.

use std::fmt;

use zk_recipes::session::{Error, PathError, RetryOn};

/// Error of a [`Group`](super::Group) or a [`GroupMember`](super::GroupMember).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The id cannot be the name of a node: it is empty, or has a slash.
    InvalidId {
        /// The rejected id.
        id: String,
    },
    /// The session layer failed. [`Error::outcome`] says whether a request was applied.
    Client(Error),
}

impl GroupError {
    /// Returns on which session the call may succeed.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Client(error) => error.retry_on(),
            Self::InvalidId { .. } => RetryOn::Never,
        }
    }
}

impl From<Error> for GroupError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<PathError> for GroupError {
    fn from(error: PathError) -> Self {
        Self::Client(error.into())
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidId { id } => {
                write!(
                    f,
                    "{id:?} cannot be the id of a member: it must be one name without a slash"
                )
            }
            Self::Client(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::InvalidId { .. } => None,
        }
    }
}
