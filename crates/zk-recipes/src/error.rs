//! Errors of the locks.

use std::fmt;
use std::time::Duration;

use zk_session::{ErrorKind, LeaseLoss, RetryOn, SessionEnd};

use crate::recipe::Recipe;

/// The reason why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The session has ended, and the server has removed the lock's node.
    SessionEnded(SessionEnd),
    /// No reply was processed for so long that the ensemble may be about to grant the lock to
    /// another contender. Servers did not answer, or the process blocked its runtime again and
    /// again. A [dedicated thread](zk_session::Config::dedicated_thread) for the session prevents
    /// the latter.
    LeaseDeadlinePassed,
    /// This process did not run for so long that another contender may hold the lock. The process
    /// was stopped, its machine was suspended, or a task blocked its runtime.
    ProcessPaused(Duration),
    /// The lock's node was deleted, by a client or by the server when it expired the session. The
    /// deletion event may arrive before the client detects the expiry.
    NodeDeleted,
    /// The guard was released or dropped. Futures that still wait for the loss return this reason,
    /// and so does a [`HeldLock`](crate::HeldLock) after its work has ended.
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
            Self::SessionEnded(end) => end.fmt(f),
            Self::LeaseDeadlinePassed => LeaseLoss::DeadlinePassed.fmt(f),
            Self::ProcessPaused(paused) => LeaseLoss::ProcessPaused(*paused).fmt(f),
            Self::NodeDeleted => f.write_str(
                "the lock's node was deleted, by another client or because the session expired",
            ),
            Self::Released => f.write_str("the lock was released"),
        }
    }
}

impl std::error::Error for LossReason {}

/// Error of an acquisition, or of an operation on a held lock.
///
/// A failed acquisition leaves nothing behind: the session deletes a node that may have been
/// created, after a reconnect if necessary.
///
/// `Debug` prints the same line as `Display`, so that `main` may return this error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// A request failed, and so did its repetitions, if it was repeated; see
    /// [`retry_on`](Self::retry_on). Its [outcome](zk_session::Error::outcome) tells whether the
    /// request was applied. Requests that do no harm if they are applied again, such as the creation
    /// of the lock's path, count as not applied.
    Client(zk_session::Error),
    /// The lock was held and is lost.
    Lost(LossReason),
    /// Another client requested the revocation of the lock, which is still held; see
    /// [`Guard::run_until_revoked`](crate::Guard::run_until_revoked).
    RevocationRequested {
        /// The holder's node.
        node: String,
    },
    /// The node is that of a candidate of Curator's `LeaderLatch`, which has no revocation: a request
    /// would replace its id, and Java candidates behind it would wait forever. End its process
    /// instead.
    NotRevocable {
        /// The candidate's node.
        node: String,
    },
    /// There is no connection to the ensemble, and the call does not wait for one.
    NotConnected {
        /// The path of the lock.
        path: String,
    },
    /// Another recipe has a node at the lock's path. The two would not exclude each other, so the
    /// lock is not acquired. Give each recipe its own path, or call
    /// [`allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes) on the handle.
    ///
    /// The names of nodes identify the recipe, as Curator and this crate form them. The nodes of a
    /// [`Mutex`](crate::Mutex) with [another lock name](crate::Mutex::with_lock_name) are not
    /// recognised. An empty node `leases` that had children counts as the node of a semaphore,
    /// whichever client created it. The server removes the `leases` of a semaphore a minute or two
    /// after its last use.
    ///
    /// If two recipes arrive at the same time, both may fail. Curator does not check: if its lock
    /// comes second, it is acquired, and the first holder does not notice.
    ForeignNode {
        /// The path of the lock.
        path: String,
        /// The node of the other recipe.
        node: String,
        /// The recipe that uses such names.
        recipe: Recipe,
    },
    /// A node was deleted. Which one depends on the call:
    /// * An acquisition: other clients deleted the node of the waiter repeatedly. It has queued again
    ///   as often as [`RESTARTS_MAX`](crate::limits::RESTARTS_MAX) permits. For a reader beside its own
    ///   writer, one deletion is enough.
    /// * A wait for the revocation of a node: that node no longer exists.
    NodeDeleted {
        /// The path of the lock, or of the node.
        path: String,
    },
    /// The sequence counter of the lock's path is close to its limit, where the server repeats
    /// numbers. Delete the path while no client uses it; the counter then starts again at 0.
    SequenceExhausted {
        /// The node that got the number.
        node: String,
    },
    /// An owner that holds the read lock requested the write lock, and would wait for itself.
    /// Release the read lock first. Then read the data again: another writer may have been granted
    /// the lock in between.
    WouldDeadlock {
        /// The path of the lock, from the root of the ensemble.
        path: String,
    },
    /// The text cannot precede the numbers in the names of a lock's nodes.
    InvalidLockName {
        /// The text.
        name: String,
    },
    /// The data of a shared count's node is not four bytes.
    NotACount {
        /// The path of the node.
        path: String,
    },
    /// A shared value was set on a node that had been deleted and created again since it was read.
    /// The new node had the version that was read, so a value that the caller has not read is
    /// overwritten. Read the value again and decide what to set.
    NodeRecreated {
        /// The path of the node.
        path: String,
    },
    /// The number of permits is zero, or larger than the maximum.
    PermitsOutOfRange {
        /// The path of the semaphore.
        path: String,
        /// The requested number of permits.
        permits: u32,
        /// The maximum number of permits.
        max: u32,
    },
}

