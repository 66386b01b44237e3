//! What can go wrong with a lock.

use std::fmt;
use std::time::Duration;

use zk_session::{ErrorKind, LeaseLoss, RetryOn, SessionEnd};

use crate::queue::foreign::Recipe;

/// Why a lock that was held is held no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The session is over, and the lock's node with it.
    SessionEnded(SessionEnd),
    /// No answer was processed for so long that the ensemble may be about to give the lock to somebody
    /// else: servers did not answer, or the process blocked its runtime again and again. Against the
    /// latter a session can have a [thread of its own](zk_session::Config::dedicated_thread).
    LeaseDeadlinePassed,
    /// This process did not run for so long that the lock may have been given to somebody
    /// else: it was stopped, its machine was suspended, or a task blocked its runtime.
    ProcessPaused(Duration),
    /// The lock's node was deleted: by somebody, or by the server because the session expired, whose
    /// event may arrive before the session knows.
    NodeDeleted,
    /// The guard was released or dropped. Only told to those who still wait for the
    /// loss of a lock that is no longer held.
    Released,
}

impl From<LeaseLoss> for LossReason {
    fn from(loss: LeaseLoss) -> Self {
        match loss {
            LeaseLoss::SessionEnded(end) => Self::SessionEnded(end),
            LeaseLoss::ProcessPaused(paused) => Self::ProcessPaused(paused),
            _ => Self::LeaseDeadlinePassed,
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionEnded(end) => write!(f, "{end}"),
            Self::LeaseDeadlinePassed => {
                f.write_str("the ensemble did not answer within the lease")
            }
            Self::ProcessPaused(paused) => write!(f, "{}", LeaseLoss::ProcessPaused(*paused)),
            Self::NodeDeleted => f.write_str("somebody deleted the lock's node"),
            Self::Released => f.write_str("the lock was given up"),
        }
    }
}

/// Why a lock could not be had, or could not be used.
///
/// Whatever the error of an acquisition, nothing is left behind: the node that
/// may have been made is deleted, if need be after a reconnect.
///
/// `Debug` prints the same line as `Display`, so that `main` may return it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// A request failed in a way that trying again does not help.
    Client(zk_session::Error),
    /// The lock was held, and is held no more.
    Lost(LossReason),
    /// Somebody asked for the lock, which is still held; see
    /// [`Guard::run_until_revoked`](crate::Guard::run_until_revoked).
    RevocationRequested {
        /// The holder's node.
        node: String,
    },
    /// There is no connection to the ensemble, and the caller did not want to wait for one.
    NotConnected {
        /// The path of the lock.
        path: String,
    },
    /// Another recipe has a node at the lock's path. The two would not exclude each other, so the
    /// lock is not acquired. Give each recipe a path of its own, or call
    /// [`allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes) on the handle.
    ///
    /// The names of nodes identify the recipe, as Curator and this crate form them. The nodes of a
    /// [`Mutex`](crate::Mutex) with [another lock name](crate::Mutex::with_lock_name) are not
    /// recognised. An empty node `leases` that had children counts as a semaphore's, whoever made it; the
    /// server removes that of a semaphore a minute or two after the last use. If two recipes arrive at the same time,
    /// both may fail. Curator does not check: if its lock comes second, it is acquired, and the first
    /// holder does not notice.
    ForeignNode {
        /// The path of the lock.
        path: String,
        /// The node.
        node: String,
        /// The recipe whose nodes have such names.
        recipe: Recipe,
    },
    /// The node was deleted by somebody, again and again, while it waited.
    Vanished {
        /// The path of the lock.
        path: String,
    },
    /// The server has counted so far that it is about to repeat itself. Delete
    /// the lock's path while nobody uses it; the count starts again at 0.
    SequenceExhausted {
        /// The node that got the number.
        node: String,
    },
    /// An owner that reads wants to write, and would wait for itself. Give up the read
    /// side first, and look again at what was read: somebody else may have been first.
    WouldDeadlock {
        /// The path of the lock, from the root of the ensemble.
        path: String,
    },
    /// A text that cannot stand before the numbers in the names of a lock's nodes.
    InvalidLockName {
        /// The text.
        name: String,
    },
    /// A shared count's node has data that is not four bytes.
    NotACount {
        /// The path of the node.
        path: String,
    },
    /// A shared value was set, on a node that had been deleted and made again since the value was
    /// read, and at the version that was read: a value that nobody has read is overwritten. Read
    /// the value again and decide what it is to be.
    NodeRecreated {
        /// The path of the node.
        path: String,
    },
    /// No such number of permits can ever be had: none at all, or more than there are.
    PermitsOutOfRange {
        /// The path of the semaphore.
        path: String,
        /// What was asked for.
        permits: u32,
        /// The most that can be asked for.
        most: u32,
    },
}

