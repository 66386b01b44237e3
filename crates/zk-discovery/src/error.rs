//! Error of the discovery.

use std::fmt;

use zk_coordination::session::{Abbreviated, Error, Outcome, PathError, RetryOn};
use zk_coordination::{CacheError, NodeState};

/// Error of a [`Discovery`](crate::Discovery), a [`Registration`](crate::Registration) or a
/// [`ServiceCache`](crate::ServiceCache).
///
/// `Debug` prints the same line as `Display`, so that `main` may return this error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The name of the service cannot be part of a path.
    InvalidName {
        /// The rejected name.
        name: String,
    },
    /// The id of the instance cannot be the name of a node.
    InvalidId {
        /// The rejected id.
        id: String,
    },
    /// The update has the name, the id or the type of another instance. Unregister the instance, and
    /// register the other one.
    OtherInstance {
        /// Path of the registered instance.
        path: String,
    },
    /// The instance is not registered. The state has the reason.
    ///
    /// Unless the state [is the last one](NodeState::is_closed), the registration continues to work for it.
    NotRegistered {
        /// Path of the instance.
        path: String,
        /// The state at the time of the error.
        state: NodeState,
    },
    /// The server could not confirm that the instance is unregistered. It removes an ephemeral node
    /// with its session.
    NotUnregistered {
        /// Path of the instance.
        path: String,
        /// Why the deletion is not confirmed.
        error: Error,
    },
    /// The cache of a service has stopped, or could not start.
    Cache(CacheError),
    /// The session layer failed. [`Error::outcome`] and [`Error::retry_on`] say what to do.
    Client(Error),
}

impl DiscoveryError {
    /// Returns on which session the call may succeed, or a new registration or cache if this one has
    /// ended.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::InvalidName { .. } | Self::InvalidId { .. } | Self::OtherInstance { .. } => {
                RetryOn::Never
            }
            Self::NotRegistered { state, .. } => state.retry_on(),
            // The node belongs to the registration, so every outcome permits a repetition.
            Self::NotUnregistered { error, .. } => {
                error.clone().with_outcome(Outcome::NotApplied).retry_on()
            }
            Self::Cache(error) => error.retry_on(),
            Self::Client(error) => error.retry_on(),
        }
    }
}

impl From<CacheError> for DiscoveryError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

impl From<Error> for DiscoveryError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<PathError> for DiscoveryError {
    fn from(error: PathError) -> Self {
        Self::Client(error.into())
    }
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName { name } => {
                write!(f, "{name:?} cannot be the name of a service: it must be part of a path")
            }
            Self::InvalidId { id } => {
                write!(f, "{id:?} cannot be the id of an instance: it must be the name of a node")
            }
            Self::OtherInstance { path } => write!(
                f,
                "cannot update {}: the name, the id and the type of an instance do not change; \
                 unregister it, and register the other one",
                Abbreviated(path)
            ),
            Self::NotRegistered { path, state } => {
                write!(f, "{} is not registered: {state}", Abbreviated(path))
            }
            Self::NotUnregistered { path, error } => {
                write!(f, "cannot confirm that {} is unregistered: {error}", Abbreviated(path))
            }
            Self::Cache(error) => write!(f, "{error}"),
            Self::Client(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DiscoveryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotUnregistered { error, .. } | Self::Client(error) => Some(error),
            Self::Cache(error) => Some(error),
            _ => None,
        }
    }
}
