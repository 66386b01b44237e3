//! The two sides of a read-write lock.

use std::time::Duration;

use zk_session::Client;

use super::write_guard::WriteGuard;
use crate::downgrade;
use crate::error::LockError;
use crate::guard::Guard;
use crate::lock_handle::{LockHandle, lock_options};
use crate::participants::{Participant, participants_of_side};
use crate::queue::kind::Kind;
use crate::ticket::Ticket;

/// The read side of an [`RwLock`](super::RwLock). Any number of readers hold it at a time, while no
/// writer holds the lock.
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately.
#[derive(Clone, Debug)]
pub struct ReadLock {
    pub(super) handle: LockHandle,
}

lock_options!(ReadLock);

impl ReadLock {
    pub(super) fn new(client: &Client, kind: Kind) -> Self {
        Self { handle: LockHandle::new(client, kind) }
    }

    /// Waits until no writer is ahead and the read lock is acquired, without a time limit.
    ///
    /// # Errors
    /// Fails if the session ends, if the server rejects a request (for example with `NoAuth`), or
    /// if the sequence numbers are used up. Connection problems are not errors: the call waits
    /// until the session reconnects or ends. Fails with [`LockError::Lost`] if the owner still has
    /// guards of a lock that it has lost.
    ///
    /// # Ordering
    /// First come, first served, among readers and writers together. A reader waits for all writers
    /// queued before it, whether they hold the lock or wait for it.
    ///
    /// # Cancel safety
    /// Dropping the future at any point removes the contender from the queue and leaves no node
    /// behind, even while the connection is down.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.handle.acquire().await
    }

    /// Acquires the read lock if no writer holds it or waits for it. Returns `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without a connection the call fails with
    /// [`LockError::NotConnected`] instead of waiting. If a connected server is silent, the call
    /// waits for its replies as long as the session does;
    /// [`acquire_timeout`](Self::acquire_timeout) has a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.handle.try_acquire().await
    }

    /// Waits until the lock is acquired, for at most `timeout`, including the time without a
    /// connection. Returns `None` after the timeout; the node is then deleted in the background.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire), of at most [15
    /// ms](crate::limits::ATTEMPT_TIME). Without a connection it returns `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        self.handle.acquire_timeout(timeout).await
    }

    /// Queues for the lock and returns the position in the queue.
    ///
    /// This splits an acquisition in two steps, for callers that show how many contenders are ahead
    /// and which one holds the lock. If the lock is free,
    /// [`Ticket::acquire`](crate::Ticket::acquire) returns it after one more request.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire). Dropping the returned [`Ticket`] leaves the queue in the
    /// same way.
    pub async fn enqueue(&self) -> Result<Ticket, LockError> {
        self.handle.enqueue(std::convert::identity).await
    }

    /// Returns all readers, both holders and waiters, in queue order; an empty list if the path
    /// does not exist.
    ///
    /// # Errors
    /// Returns an error if a request fails.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants_of(&self.handle).await
    }
}

/// The write side of an [`RwLock`](super::RwLock). One writer holds it alone.
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately.
#[derive(Clone, Debug)]
pub struct WriteLock {
    handle: LockHandle,
}

lock_options!(WriteLock);

impl WriteLock {
    pub(super) fn new(client: &Client, kind: Kind) -> Self {
        Self { handle: LockHandle::new(client, kind) }
    }

    /// Waits until no contender is ahead and the write lock is acquired, without a time limit.
    ///
    /// # Errors
    /// As [`ReadLock::acquire`]; [`LockError::WouldDeadlock`] for an owner that holds the read
    /// lock; [`ErrorKind::TooLarge`](zk_session::ErrorKind::TooLarge) for data with which the guard
    /// could not be [downgraded](WriteGuard::downgrade).
    ///
    /// # Ordering
    /// First come, first served, among readers and writers together. All later contenders wait,
    /// readers too.
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn acquire(&self) -> Result<WriteGuard, LockError> {
        self.check_len()?;
        self.handle.acquire().await.map(WriteGuard::new)
    }

    /// Acquires the write lock if it is free and no contender waits for it. Returns `None`
    /// otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`ReadLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<WriteGuard>, LockError> {
        self.check_len()?;
        Ok(self.handle.try_acquire().await?.map(WriteGuard::new))
    }

    /// Waits until the lock is acquired, for at most `timeout`; see [`ReadLock::acquire_timeout`].
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
        Ok(self.handle.acquire_timeout(timeout).await?.map(WriteGuard::new))
    }

    /// Queues for the lock and returns the position in the queue.
    ///
    /// This splits an acquisition in two steps, for callers that show how many contenders are ahead
    /// and which one holds the lock. If the lock is free,
    /// [`Ticket::acquire`](crate::Ticket::acquire) returns it after one more request.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire). Dropping the returned [`Ticket`] leaves the queue in the
    /// same way.
    pub async fn enqueue(&self) -> Result<Ticket<WriteGuard>, LockError> {
        self.check_len()?;
        self.handle.enqueue(WriteGuard::new).await
    }

    /// Checks that the guard could be downgraded.
    fn check_len(&self) -> Result<(), LockError> {
        downgrade::check_len(self.handle.client(), self.handle.kind())
    }

    /// Returns all writers, the holder and the waiters, in queue order; an empty list if the path
    /// does not exist.
    ///
    /// # Errors
    /// Returns an error if a request fails.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants_of(&self.handle).await
    }
}

/// Returns the contenders whose names mark them as contenders of this side.
async fn participants_of(handle: &LockHandle) -> Result<Vec<Participant>, LockError> {
    participants_of_side(handle.client(), handle.kind()).await
}
