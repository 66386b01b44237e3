//! What a writer holds.

use std::ops::Deref;
use std::sync::Arc;

use super::downgrade::{WriteNode, beside, beside_for_owner};
use crate::error::LockError;
use crate::guard::Guard;
use crate::owner::{Side, Way, admit};
use crate::planted::Planted;

/// The write side of an [`RwLock`](super::RwLock), held: a [`Guard`], with all its
/// methods, that can become a reader's.
///
/// Dropping it gives the lock up without waiting, as with every guard.
#[derive(Debug)]
#[must_use = "the lock is given up when the guard is dropped"]
pub struct WriteGuard {
    guard: Guard,
}

impl WriteGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// Gives up writing and goes on reading: the readers that wait come in, and no writer
    /// can have been in between.
    ///
    /// One transaction checks that the write node is there, makes a read node with the
    /// same number, so that all who wait stay behind it, and deletes the write node. The
    /// guard keeps the writer's token, which is what its place in the queue says: larger
    /// than that of every writer before it, and smaller than that of every one after it.
    ///
    /// An owner that has other guards of the write side goes on writing: this one alone
    /// becomes a reader's. If it reads already it gets another guard of that.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the write lock was, or may have been, lost before the reader
    /// had its node: somebody else may have written. Otherwise a failed request. On any
    /// error the lock is given up altogether. Trouble with the connection is waited out
    /// for as long as the lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, gives the lock up altogether, and leaves no node
    /// behind.
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
        let entrance = match self.guard.hold().slot().cloned() {
            Some(slot) => Some(slot.entrance().await?),
            None => None,
        };
        let reads = match &entrance {
            Some(entrance) => entrance.enter_again(Side::Shared)?,
            None => None,
        };
        // From here on nobody can enter the write side again.
        let reader = match (Arc::try_unwrap(self.guard.into_hold()), reads) {
            (Ok(writer), Some(guard)) => return writer.give_up().await.map(|()| guard),
            (Err(_), Some(guard)) => return Ok(guard),
            (Err(writer), None) => beside(&writer, WriteNode::Stays).await?,
            (Ok(mut writer), None) => {
                let reader = beside(&writer, WriteNode::Goes).await?;
                if !Planted::DowngradeUnchecked.is_on() {
                    writer.forget_node();
                }
                reader
            }
        };
        Ok(admit(entrance, Side::Shared, reader))
    }

    /// Takes the read side as well, without waiting, as Curator's holders of the write
    /// lock can. The two guards are given up in any order; while this one is held nobody
    /// else is let in. A downgrade in two steps; [`downgrade`](Self::downgrade) is one.
    /// An owner that reads already gets another guard of that, without a request.
    ///
    /// # Errors
    /// As [`downgrade`](Self::downgrade), except that this guard is left as it is.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, leaves no read node behind.
    pub async fn read(&self) -> Result<Guard, LockError> {
        let writer = self.guard.hold();
        let Some(slot) = writer.slot().cloned() else {
            let reader = beside(writer, WriteNode::Stays).await?;
            return Ok(admit(None, Side::Shared, reader));
        };
        match slot.way_in(Side::Shared).await? {
            Way::Held(guard) => Ok(guard),
            // The writer is this one.
            Way::Beside(_, entrance) | Way::Queue(entrance) => {
                beside_for_owner(&self.guard, entrance).await
            }
        }
    }

    /// Gives the lock up and waits until the server has said so; see [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// The lock is given up by the call; dropping the future only stops the waiting.
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

/// For code that is handed guards of any kind. There is no way back.
impl From<WriteGuard> for Guard {
    fn from(guard: WriteGuard) -> Self {
        guard.guard
    }
}
