//! Acquisition of locks with a queue, shared by the handles of a mutex and of both sides of a
//! read-write lock.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use zk_session::Client;

use crate::deadline::{acquire_in_time, while_connected};
use crate::downgrade::{WriteNode, beside};
use crate::error::LockError;
use crate::guard::Guard;
use crate::local_queue::{LocalQueue, LocalQueueLimits};
use crate::owner::{Entry, Owner, ReentryPermit, SharedHolding, enter, try_enter};
use crate::queue::contender::Contender;
use crate::queue::kind::Kind;
use crate::queue::waiter::Waiter;
use crate::ticket::{Queued, Ticket};

#[derive(Clone, Debug)]
pub(crate) struct LockHandle {
    client: Client,
    kind: Arc<Kind>,
    owner: Option<Owner>,
    local_queue: Option<LocalQueue>,
}

impl LockHandle {
    pub(crate) fn new(client: &Client, kind: Kind) -> Self {
        Self { client: client.clone(), kind: Arc::new(kind), owner: None, local_queue: None }
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
    pub(crate) fn kind_mut(&mut self) -> &mut Kind {
        self.local_queue = self.local_queue.as_ref().map(LocalQueue::emptied);
        Arc::make_mut(&mut self.kind)
    }

    pub(crate) async fn acquire(&self) -> Result<Guard, LockError> {
        match reenter(self.enter().await?).await? {
            Break(guard) => Ok(guard),
            Continue(permit) => {
                let Some(local) = &self.local_queue else {
                    let mut waiter = Waiter::new(self.contender());
                    let term = waiter.acquire().await?;
                    return Guard::granted(waiter.into_contender(), term, permit);
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
                let mut waiter = Waiter::with_place(self.contender());
                waiter.settle().await?;
                Ok(Ticket::queued(Queued { waiter, permit }, convert))
            }
        }
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        while_connected(&self.client, &self.kind.path, self.attempt()).await
    }

    async fn attempt(&self) -> Result<Option<Guard>, LockError> {
        let entry = try_enter(self.owner.as_ref(), &self.client, &self.kind)?;
        let Some(entry) = entry else { return Ok(None) };
        match reenter(entry).await? {
            Break(guard) => Ok(Some(guard)),
            Continue(permit) => {
                let Some(local) = &self.local_queue else {
                    let mut waiter = Waiter::new(self.contender());
                    let Some(term) = waiter.look_once().await? else { return Ok(None) };
                    return Guard::granted(waiter.into_contender(), term, permit).map(Some);
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

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    fn enter(&self) -> impl Future<Output = Result<Entry, LockError>> {
        enter(self.owner.as_ref(), &self.client, &self.kind)
    }

    fn contender(&self) -> Contender {
        Contender::new(&self.client, &self.kind)
    }
}

/// Adds the options that all locks with a [`LockHandle`] have.
macro_rules! lock_options {
    ($lock:ty) => {
        impl $lock {
            /// Sets the data of this handle's nodes, which other contenders can read. The default
            /// tells who the contender is, see [`ContenderInfo`](crate::ContenderInfo); Curator
            /// writes the address only. A writer that becomes a reader keeps its data.
            #[must_use]
            pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
                self.handle.kind_mut().set_data(data);
                self
            }

            /// Sets the ACL of this handle's nodes and of the missing nodes of the lock's path. The
            /// default is open to everyone, as with Curator.
            ///
            /// Each contender needs permission to read the nodes of the others, to create children
            /// of the path, and to delete its own nodes from it.
            #[must_use]
            pub fn with_acl(mut self, acl: impl Into<Vec<zk_session::Acl>>) -> Self {
                self.handle.kind_mut().set_acl(acl);
                self
            }

            /// Counts acquisitions, holds and losses of this handle in `metrics`.
            #[must_use]
            pub fn with_metrics(mut self, metrics: &crate::LockMetrics) -> Self {
                self.handle.kind_mut().metrics = Some(metrics.clone());
                self
            }

            /// Accepts a path on which other recipes have nodes; see
            /// [`LockError::ForeignNode`](crate::LockError::ForeignNode).
            ///
            /// A lock of another recipe on the same path is a separate lock. Both can be held at
            /// the same time.
            #[must_use]
            pub fn allow_foreign_nodes(mut self) -> Self {
                self.handle.kind_mut().exclusive = None;
                self
            }

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
                &self.handle.kind().path
            }

            pub(crate) fn client(&self) -> &zk_session::Client {
                self.handle.client()
            }
        }
    };
}

pub(crate) use lock_options;

/// Re-enters the lock for its owner if possible; otherwise the acquisition continues in the queue.
async fn reenter(entry: Entry) -> Result<ControlFlow<Guard, Option<ReentryPermit>>, LockError> {
    Ok(match entry {
        Entry::Held(hold) => Break(Guard::of(hold)),
        Entry::Beside(writer, permit) => {
            // On the heap: waiters do not need this memory.
            let reader = Box::pin(beside(&writer, WriteNode::Stays)).await?;
            Break(Guard::of(SharedHolding::new(reader, Some(permit))))
        }
        Entry::Queue(permit) => Continue(permit),
    })
}
