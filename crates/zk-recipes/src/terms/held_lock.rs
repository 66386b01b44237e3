//! The handle of a lock that a loop holds on behalf of its work.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::OptionFuture;
use zk_session::{Client, Multi};

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::hold::{LockGuard, impl_held};

/// The lock that [`run_whenever_held`](crate::run_whenever_held) or an [`Election`](crate::Election)
/// holds for its caller. Cheap to clone. After the work has ended, [`token`](Self::token) fails with
/// [`LockError::Lost`].
#[derive(Clone, Debug)]
pub struct HeldLock {
    client: Client,
    shared: Arc<SharedGuard>,
}

/// The guard, which all clones share.
#[derive(Debug)]
struct SharedGuard {
    /// Paths of the holder's nodes. A transaction checks them also after the release.
    nodes: Vec<String>,
    /// `None` once the lock is released.
    guard: Mutex<Option<Box<dyn LockGuard>>>,
}

impl HeldLock {
    pub(crate) fn new(client: &Client, guard: Box<dyn LockGuard>) -> Self {
        let nodes = guard.nodes().into_iter().map(str::to_owned).collect();
        let shared = SharedGuard { nodes, guard: Mutex::new(Some(guard)) };
        Self { client: client.weak(), shared: Arc::new(shared) }
    }

    /// Returns the client with which the lock was created. It does not keep the session open.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the fencing token if the lock is held now. A lock with several nodes returns the
    /// token of the first node.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] once the lock may be lost.
    pub fn token(&self) -> Result<FencingToken, LockError> {
        let first = self.tokens()?.first().copied();
        first.ok_or(LockError::Lost(LossReason::Released))
    }

    /// Returns the fencing tokens, one for each node.
    pub fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        match &*self.lock() {
            Some(held) => held.tokens(),
            None => Err(LockError::Lost(LossReason::Released)),
        }
    }

    /// Returns true if the lock is held now. Sends no request.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lock().as_ref().is_some_and(|held| held.is_held())
    }

    /// Returns how long the lock stays held if no more replies arrive from the ensemble; see
    /// [`Guard::remaining`](crate::Guard::remaining).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lock().as_ref().map_or(Duration::ZERO, |held| held.remaining())
    }

    /// Returns the paths of the holder's nodes; an empty list once the lock is released.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        match *self.lock() {
            Some(_) => self.shared.nodes.clone(),
            None => Vec::new(),
        }
    }

    /// Waits until another client requests the revocation of the lock; see
    /// [`Guard::revocation_requested`](crate::Guard::revocation_requested).
    ///
    /// # Errors
    /// Fails if the node is gone, if the session has ended, or if a request fails.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let asked = self.lock().as_ref().map(|held| held.revocation_requested_boxed());
        async move {
            let asked = OptionFuture::from(asked).await;
            asked.unwrap_or(Err(LockError::Lost(LossReason::Released)))
        }
    }

    /// Waits until the lock is lost. It is for tasks that the work has spawned; the work itself is
    /// dropped.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lost = self.lock().as_ref().map(|held| held.lost_boxed());
        async move { OptionFuture::from(lost).await.unwrap_or(LossReason::Released) }
    }

    /// Begins a transaction that is applied only if the lock's nodes exist; see
    /// [`Guard::multi`](crate::Guard::multi). Its first operations check the [nodes](Self::nodes),
    /// one each, also after the lock was released.
    pub fn multi<'a>(&self) -> Multi<'a> {
        self.shared.nodes.iter().fold(self.client.multi(), |multi, node| multi.check(node, None))
    }

    /// Releases the lock, and waits until the server has confirmed it; see
    /// [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] if the lock was lost before. Any other error means that the lock was
    /// held at the call.
    pub(crate) async fn release(&self) -> Result<(), LockError> {
        match self.take() {
            Some(guard) => guard.release_boxed().await,
            None => Err(LockError::Lost(LossReason::Released)),
        }
    }

    pub(crate) fn take(&self) -> Option<Box<dyn LockGuard>> {
        self.lock().take()
    }

    /// Locks the state for a short time, never across an await.
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn LockGuard>>> {
        self.shared.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same as [`HeldLock::nodes`].
fn node_list(held: &HeldLock) -> Vec<&str> {
    match *held.lock() {
        Some(_) => held.shared.nodes.iter().map(String::as_str).collect(),
        None => Vec::new(),
    }
}

impl_held!(HeldLock, HeldLock, node_list, HeldLock::tokens);

/// Releases the lock when the loop around it is dropped or panics, even if clones of the lock
/// exist.
pub(crate) struct ReleaseOnDrop(pub(crate) HeldLock);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
