//! Errors of several locks: the failure of each.

use std::fmt;

use zk_session::RetryOn;

use crate::error::{LockError, LossReason};

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
