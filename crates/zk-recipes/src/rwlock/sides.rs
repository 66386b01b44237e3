//! The two sides of a read-write lock.

use std::time::Duration;

use zk_session::{Belief, Client};

use super::write_guard::WriteGuard;
use crate::error::LockError;
use crate::guard::Guard;
use crate::participants::{Participant, participants_named};
use crate::queue::contender::{Contender, Kind};
use crate::queue::turn;

/// The side of an [`RwLock`](super::RwLock) that any number may hold at a time, while
/// nobody writes.
///
/// Cheap to clone, and may be shared by many tasks, each of which queues for itself.
#[derive(Clone, Debug)]
pub struct ReadLock {
    side: Side,
}

impl ReadLock {
    pub(super) fn new(client: &Client, kind: Kind) -> Self {
        Self { side: Side { client: client.clone(), kind } }
    }

    /// Data for the nodes of this side; see [`RwLock::with_data`](super::RwLock::with_data).
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.side.kind.data = Some(data.into());
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.side.kind.path
    }

    /// Waits until no writer is ahead, as long as it takes.
    ///
    /// # Errors
    /// The session ends, the server declines (for example with `NoAuth`), the sequence
    /// numbers are used up. Trouble with the connection is waited out.
    ///
    /// # Ordering
    /// First come, first served among readers and writers together: a reader waits for the
    /// writers that came before it, whether they hold the lock or wait for it.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, takes the contender out of the queue and leaves
    /// no node behind, even if the connection is down at that moment.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.side.acquire().await
    }

    /// Takes the lock if no writer has it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without a connection it waits for one; see
    /// [`acquire_timeout`](Self::acquire_timeout) for a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.side.try_acquire().await
    }

    /// Waits for the lock, but no longer than `timeout`, whatever the reason for the
    /// waiting. The place in the queue is given up in the background. With a timeout of
    /// zero it does what [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        self.side.acquire_timeout(timeout).await
    }

    /// The readers, those who hold the lock and those who wait, in order; nobody if the
    /// path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.side.participants().await
    }
}

/// The side of an [`RwLock`](super::RwLock) that one holder has alone.
///
/// Cheap to clone, and may be shared by many tasks, each of which queues for itself.
#[derive(Clone, Debug)]
pub struct WriteLock {
    side: Side,
}

impl WriteLock {
    pub(super) fn new(client: &Client, kind: Kind) -> Self {
        Self { side: Side { client: client.clone(), kind } }
    }

    /// Data for the nodes of this side, and for those of readers that were writers; see
    /// [`RwLock::with_data`](super::RwLock::with_data).
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.side.kind.data = Some(data.into());
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.side.kind.path
    }

    /// Waits until nobody is ahead, as long as it takes.
    ///
    /// # Errors
    /// As [`ReadLock::acquire`].
    ///
    /// # Ordering
    /// First come, first served among readers and writers together. Whoever comes later
    /// waits, readers too.
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn acquire(&self) -> Result<WriteGuard, LockError> {
        self.side.acquire().await.map(WriteGuard::new)
    }

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// # Errors
    /// As [`ReadLock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<WriteGuard>, LockError> {
        Ok(self.side.try_acquire().await?.map(WriteGuard::new))
    }

    /// Waits for the lock, but no longer than `timeout`; see
    /// [`ReadLock::acquire_timeout`].
    ///
    /// # Errors
    /// As [`ReadLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<WriteGuard>, LockError> {
        Ok(self.side.acquire_timeout(timeout).await?.map(WriteGuard::new))
    }

    /// The writers, the one who holds the lock and those who wait, in order; nobody if the
    /// path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.side.participants().await
    }
}

/// What the two have in common.
#[derive(Clone, Debug)]
struct Side {
    client: Client,
    kind: Kind,
}

impl Side {
    async fn acquire(&self) -> Result<Guard, LockError> {
        let mut contender = Contender::new(&self.client, &self.kind);
        let belief = turn::wait(&mut contender).await?;
        self.guard(contender, belief)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let mut contender = Contender::new(&self.client, &self.kind);
        match turn::look_once(&mut contender).await? {
            Some(belief) => self.guard(contender, belief).map(Some),
            None => Ok(None),
        }
    }

    async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        if timeout.is_zero() {
            return self.try_acquire().await; // one look takes time, too
        }
        match tokio::time::timeout(timeout, self.acquire()).await {
            Ok(acquired) => acquired.map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        let Kind { path, rule, lock_name, .. } = &self.kind;
        participants_named(&self.client, path, *rule, lock_name).await
    }

    fn guard(&self, contender: Contender, belief: Belief) -> Result<Guard, LockError> {
        match contender.node().cloned() {
            Some(node) => Ok(Guard::new(contender, node, belief)),
            // Whoever has a turn has a node.
            None => Err(LockError::Vanished { path: self.kind.path.clone() }),
        }
    }
}
