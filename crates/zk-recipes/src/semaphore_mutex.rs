//! The mutex that is a semaphore of one permit: Curator's `InterProcessSemaphoreMutex`.

use std::time::Duration;

use zk_session::{Acl, Client, PathError};

use crate::error::LockError;
use crate::guard::Guard;
use crate::participants::Participant;
use crate::semaphore::{Lease, Semaphore};

/// A lock that one holder has at a time, on the nodes of Curator's
/// `InterProcessSemaphoreMutex`, which are those of a [`Semaphore`] of one permit.
///
/// It is there for services that share a lock with such Java services. A
/// [`Mutex`](crate::Mutex) on the same path does not exclude it, so a path with nodes of one is
/// refused ([`LockError::ForeignNode`]), here and there. Java services do not refuse: with them
/// both can be held at the same time. Where there is a choice take the `Mutex`: it costs one round
/// trip less, it hands over without a request, and those who wait are all listed.
///
/// The handle is cheap to clone and may be shared by many tasks, each of which queues
/// for itself.
///
/// # What it promises
/// * **One holder**, with a token larger than that of every holder before: the [`Guard`] is
///   the same as a mutex's.
/// * **Fair**: first come, first served.
/// * **Not re-entrant**: a task that acquires a lock it already holds waits for itself.
///
/// # On the wire
/// ```text
/// <path>/locks/_c_<uuid>-lock-0000000007      whose turn it is to take the permit
/// <path>/leases/_c_<uuid>-lease-0000000012    holds the lock, or has the turn and waits
/// ```
///
/// # What it costs
/// What one permit of a [`Semaphore`] does: two round trips for a lock that is free, and one
/// list between a holder's exit and the next one's entry.
///
/// # What happens on loss
/// As with a [`Mutex`](crate::Mutex): the guard is lost before the server can give the lock
/// away, and those who wait are told that their session is over.
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
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// A lock at `path`. Touches no server; see [`Semaphore::new`].
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self { semaphore: Semaphore::new(client, path, 1)? })
    }

    /// Data for the nodes of this handle, which others can read. By default it is this
    /// end's address, as with Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.semaphore = self.semaphore.with_data(data);
        self
    }

    /// Who may do what with the nodes; see [`Semaphore::with_acl`].
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.semaphore = self.semaphore.with_acl(acl);
        self
    }

    /// Does not refuse a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.semaphore = self.semaphore.allow_foreign_nodes();
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.semaphore.path()
    }

    /// Waits for the lock, as long as it takes.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Ordering
    /// First come, first served.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.guard(self.semaphore.acquire().await?)
    }

    /// Takes the lock if it is free; see [`Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.semaphore.try_acquire().await?.map(|lease| self.guard(lease)).transpose()
    }

    /// Waits for the lock, but no longer than `timeout`, whatever the reason for the
    /// waiting.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire), which may take
    /// [15 ms](crate::limits::ATTEMPT_TIME). Without a connection it returns `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        let lease = self.semaphore.acquire_timeout(timeout).await?;
        lease.map(|lease| self.guard(lease)).transpose()
    }

    /// The holder, and the first of those who wait; see [`Semaphore::participants`].
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.semaphore.participants().await
    }

    pub(crate) fn client(&self) -> &Client {
        self.semaphore.client()
    }

    fn guard(&self, lease: Lease) -> Result<Guard, LockError> {
        // A lease has a guard for each permit, and this is one of one.
        lease.into_guard().ok_or_else(|| LockError::Vanished { path: self.path().to_owned() })
    }
}
