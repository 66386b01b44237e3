//! The read side of a read-write lock.

use std::time::Duration;

use zk_session::{Acl, Client};

use super::downgrade::{WriteNode, beside};
use crate::deadline::{acquire_in_time, while_connected};
use crate::error::LockError;
use crate::hold::Guard;
use crate::observe::LockMetrics;
use crate::owner::{Entry, Owner};
use crate::participants::{Participant, participants_of_side};
use crate::queue::Queue;
use crate::ticket::Ticket;

/// The read side of an [`RwLock`](super::RwLock). Any number of readers hold it at a time, while no
/// writer holds the lock. A reader waits for all writers queued before it, whether they hold the lock or
/// wait for it.
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately.
#[derive(Clone, Debug)]
pub struct ReadLock {
    pub(super) queue: Queue,
    owner: Option<Owner>,
}

impl ReadLock {
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
    /// # Ordering
    /// First come, first served, in the order in which the server created the nodes.
    ///
    /// # Cancel safety
    /// Dropping the future at any point removes the contender from the queue and leaves no node
    /// behind, even while the connection is down.
    #[doc(alias = "lock")]
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        match &self.owner {
            None => Guard::acquire(&self.queue).await,
            // On the heap: waiters without an owner do not need this memory.
            Some(owner) => Box::pin(self.acquire_for(owner)).await,
        }
    }

    /// Acquires the lock if no writer holds it or is queued. Returns `None` otherwise.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let attempt = async {
            match &self.owner {
                None => Guard::try_acquire(&self.queue).await,
                Some(owner) => Box::pin(self.try_acquire_for(owner)).await,
            }
        };
        while_connected(self.client(), self.path(), attempt).await
    }

    /// Waits until the lock is acquired, for at most `timeout`; see
    /// [`Mutex::acquire_timeout`](crate::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        acquire_in_time(self.client(), timeout, || self.acquire(), || self.try_acquire()).await
    }

    /// Queues for the lock and returns the position in the queue; see
    /// [`Mutex::enqueue`](crate::Mutex::enqueue).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire). Dropping the returned [`Ticket`] leaves the queue in the same
    /// way.
    pub async fn enqueue(&self) -> Result<Ticket, LockError> {
        let entry = match &self.owner {
            Some(owner) => Some(read_beside(owner.enter(&self.queue).await?).await?),
            None => None,
        };
        Ticket::enqueue(&self.queue, entry, self.owner.clone(), |guard, _| guard).await
    }

    /// Returns all readers, both holders and waiters, in queue order; an empty list if the path
    /// does not exist.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants_of_side(&self.queue).await
    }

    async fn acquire_for(&self, owner: &Owner) -> Result<Guard, LockError> {
        let entry = read_beside(owner.enter(&self.queue).await?).await?;
        entry.or_queue(|| Guard::acquire(&self.queue)).await
    }

    async fn try_acquire_for(&self, owner: &Owner) -> Result<Option<Guard>, LockError> {
        let Some(entry) = owner.try_enter(&self.queue)? else { return Ok(None) };
        read_beside(entry).await?.or_try(|| Guard::try_acquire(&self.queue)).await
    }
}

/// # Options
impl ReadLock {
    /// Makes this side re-entrant for `owner`; see [`RwLock::with_owner`](super::RwLock::with_owner).
    #[must_use]
    pub fn with_owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Sets the data of this side's nodes; see [`Mutex::with_data`](crate::Mutex::with_data).
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

/// Reads beside the write lock of the owner, if the owner holds it.
async fn read_beside(entry: Entry) -> Result<Entry, LockError> {
    let permit = match entry {
        Entry::Held(guard) => return Ok(Entry::Held(guard)),
        Entry::Queue(permit) => permit,
    };
    let Some((writer, token)) = permit.writer() else { return Ok(Entry::Queue(permit)) };
    let client = match writer.prepare_beside(token) {
        Some(client) => client?,
        None => return Ok(Entry::Queue(permit)),
    };
    match beside(&writer, client, token, WriteNode::Kept).await {
        Ok(reads) => Ok(Entry::Held(permit.record(reads))),
        // Its last guard has released the write lock meanwhile.
        Err(LockError::Lost(_)) if writer.is_released() => Ok(Entry::Queue(permit)),
        Err(error) => Err(error),
    }
}