impl LockError {
    /// Returns on which session a retry may help. A failed acquisition leaves nothing behind. So it
    /// can always be repeated on the next session when its own session has ended.
    ///
    /// The deletion of the lock's node may be the first sign that the session has expired. So
    /// [`LossReason::NodeDeleted`] returns [`RetryOn::SameSession`], and the next call may return
    /// [`RetryOn::NewSession`].
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Lost(LossReason::SessionEnded(end)) => end.retry_on(),
            Self::Client(error) => match error.kind() {
                ErrorKind::SessionEnded(end) => end.retry_on(),
                _ => error.retry_on(),
            },
            Self::Lost(_)
            | Self::NodeDeleted { .. }
            | Self::RevocationRequested { .. }
            | Self::NotConnected { .. } => RetryOn::SameSession,
            Self::SequenceExhausted { .. }
            | Self::NotRevocable { .. }
            | Self::WouldDeadlock { .. }
            | Self::InvalidLockName { .. }
            | Self::NotACount { .. }
            | Self::NodeRecreated { .. }
            | Self::ForeignNode { .. }
            | Self::PermitsOutOfRange { .. } => RetryOn::Never,
        }
    }
}

/// Allows `?` for both the construction and the acquisition of a lock.
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
                write!(
                    f,
                    "{node}: another client requests the lock, which is still held; release it"
                )
            }
            Self::NotRevocable { node } => write!(
                f,
                "{node}: a candidate of an election does not release on request; end its process"
            ),
            Self::NotConnected { path } => write!(
                f,
                "{path}: no connection to the ensemble; try again later, or acquire with a timeout"
            ),
            Self::ForeignNode { path, node, recipe } => write!(
                f,
                "cannot acquire {path}: {node} is the node of {}, which does not exclude \
                 this lock; use another path, or allow foreign nodes{}",
                recipe.described(),
                match recipe {
                    Recipe::Semaphore =>
                        " (the server removes an unused `leases` a minute or two after its last use)",
                    _ => "",
                }
            ),
            Self::NodeDeleted { path } => {
                write!(f, "{path}: another client deleted the nodes of this contender")
            }
            Self::SequenceExhausted { node } => write!(
                f,
                "{node}: the sequence numbers below this path are used up; \
                 delete the path while nobody uses the lock"
            ),
            Self::WouldDeadlock { path } => write!(
                f,
                "{path}: the owner holds the read lock and would wait for itself; release the read \
                 lock first"
            ),
            Self::InvalidLockName { name } => write!(
                f,
                "{name:?} cannot be a lock's name: it must not be empty, nothing but digits, \
                 or hold a slash or a control character"
            ),
            Self::NotACount { path } => {
                write!(f, "{path}: a count has four bytes of data, and this node has not")
            }
            Self::NodeRecreated { path } => write!(
                f,
                "{path}: the value was set, but the node was deleted and created again before, so \
                 another value may be overwritten; read it again"
            ),
            Self::PermitsOutOfRange { path, permits: 0, .. } => {
                write!(f, "{path}: an acquisition takes at least one permit")
            }
            Self::PermitsOutOfRange { path, permits, max } => {
                write!(f, "{path}: {permits} permits requested, at most {max} possible")
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

/// The failure of one of the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFailure {
    /// The path of the lock.
    pub path: String,
    /// The error of this lock.
    pub error: LockError,
}

impl fmt::Display for LockFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {}: {}", self.path, self.error)
    }
}

impl std::error::Error for LockFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl LockFailure {
    pub(crate) fn new(path: &str, error: LockError) -> Self {
        Self { path: path.to_owned(), error }
    }
}

impl From<LockFailure> for MultiLockError {
    fn from(failure: LockFailure) -> Self {
        Self { failures: vec![failure] }
    }
}

/// Error of the acquisition or the release of several locks. `Debug` prints the same line as
/// `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct MultiLockError {
    pub(crate) failures: Vec<LockFailure>,
}

impl MultiLockError {
    /// Returns all failures, at least one. If an acquisition failed, the first failure is the one
    /// that ended it. The others are in the order of the releases.
    #[must_use]
    pub fn failures(&self) -> &[LockFailure] {
        &self.failures
    }

    /// Returns on which session a retry may help: the worst case among the failures.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        let all = self.failures.iter().map(|failure| failure.error.retry_on());
        all.max().unwrap_or(RetryOn::Never)
    }
}

/// The first failure.
impl From<MultiLockError> for LockError {
    fn from(error: MultiLockError) -> Self {
        let first = error.failures.into_iter().next();
        first.map_or(Self::Lost(LossReason::Released), |failure| failure.error)
    }
}

impl fmt::Display for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, failure) in self.failures.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{failure}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for MultiLockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failures.first().map(|failure| &failure.error as _)
    }
}
