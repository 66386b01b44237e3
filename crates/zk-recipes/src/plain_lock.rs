//! The plain lock: one queue, and the guard of the contender at its head.
//!
//! A mutex and both sides of a read-write lock are plain locks. Re-entry, local queues and tickets are
//! around it: they call it, and it does not know them.

use std::sync::Arc;

use zk_session::Client;

use crate::error::LockError;
use crate::hold::Guard;
use crate::queue::spec::QueueSpec;
use crate::queue::waiter::Waiter;

#[derive(Clone, Debug)]
pub(crate) struct PlainLock {
    pub(crate) client: Client,
    pub(crate) spec: Arc<QueueSpec>,
}

impl PlainLock {
    pub(crate) fn new(client: &Client, spec: impl Into<Arc<QueueSpec>>) -> Self {
        Self { client: client.clone(), spec: spec.into() }
    }

    /// Returns a contender that has not yet queued.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter::new(&self.client, &self.spec)
    }

    pub(crate) async fn acquire(&self) -> Result<Guard, LockError> {
        Ok(Guard::new(self.waiter().acquire().await?))
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        Ok(self.waiter().try_acquire().await?.map(Guard::new))
    }

    pub(crate) fn spec_mut(&mut self) -> &mut QueueSpec {
        Arc::make_mut(&mut self.spec)
    }
}
