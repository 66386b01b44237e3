//! The guard of the write side.

use std::ops::Deref;

use crate::downgrade::{HeldWriter, WriteNode, beside};
use crate::error::LockError;
use crate::guard::Guard;
use crate::owner::{Entry, SharedHolding};

/// The held write side of an [`RwLock`](super::RwLock). It has all methods of a [`Guard`] and can
/// be downgraded to a read guard.
///
/// Dropping it releases the lock in the background, as with every guard.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct WriteGuard {
    guard: Guard,
}

impl WriteGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// Turns the write lock into a read lock. The waiting readers are granted the lock, and no
    /// other writer can hold it in between.
    ///
    /// One transaction checks that the write node exists, creates a read node with the same number,
    /// and deletes the write node. So all waiters stay behind it. The read guard keeps the writer's
    /// token, which matches its position in the queue: larger than the tokens of all writers before
    /// it, and smaller than the tokens of all writers after it.
    ///
    /// If the owner has other guards of the write side, it keeps the write lock, and only this
    /// guard becomes a read guard. If the owner already reads, it gets another guard of its read
    /// lock.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] if the write lock was, or may have been, lost before the read
    /// node existed: another writer may have written. Otherwise returns the error of a failed
    /// request. On any error the lock is released altogether. Connection problems are not errors
    /// while the lock is held: the call waits.
    ///
    /// # Cancel safety
    /// Dropping the future at any point releases the lock altogether and leaves no node behind.
    ///
    /// ```no_run
    /// # async fn example(lock: zk_recipes::RwLock) -> Result<(), zk_recipes::LockError> {
    /// let writing = lock.write().acquire().await?;
    /// writing.multi().set_data("/prices/bread", b"3.20", None).send().await?;
    /// let reading = writing.downgrade().await?;
    /// // the price is still 3.20
    /// reading.release().await
    /// # }
    /// ```
    pub async fn downgrade(self) -> Result<Guard, LockError> {
        let (reads, permit) = match self.guard.hold().enter_read().await? {
            Entry::Held(hold) => (Some(Guard::of(hold)), None),
            Entry::Beside(_, permit) => (None, Some(permit)),
            Entry::Queue(permit) => (None, permit),
        };
        // From here on no task can re-enter the write side.
        let writer = self.guard.into_hold();
        if let Some(reads) = reads {
            // Of several downgrades at the same time, exactly one gets the last writer.
            if let Some(writer) = writer.into_last() {
                let held = writer.token();
                writer.release(held).await?;
            }
            return Ok(reads);
        }
        let reader = match writer.try_into_last() {
            Err(writer) => beside(&HeldWriter::of(&writer)?, WriteNode::Kept).await?,
            Ok(mut writer) => {
                let reader = beside(&HeldWriter::of(&writer)?, WriteNode::Deleted).await?;
                writer.forget_node();
                reader
            }
        };
        Ok(Guard::of(SharedHolding::new(reader, permit)))
    }

    /// Acquires the read side as well, without waiting for other contenders, as a Curator holder of
    /// the write lock can.
    ///
    /// The two guards may be released in any order. No other contender is granted the lock while
    /// this guard is held. This is a downgrade in two steps; [`downgrade`](Self::downgrade) is one
    /// step. An owner that already reads gets another guard of its read lock, without a request.
    ///
    /// # Errors
    /// As [`downgrade`](Self::downgrade), except that this guard stays as it is.
    ///
    /// # Cancel safety
    /// Dropping the future at any point leaves no read node behind.
    pub async fn read(&self) -> Result<Guard, LockError> {
        let writer = self.guard.hold();
        let permit = match writer.enter_read().await? {
            Entry::Held(hold) => return Ok(Guard::of(hold)),
            // The writer of the owner is this guard.
            Entry::Beside(_, permit) => Some(permit),
            Entry::Queue(permit) => permit,
        };
        let reader = beside(&HeldWriter::of(writer)?, WriteNode::Kept).await?;
        Ok(Guard::of(SharedHolding::new(reader, permit)))
    }

    /// Releases the lock and waits until the server has confirmed it; see [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// The call itself releases the lock. Dropping the future only ends the wait for the
    /// confirmation.
    pub async fn release(self) -> Result<(), LockError> {
        self.guard.release().await
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

/// Converts a write guard for code that accepts any guard. The conversion cannot be reversed.
impl From<WriteGuard> for Guard {
    fn from(guard: WriteGuard) -> Self {
        guard.guard
    }
}
