//! The guard of the write side.

use std::ops::Deref;
use std::sync::Arc;

use futures::future::BoxFuture;
use zk_session::Client;

use super::downgrade::{WriteNode, beside};
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::hold::{Guard, Hold, LockGuard, impl_held};
use crate::owner::{Entry, Owner, ReentryPermit};
use crate::queue::Queue;

/// The held write side of an [`RwLock`](super::RwLock). It has all methods of a [`Guard`] and can
/// be downgraded to a read guard.
///
/// Dropping it releases the lock in the background, as with every guard.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct WriteGuard {
    guard: Guard,
    owner: Option<Owner>,
}

impl WriteGuard {
    pub(super) fn new(guard: Guard, owner: Option<Owner>) -> Self {
        Self { guard, owner }
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
        let permit = match self.enter_read().await? {
            Some(Entry::Held(reads)) => {
                self.guard.release().await?;
                return Ok(reads);
            }
            Some(Entry::Queue(permit)) => Some(permit),
            None => None,
        };
        let (hold, token, client) = self.prepare()?;
        // From here on no task can re-enter the write side.
        let reads = match self.guard.into_last() {
            Err(_others) => beside(&hold, client, token, WriteNode::Kept).await?,
            Ok(writer) => match beside(&hold, client, token, WriteNode::Deleted).await {
                Ok(reads) => {
                    writer.forget_node();
                    reads
                }
                Err(error) => {
                    if error == LockError::Lost(LossReason::NodeDeleted) {
                        writer.node_was_gone();
                    }
                    return Err(error);
                }
            },
        };
        Ok(record(permit, reads))
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
        let permit = match self.enter_read().await? {
            Some(Entry::Held(reads)) => return Ok(reads),
            Some(Entry::Queue(permit)) => Some(permit),
            None => None,
        };
        let (hold, token, client) = self.prepare()?;
        let reads = beside(&hold, client, token, WriteNode::Kept).await?;
        Ok(record(permit, reads))
    }

    /// Makes place for a read node beside the write node.
    fn prepare(&self) -> Result<(Arc<Hold>, FencingToken, Client), LockError> {
        let (hold, token) = (self.guard.hold().clone(), self.guard.own_token());
        match hold.prepare_beside(token) {
            Some(client) => Ok((hold, token, client?)),
            // The guard is there, so the holder has not ended.
            None => Err(LockError::Lost(LossReason::Released)),
        }
    }

    /// Enters the read side for the owner, if there is one.
    async fn enter_read(&self) -> Result<Option<Entry>, LockError> {
        let Some(owner) = &self.owner else { return Ok(None) };
        let hold = self.guard.hold();
        owner.enter(&Queue::new(&hold.queue.client, hold.queue.spec.downgraded())).await.map(Some)
    }

    /// Releases the lock and waits until the server has confirmed it; see [`Guard::release`].
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

/// Records a read lock beside a write lock as the owner's.
fn record(permit: Option<ReentryPermit>, reads: Guard) -> Guard {
    match permit {
        Some(permit) => permit.record(reads),
        None => reads,
    }
}

fn node_list(guard: &WriteGuard) -> Vec<&str> {
    vec![guard.node()]
}

fn token_list(guard: &WriteGuard) -> Result<Vec<FencingToken>, LockError> {
    Ok(vec![guard.token()?])
}

impl_held!(WriteGuard, Guard, node_list, token_list);

impl LockGuard for WriteGuard {
    fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>> {
        Box::pin(async {
            self.check().await?;
            token_list(self)
        })
    }

    fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin((*self).release())
    }
}
