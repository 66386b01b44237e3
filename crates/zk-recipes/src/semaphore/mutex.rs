//! The mutex on the nodes of a semaphore: Curator's `InterProcessSemaphoreMutex`.

use std::time::Duration;

use zk_session::{Acl, Client, PathError};

use super::{Semaphore, SemaphoreGuard};
use crate::error::LockError;
use crate::hold::Guard;
use crate::observe::LockMetrics;
use crate::participants::Participant;

/// A mutex that is a [`Semaphore`] of one permit: Curator's `InterProcessSemaphoreMutex`, on the
/// same nodes.
///
/// Use it to share a lock with Java services that use `InterProcessSemaphoreMutex`. Otherwise use a
/// [`Mutex`](crate::Mutex): it takes one round trip less, hands the lock over without a request,
/// and lists all waiters.
///
/// A [`Mutex`](crate::Mutex) on the same path does not exclude it. So each of the two rejects a
/// path with nodes of the other ([`LockError::ForeignNode`]). Java services do not reject such a
/// path: with them both locks can be held at the same time.
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately.
///
/// # What it promises
/// * **One holder**, with a token larger than the tokens of all earlier holders: the [`Guard`] is
///   the same as for a mutex.
/// * **Fair**: first come, first served, but for [one exception](Self::acquire).
/// * **Not re-entrant**: a task deadlocks if it acquires a lock that it already holds.
///
/// # On the wire
/// ```text
/// <path>/locks/_c_<id>-lock-0000000007      queues for the turn to acquire the permit
/// <path>/leases/_c_<id>-lease-0000000012    holds the lock, or has the turn and waits
/// ```
///
/// # What it costs
/// The costs of one permit of a [`Semaphore`]: two round trips for a free lock, and one list
/// between the release of a holder and the grant to the next one.
///
/// # What happens on loss
/// As with a [`Mutex`](crate::Mutex): the guard is lost before the server can grant the lock to
/// another contender. Waiters fail when their session ends.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::SemaphoreMutex;
/// use zk_recipes::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let guard = SemaphoreMutex::new(&client, "/locks/ledger")?.acquire().await?;
/// println!("writing with token {}", guard.token()?);
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "InterProcessSemaphoreMutex")]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// Creates a handle for the lock at `path`. Sends no request; see [`Semaphore::new`].
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self { semaphore: Semaphore::new(client, path, 1)? })
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.semaphore.path()
    }

    /// Waits until the lock is acquired, without a time limit.
    ///
    /// # Ordering
    /// First come, first served. A caller may lose its place once, to all who wait then, if the last turns of
    /// this handle found the lock free, and the one of the caller does not.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.guard(self.semaphore.acquire().await?)
    }

    /// Acquires the lock if it is free; see [`Semaphore::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.semaphore.try_acquire().await?.map(|permit| self.guard(permit)).transpose()
    }

    /// Waits until the lock is acquired, for at most `timeout`, including the time without a
    /// connection. Returns `None` after the timeout.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire). It waits for the
    /// replies of a server that answers, for at most a session timeout. Without a connection it
    /// returns `None` at once.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        let permit = self.semaphore.acquire_timeout(timeout).await?;
        permit.map(|permit| self.guard(permit)).transpose()
    }

    /// Returns the holder and the head of the queue; see [`Semaphore::participants`].
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.semaphore.participants().await
    }

    pub(crate) fn client(&self) -> &Client {
        self.semaphore.client()
    }

    fn guard(&self, permit: SemaphoreGuard) -> Result<Guard, LockError> {
        // The guard of a semaphore has one guard for each permit, and this is the guard of one permit.
        permit.into_guard().ok_or_else(|| LockError::NodeDeleted { path: self.path().to_owned() })
    }
}

/// # Options
impl SemaphoreMutex {
    /// Sets the data of the lease; see [`Mutex::with_data`](crate::Mutex::with_data).
    #[must_use]
    pub fn with_data(self, data: impl Into<Vec<u8>>) -> Self {
        Self { semaphore: self.semaphore.with_data(data) }
    }

    /// Sets the ACL of the nodes; see [`Mutex::with_acl`](crate::Mutex::with_acl).
    #[must_use]
    pub fn with_acl(self, acl: impl Into<Vec<Acl>>) -> Self {
        Self { semaphore: self.semaphore.with_acl(acl) }
    }

    /// Counts acquisitions, holds and losses of this handle in `metrics`; see
    /// [`Semaphore::with_metrics`].
    #[must_use]
    pub fn with_metrics(self, metrics: &LockMetrics) -> Self {
        Self { semaphore: self.semaphore.with_metrics(metrics) }
    }

    /// Accepts a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(self) -> Self {
        Self { semaphore: self.semaphore.allow_foreign_nodes() }
    }
}