impl LockError {
    /// Returns where trying again may help. An acquisition that failed has left nothing behind, so
    /// it can always be repeated on the next session when its own has ended.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Lost(LossReason::SessionEnded(end)) => on_next_session(*end),
            Self::Client(error) => match error.kind() {
                ErrorKind::SessionEnded(end) => on_next_session(*end),
                _ => error.retry_on(),
            },
            Self::Lost(_)
            | Self::Vanished { .. }
            | Self::RevocationRequested { .. }
            | Self::NotConnected { .. } => RetryOn::SameSession,
            Self::SequenceExhausted { .. }
            | Self::WouldDeadlock { .. }
            | Self::InvalidLockName { .. }
            | Self::NotACount { .. }
            | Self::NodeRecreated { .. }
            | Self::ForeignNode { .. }
            | Self::PermitsOutOfRange { .. } => RetryOn::Never,
        }
    }
}

fn on_next_session(end: SessionEnd) -> RetryOn {
    match end {
        SessionEnd::AuthFailed => RetryOn::Never,
        _ => RetryOn::NewSession,
    }
}

/// So that a function that makes a lock and takes it can use `?` for both.
impl From<zk_session::PathError> for LockError {
    fn from(error: zk_session::PathError) -> Self {
        Self::Client(error.into())
    }
}

impl From<zk_session::Error> for LockError {
    fn from(error: zk_session::Error) -> Self {
        Self::Client(error)
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "{error}"),
            Self::Lost(reason) => write!(f, "the lock was lost: {reason}"),
            Self::RevocationRequested { node } => {
                write!(f, "{node}: somebody asked for the lock, which is still held; release it")
            }
            Self::NotConnected { path } => write!(
                f,
                "{path}: there is no connection to the ensemble; try again when there is one, or \
                 wait with a timeout"
            ),
            Self::ForeignNode { path, node, recipe } => write!(
                f,
                "cannot acquire {path}: {node} is the node of a {recipe}, which does not exclude \
                 this lock; use another path, or allow foreign nodes{}",
                match recipe {
                    Recipe::Semaphore => " (an empty one goes some minutes after its last use)",
                    _ => "",
                }
            ),
            Self::Vanished { path } => {
                write!(f, "{path}: the nodes of this contender were deleted by somebody")
            }
            Self::SequenceExhausted { node } => write!(
                f,
                "{node}: the sequence numbers below this path are used up; \
                 delete the path while nobody uses the lock"
            ),
            Self::WouldDeadlock { path } => write!(
                f,
                "{path}: the owner reads, and would wait for itself if it asked to write; \
                 give up the read lock first"
            ),
            Self::InvalidLockName { name } => write!(
                f,
                "{name:?} cannot be a lock's name: it must not be empty, nothing but digits, \
                 or hold a slash or a control character"
            ),
            Self::NotACount { path } => {
                write!(f, "{path}: the data of a count are four bytes, and these are not")
            }
            Self::NodeRecreated { path } => write!(
                f,
                "{path}: the value was set, but the node had been deleted and made again, and \
                 another value may be overwritten; read it again"
            ),
            Self::PermitsOutOfRange { path, permits: 0, .. } => {
                write!(f, "{path}: one permit is the least that can be taken")
            }
            Self::PermitsOutOfRange { path, permits, most } => {
                write!(f, "{path}: {permits} permits were asked for, and {most} is the most")
            }
        }
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            _ => None,
        }
    }
}
