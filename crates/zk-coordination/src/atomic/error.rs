//! Errors of atomic values.

use std::fmt;

use zk_recipes::LockError;
use zk_recipes::session::{self, Outcome, RetryOn};

/// Error of an operation on an atomic value. [`outcome`](Self::outcome) tells whether the value was
/// changed.
///
/// `Debug` prints the same line as `Display`, so that `main` may return this error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtomicError {
    /// A request failed. If its outcome is unknown, the change was applied once or not at all.
    Client(session::Error),
    /// The data of the node is too short for a number.
    Corrupted {
        /// The path of the node.
        path: String,
        /// The length of its data in bytes.
        len: usize,
        /// The length that the number has.
        expected: usize,
    },
    /// The result is outside of the range of the number. The value is unchanged.
    Overflow {
        /// The path of the node.
        path: String,
    },
    /// Other clients changed the value first, again and again. The value is unchanged by this call.
    /// Call again later, or promote contended changes to a lock
    /// ([`AtomicNumber::promote_to_lock`](crate::AtomicNumber::promote_to_lock)).
    Contended {
        /// The path of the node.
        path: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The change was applied to another node than the one that was read: a client deleted the node
    /// and created it again in between, and both had the same version. A value that the call has not
    /// read is overwritten. Never delete a value that others use.
    NodeRecreated {
        /// The path of the node.
        path: String,
    },
    /// The node has version -1, after `2^32 - 1` changes, and the server takes that as any version.
    /// The value is unchanged. Set it unconditionally once, which also changes the version.
    VersionsUsedUp {
        /// The path of the node.
        path: String,
    },
    /// The id of the operation cannot be part of a node's name, for example because it has a slash.
    InvalidOperationId {
        /// The id.
        id: String,
    },
    /// An operation with this id has added another number, so the caller uses an id twice. The value
    /// is unchanged by this call.
    OperationIdReused {
        /// The path of the operation's marker.
        path: String,
    },
    /// The lock of contended changes was not acquired. The value is unchanged.
    Lock(LockError),
}

impl AtomicError {
    /// Returns whether the call has changed the value.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(error) => error.outcome(),
            Self::NodeRecreated { .. } => Outcome::Applied,
            _ => Outcome::NotApplied,
        }
    }

    /// Returns on which session the call can be repeated without the risk that it counts twice.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Client(error) => error.retry_on(),
            Self::Lock(error) => error.retry_on(),
            Self::Contended { .. } => RetryOn::SameSession,
            _ => RetryOn::Never,
        }
    }
}

impl From<session::Error> for AtomicError {
    fn from(error: session::Error) -> Self {
        Self::Client(error)
    }
}

impl From<session::PathError> for AtomicError {
    fn from(error: session::PathError) -> Self {
        Self::Client(error.into())
    }
}

impl From<LockError> for AtomicError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl fmt::Display for AtomicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "{error}"),
            Self::Corrupted { path, len, expected } => write!(
                f,
                "{path}: {len} bytes of data are no number, which has {expected} bytes; \
                 another program uses the node, or the number has another size"
            ),
            Self::Overflow { path } => {
                write!(f, "{path}: the result is out of range; the value is unchanged")
            }
            Self::Contended { path, attempts } => write!(
                f,
                "{path}: other clients changed the value first, {attempts} times in a row; \
                 the value is unchanged by this call, try again later"
            ),
            Self::NodeRecreated { path } => write!(
                f,
                "{path}: the change was applied, but the node was deleted and created again \
                 before, so another value may be overwritten; read it again"
            ),
            Self::VersionsUsedUp { path } => write!(
                f,
                "{path}: the node has version -1, which a server takes as any version; \
                 set the value unconditionally once"
            ),
            Self::InvalidOperationId { id } => {
                write!(f, "{id:?} cannot be the id of an operation: it is no part of a node's name")
            }
            Self::OperationIdReused { path } => write!(
                f,
                "{path}: an operation with this id has added another number; \
                 give each operation an id of its own"
            ),
            Self::Lock(error) => write!(f, "lock of contended changes: {error}"),
        }
    }
}

impl fmt::Debug for AtomicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AtomicError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Lock(error) => Some(error),
            _ => None,
        }
    }
}
