//! Acquisition of locks with a queue, shared by the handles of a mutex and of both sides of a
//! read-write lock.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use zk_session::Client;

use crate::deadline::{acquire_in_time, while_connected};
use crate::downgrade::{WriteNode, beside, check_len};
use crate::error::LockError;
use crate::guard::Guard;
use crate::local_queue::{LocalQueue, LocalQueueLimits};
use crate::owner::{Entry, Owner, ReentryPermit, SharedHolding, enter, try_enter};
use crate::queue::contender::Contender;
use crate::queue::spec::QueueSpec;
use crate::queue::waiter::Waiter;
use crate::ticket::{Queued, Ticket};

#[derive(Clone, Debug)]
pub(crate) struct LockHandle {
    pub(crate) client: Client,
    pub(crate) spec: Arc<QueueSpec>,
    owner: Option<Owner>,
    local_queue: Option<LocalQueue>,
}

impl LockHandle {
    pub(crate) fn new(client: &Client, spec: QueueSpec) -> Self {
        Self { client: client.clone(), spec: Arc::new(spec), owner: None, local_queue: None }
    }

    pub(crate) fn with_owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    pub(crate) fn with_local_queue(mut self, limits: LocalQueueLimits) -> Self {
        self.local_queue = Some(LocalQueue::new(limits));
        self
    }

    /// Returns the properties of the nodes. A node with the old properties must not pass to a task
    /// that uses this handle, so a local queue is replaced.
    pub(crate) fn spec_mut(&mut self) -> &mut QueueSpec {
        self.local_queue = self.local_queue.as_ref().map(LocalQueue::emptied);
        Arc::make_mut(&mut self.spec)
    }

    pub(crate) async fn acquire(&self) -> Result<Guard, LockError> {
        match reenter(self.enter().await?).await? {
            Break(guard) => Ok(guard),
            Continue(permit) => {
                let Some(local) = &self.local_queue else {
                    let mut waiter = Waiter::new(self.contender());
                    let term = waiter.acquire().await?;
                    return Guard::granted(waiter.contender, term, permit);
                };
                // On the heap: waiters without a local queue do not need this memory.
                let hold = Box::pin(local.acquire(&self.client, || self.contender())).await?;
                Ok(Guard::of(SharedHolding::new(hold, permit)))
            }
        }
    }

    /// Queues, and returns a ticket for a guard that `convert` makes of the acquired one.
    pub(crate) async fn enqueue<G>(&self, convert: fn(Guard) -> G) -> Result<Ticket<G>, LockError> {
        match reenter(self.enter().await?).await? {
            Break(guard) => Ok(Ticket::held(guard, convert)),
            Continue(permit) => {
                let mut waiter = Waiter::with_position(self.contender());
                waiter.settle().await?;
                Ok(Ticket::queued(Queued { waiter, permit }, convert))
            }
        }
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        while_connected(&self.client, &self.spec.path, self.attempt()).await
    }

    async fn attempt(&self) -> Result<Option<Guard>, LockError> {
        check_len(&self.client, &self.spec)?;
        let entry = try_enter(self.owner.as_ref(), &self.client, &self.spec)?;
        let Some(entry) = entry else { return Ok(None) };
        match reenter(entry).await? {
            Break(guard) => Ok(Some(guard)),
            Continue(permit) => {
                let Some(local) = &self.local_queue else {
                    let mut waiter = Waiter::new(self.contender());
                    let Some(term) = waiter.try_acquire().await? else { return Ok(None) };
                    return Guard::granted(waiter.contender, term, permit).map(Some);
                };
                let hold = Box::pin(local.try_acquire(self.contender())).await?;
                Ok(hold.map(|hold| Guard::of(SharedHolding::new(hold, permit))))
            }
        }
    }

    pub(crate) async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<Guard>, LockError> {
        acquire_in_time(&self.client, timeout, || self.acquire(), || self.try_acquire()).await
    }

    async fn enter(&self) -> Result<Entry, LockError> {
        check_len(&self.client, &self.spec)?;
        enter(self.owner.as_ref(), &self.client, &self.spec).await
    }

    fn contender(&self) -> Contender {
        Contender::new(&self.client, &self.spec)
    }
}

