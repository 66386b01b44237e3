//! The two sides of a read-write lock.

use std::convert::identity;

use zk_session::Client;

use super::write_guard::WriteGuard;
use crate::error::LockError;
use crate::guard::Guard;
use crate::lock_handle::{LockHandle, queue_lock};
use crate::participants::{Participant, participants_of_side};
use crate::queue::spec::QueueSpec;

/// The read side of an [`RwLock`](super::RwLock). Any number of readers hold it at a time, while no
/// writer holds the lock. A reader waits for all writers queued before it, whether they hold the lock or
/// wait for it.
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately.
#[derive(Clone, Debug)]
pub struct ReadLock {
    pub(super) handle: LockHandle,
}

queue_lock!(ReadLock, Guard, identity);

impl ReadLock {
    pub(super) fn new(client: &Client, spec: QueueSpec) -> Self {
        Self { handle: LockHandle::new(client, spec) }
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
    handle: LockHandle,
}

queue_lock!(WriteLock, WriteGuard, WriteGuard::new);

impl WriteLock {
    pub(super) fn new(client: &Client, spec: QueueSpec) -> Self {
        Self { handle: LockHandle::new(client, spec) }
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
    participants_of_side(&handle.client, &handle.spec).await
}
