//! The write side of a read-write lock.

use std::time::Duration;

use zk_session::{Acl, Client};

use super::downgrade::check_len;
use super::write_guard::WriteGuard;
use crate::deadline::{acquire_in_time, while_connected};
use crate::error::LockError;
use crate::hold::Guard;
use crate::observe::LockMetrics;
use crate::owner::Owner;
use crate::participants::{Participant, participants_of_side};
use crate::queue::Queue;
use crate::ticket::Ticket;

/// The write side of an [`RwLock`](super::RwLock). One writer holds it alone. All later contenders wait
/// for a queued writer, readers too.
///
/// An acquisition also fails with [`LockError::WouldDeadlock`] for an owner that holds the read lock, and
/// with [`ErrorKind::TooLarge`](zk_session::ErrorKind::TooLarge) for data with which the guard could not be
/// [downgraded](WriteGuard::downgrade).
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately.
#[derive(Clone, Debug)]
pub struct WriteLock {
    queue: Queue,
    owner: Option<Owner>,
}

impl WriteLock {
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue, owner: None }
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.queue.spec.path
    }

    pub(crate) fn client(&self) -> &Client {
        &self.queue.client
    }

    /// Waits until the lock is acquired, without a time limit.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire), and those of the [write lock](Self).
    ///
    /// # Ordering
    /// First come, first served, in the order in which the server created the nodes.
    ///
    /// # Cancel safety
    /// Dropping the future at any point removes the contender from the queue and leaves no node
    /// behind, even while the connection is down.
    #[doc(alias = "lock")]
    pub async fn acquire(&self) -> Result<WriteGuard, LockError> {
        check_len(&self.queue)?;
        let guard = match &self.owner {
            None => Guard::acquire(&self.queue).await?,
            Some(owner) => {
                owner.enter(&self.queue).await?.or_queue(|| Guard::acquire(&self.queue)).await?
            }
        };
        Ok(self.guard(guard))
    }

    /// Acquires the lock if it is free and no contender is queued ahead. Returns `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire) and [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<WriteGuard>, LockError> {
        let attempt = async {
            check_len(&self.queue)?;
            let Some(owner) = &self.owner else { return Guard::try_acquire(&self.queue).await };
            match owner.try_enter(&self.queue)? {
                Some(entry) => entry.or_try(|| Guard::try_acquire(&self.queue)).await,
                None => Ok(None),
            }
        };
        let acquired = while_connected(self.client(), self.path(), attempt).await?;
        Ok(acquired.map(|guard| self.guard(guard)))
    }

    /// Waits until the lock is acquired, for at most `timeout`; see
    /// [`Mutex::acquire_timeout`](crate::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<WriteGuard>, LockError> {
        acquire_in_time(self.client(), timeout, || self.acquire(), || self.try_acquire()).await
    }

    /// Queues for the lock and returns the position in the queue; see
    /// [`Mutex::enqueue`](crate::Mutex::enqueue).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire). Dropping the returned [`Ticket`] leaves the queue in the same
    /// way.
    pub async fn enqueue(&self) -> Result<Ticket<WriteGuard>, LockError> {
        check_len(&self.queue)?;
        let entry = match &self.owner {
            Some(owner) => Some(owner.enter(&self.queue).await?),
            None => None,
        };
        Ticket::enqueue(&self.queue, entry, self.owner.clone(), WriteGuard::new).await
    }

    /// Returns all writers, the holder and the waiters, in queue order; an empty list if the path
    /// does not exist.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants_of_side(&self.queue).await
    }

    fn guard(&self, guard: Guard) -> WriteGuard {
        WriteGuard::new(guard, self.owner.clone())
    }
}

/// # Options
impl WriteLock {
    /// Makes this side re-entrant for `owner`; see [`RwLock::with_owner`](super::RwLock::with_owner).
    #[must_use]
    pub fn with_owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Sets the data of this side's nodes; see [`Mutex::with_data`](crate::Mutex::with_data). A writer that
    /// becomes a reader keeps its data.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.queue.spec_mut().set_data(data.into());
        self
    }

    /// Sets the ACL of the nodes; see [`Mutex::with_acl`](crate::Mutex::with_acl).
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.queue.spec_mut().set_acl(acl.into());
        self
    }

    /// Counts acquisitions, holds and losses of this side in `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &LockMetrics) -> Self {
        self.queue.spec_mut().set_metrics(metrics);
        self
    }

    /// Accepts a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.queue.spec_mut().allow_foreign_nodes();
        self
    }
}