/// Adds the methods of a lock with a [`LockHandle`]. `$convert` makes its guard of the handle's.
macro_rules! queue_lock {
    ($lock:ty, $guard:ty, $convert:path) => {
        impl $lock {
            /// Makes the lock re-entrant for `owner`: an owner that holds the lock acquires it
            /// again without queueing. See also [`RwLock::with_owner`](crate::RwLock::with_owner).
            #[must_use]
            pub fn with_owner(mut self, owner: &crate::Owner) -> Self {
                self.handle = self.handle.with_owner(owner);
                self
            }

            /// Returns the path of the lock.
            #[must_use]
            pub fn path(&self) -> &str {
                &self.handle.spec.path
            }

            /// Waits until the lock is acquired, without a time limit.
            ///
            /// # Errors
            /// Fails if the session ends, if the server rejects a request (for example with
            /// `NoAuth`), or if the sequence numbers are used up. Connection problems are not errors:
            /// the call waits until the session reconnects or ends. Fails with
            /// [`LockError::Lost`](crate::LockError::Lost) if the owner still has guards of a lock
            /// that it has lost.
            ///
            /// # Ordering
            /// First come, first served, in the order in which the server created the nodes.
            ///
            /// # Cancel safety
            /// Dropping the future at any point removes the contender from the queue and leaves no
            /// node behind, even while the connection is down.
            #[doc(alias = "lock")]
            pub async fn acquire(&self) -> Result<$guard, crate::LockError> {
                self.handle.acquire().await.map($convert)
            }

            /// Acquires the lock if it is free and no contender is queued ahead; for a reader, only
            /// writers count. Returns `None` otherwise.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire). Without a connection the call fails with
            /// [`LockError::NotConnected`](crate::LockError::NotConnected) instead of waiting. If a
            /// connected server is silent, the call waits for its replies as long as the session
            /// does; [`acquire_timeout`](Self::acquire_timeout) has a bound.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn try_acquire(&self) -> Result<Option<$guard>, crate::LockError> {
                Ok(self.handle.try_acquire().await?.map($convert))
            }

            /// Waits until the lock is acquired, for at most `timeout`, including the time without a
            /// connection. Returns `None` after the timeout; the node is then deleted in the
            /// background.
            ///
            /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire). It waits for
            /// the replies of a server that answers, for at most a session timeout. Without a
            /// connection it returns `None` at once.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire). Without a connection the session expires after somewhat
            /// more than its timeout, so a longer `timeout` ends with that error.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn acquire_timeout(
                &self,
                timeout: std::time::Duration,
            ) -> Result<Option<$guard>, crate::LockError> {
                Ok(self.handle.acquire_timeout(timeout).await?.map($convert))
            }

            /// Queues for the lock and returns the position in the queue.
            ///
            /// This splits an acquisition in two steps, for callers that show how many contenders are
            /// ahead and which one holds the lock. If the lock is free,
            /// [`Ticket::acquire`](crate::Ticket::acquire) returns it after one more write.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire). Dropping the returned [`Ticket`](crate::Ticket) leaves
            /// the queue in the same way.
            pub async fn enqueue(&self) -> Result<crate::Ticket<$guard>, crate::LockError> {
                self.handle.enqueue($convert).await
            }

            pub(crate) fn client(&self) -> &zk_session::Client {
                &self.handle.client
            }
        }

        impl crate::lock_options::Nodes for $lock {
            fn edit_all(mut self, change: impl Fn(&mut crate::queue::spec::QueueSpec)) -> Self {
                change(self.handle.spec_mut());
                self
            }
        }

        crate::lock_options::lock_options!($lock);
    };
}

pub(crate) use queue_lock;

/// Re-enters the lock for its owner if possible; otherwise the acquisition continues in the queue.
async fn reenter(entry: Entry) -> Result<ControlFlow<Guard, Option<ReentryPermit>>, LockError> {
    Ok(match entry {
        Entry::Held(hold) => Break(Guard::of(hold)),
        Entry::Beside(writer, permit) => {
            // On the heap: waiters do not need this memory.
            match Box::pin(beside(&writer, WriteNode::Kept)).await {
                Ok(reader) => Break(Guard::of(SharedHolding::new(reader, Some(permit)))),
                // Its last guard has released the write lock meanwhile.
                Err(LockError::Lost(_)) if writer.is_released() => Continue(Some(permit)),
                Err(error) => return Err(error),
            }
        }
        Entry::Queue(permit) => Continue(permit),
    })
}
