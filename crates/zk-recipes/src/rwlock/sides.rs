//! The two sides of a read-write lock.

use std::time::Duration;

use zk_session::{Acl, Client};

use super::downgrade;
use super::write_guard::WriteGuard;
use crate::error::LockError;
use crate::gate::Gate;
use crate::guard::Guard;
use crate::owner::Owner;
use crate::participants::{Participant, participants_named};
use crate::queue::kind::Kind;
use crate::waiting::Waiting;

/// The side of an [`RwLock`](super::RwLock) that any number may hold at a time, while
/// nobody writes.
///
/// Cheap to clone, and may be shared by many tasks, each of which queues for itself.
#[derive(Clone, Debug)]
pub struct ReadLock {
    gate: Gate,
}

impl ReadLock {
    pub(super) fn new(client: &Client, kind: Kind) -> Self {
        Self { gate: Gate::new(client, kind) }
    }

    /// Data for the nodes of this side; see [`RwLock::with_data`](super::RwLock::with_data).
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.gate.kind_mut().set_data(data);
        self
    }

    /// Who may do what with the nodes of this side; see
    /// [`RwLock::with_acl`](super::RwLock::with_acl).
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.gate.kind_mut().set_acl(acl);
        self
    }

    /// Does not refuse a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.gate.kind_mut().exclusive = None;
        self
    }

    /// On behalf of an owner; see [`RwLock::owned_by`](super::RwLock::owned_by).
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.gate = self.gate.owned_by(owner);
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.gate.kind().path
    }

    /// Waits until no writer is ahead, as long as it takes.
    ///
    /// # Errors
    /// The session ends, the server declines (for example with `NoAuth`), the sequence
    /// numbers are used up. Trouble with the connection is waited out. With an owner that
    /// has guards of a hold that is lost: [`LockError::Lost`].
    ///
    /// # Ordering
    /// First come, first served among readers and writers together: a reader waits for the
    /// writers that came before it, whether they hold the lock or wait for it.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, takes the contender out of the queue and leaves
    /// no node behind, even if the connection is down at that moment.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.gate.acquire().await
    }

    /// Takes the lock if no writer has it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). It does not wait for a connection: without one the error is
    /// [`LockError::NotConnected`]. For the answers of a server that is silent it waits as long as
    /// the session does; see [`acquire_timeout`](Self::acquire_timeout) for a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.gate.try_acquire().await
    }

    /// Waits for the lock, but no longer than `timeout`, whatever the reason for the
    /// waiting. The place in the queue is given up in the background.
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
        self.gate.acquire_timeout(timeout).await
    }

    /// Queues for the lock, and gives the place in the queue: an acquisition in two steps,
    /// for those who want to see how many are ahead, and who holds it. If the lock is free,
    /// [`Waiting::acquired`](crate::Waiting::acquired) returns it after one more request.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire); so does dropping the place in the queue.
    pub async fn enqueue(&self) -> Result<Waiting, LockError> {
        self.gate.enqueue().await
    }

    pub(crate) fn client(&self) -> &Client {
        self.gate.client()
    }

    /// The readers, those who hold the lock and those who wait, in order; nobody if the
    /// path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants_of(&self.gate).await
    }
}

/// The side of an [`RwLock`](super::RwLock) that one holder has alone.
///
/// Cheap to clone, and may be shared by many tasks, each of which queues for itself.
#[derive(Clone, Debug)]
pub struct WriteLock {
    gate: Gate,
}

impl WriteLock {
    pub(super) fn new(client: &Client, kind: Kind) -> Self {
        Self { gate: Gate::new(client, kind) }
    }

    /// Data for the nodes of this side, and for those of readers that were writers; see
    /// [`RwLock::with_data`](super::RwLock::with_data).
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.gate.kind_mut().set_data(data);
        self
    }

    /// Who may do what with the nodes of this side; see
    /// [`RwLock::with_acl`](super::RwLock::with_acl).
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.gate.kind_mut().set_acl(acl);
        self
    }

    /// Does not refuse a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.gate.kind_mut().exclusive = None;
        self
    }

    /// On behalf of an owner; see [`RwLock::owned_by`](super::RwLock::owned_by).
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.gate = self.gate.owned_by(owner);
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.gate.kind().path
    }

    /// Waits until nobody is ahead, as long as it takes.
    ///
    /// # Errors
    /// As [`ReadLock::acquire`]; [`LockError::WouldDeadlock`] with an owner that reads;
    /// [`ErrorKind::TooLarge`](zk_session::ErrorKind::TooLarge) for data with which the guard could
    /// not be [downgraded](WriteGuard::downgrade).
    ///
    /// # Ordering
    /// First come, first served among readers and writers together. Whoever comes later
    /// waits, readers too.
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn acquire(&self) -> Result<WriteGuard, LockError> {
        self.check_len()?;
        self.gate.acquire().await.map(WriteGuard::new)
    }

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<WriteGuard>, LockError> {
        self.check_len()?;
        Ok(self.gate.try_acquire().await?.map(WriteGuard::new))
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
        self.check_len()?;
        Ok(self.gate.acquire_timeout(timeout).await?.map(WriteGuard::new))
    }

    /// Queues for the lock, and gives the place in the queue: an acquisition in two steps,
    /// for those who want to see how many are ahead, and who holds it. If the lock is free,
    /// [`Waiting::acquired`](crate::Waiting::acquired) returns it after one more request.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire); so does dropping the place in the queue.
    pub async fn enqueue(&self) -> Result<Waiting<WriteGuard>, LockError> {
        self.check_len()?;
        self.gate.enqueue().await
    }

    /// Checks that the guard could be downgraded.
    fn check_len(&self) -> Result<(), LockError> {
        downgrade::check_len(self.gate.client(), self.gate.kind())
    }

    pub(crate) fn client(&self) -> &Client {
        self.gate.client()
    }

    /// The writers, the one who holds the lock and those who wait, in order; nobody if the
    /// path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants_of(&self.gate).await
    }
}

/// Those of them whose names tell that they are of this side.
async fn participants_of(gate: &Gate) -> Result<Vec<Participant>, LockError> {
    let kind = gate.kind();
    participants_named(gate.client(), &kind.path, kind.rule(), &kind.lock_name).await
}
