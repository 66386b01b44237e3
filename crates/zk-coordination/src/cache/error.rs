//! Errors of a cache.

use std::fmt;

use zk_recipes::session::{Error, Outcome, PathError, RetryOn};

use crate::background::task_ended;

/// Reason for which a cache stopped, or could not start.
///
/// A lost connection or an expired session is no error: the cache waits, and reports that it is
/// [stale](super::CacheStatus::Stale).
///
/// `Debug` prints the same line as `Display`, so that `main` may return this error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError {
    /// The server does not support persistent watches: it is older than 3.6.0, or they are
    /// disabled there (`zookeeper.persistentWatchesEnabled=false`). Upgrade the server, or read the
    /// nodes with one-shot watches ([`Client::get_data_and_watch`]).
    ///
    /// [`Client::get_data_and_watch`]: zk_recipes::session::Client::get_data_and_watch
    Unsupported {
        /// The path of the cache.
        path: String,
    },
    /// There are more nodes than the cache may keep. Raise the limit
    /// ([`CacheBuilder::max_nodes`](super::CacheBuilder::max_nodes)), or cache a smaller part of
    /// the tree.
    TooManyNodes {
        /// The path of the cache.
        path: String,
        /// The limit.
        max: usize,
    },
    /// The nodes need more memory than the cache may use. Raise the limit
    /// ([`CacheBuilder::max_bytes`](super::CacheBuilder::max_bytes)), or cache a smaller part of
    /// the tree.
    TooManyBytes {
        /// The path of the cache.
        path: String,
        /// The limit in bytes.
        max: usize,
    },
    /// A request failed, and a retry does not help. An example is a session manager that has
    /// stopped. Or the session could set no further watch on the first load.
    Client(Error),
    /// The task of the cache ended: its runtime was shut down, or the filter panicked.
    TaskEnded,
}

impl CacheError {
    /// Returns on which session a new cache may succeed. A cache only reads, so every outcome permits
    /// a repetition.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Client(error) => error.clone().with_outcome(Outcome::NotApplied).retry_on(),
            Self::TaskEnded => task_ended().retry_on(),
            Self::Unsupported { .. } | Self::TooManyNodes { .. } | Self::TooManyBytes { .. } => {
                RetryOn::Never
            }
        }
    }
}

impl From<Error> for CacheError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<PathError> for CacheError {
    fn from(error: PathError) -> Self {
        Self::Client(error.into())
    }
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { path } => write!(
                f,
                "cannot cache {path}: the server does not support persistent watches, which need \
                 ZooKeeper 3.6 or newer"
            ),
            Self::TooManyNodes { path, max } => {
                write!(f, "cannot cache {path}: more than {max} nodes (max_nodes)")
            }
            Self::TooManyBytes { path, max } => {
                write!(f, "cannot cache {path}: more than {max} bytes (max_bytes)")
            }
            Self::Client(error) => write!(f, "{error}"),
            Self::TaskEnded => f.write_str("the task of the cache ended with its runtime"),
        }
    }
}

impl fmt::Debug for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CacheError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            _ => None,
        }
    }
}
