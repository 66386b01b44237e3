//! The guard of a semaphore's permits.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, join_all, select, select_all};
use zk_session::{Client, Multi};

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::hold::{Guard, LockGuard, impl_held};

/// One or more permits of a semaphore that are held.
///
/// Like a [`Guard`], it is bound to its session, and is lost before the server can grant a
/// permit to another contender. A guard of several permits is held while all of them are held.
///
/// Dropping it releases the permits in the background. If the connection is down, the nodes are
/// deleted as soon as the session reconnects.
#[derive(Debug)]
#[must_use = "dropping the guard releases the permits"]
pub struct SemaphoreGuard {
    client: Client,
    /// One guard for each permit, at least one, in the order of their nodes.
    guards: Vec<Guard>,
}

impl SemaphoreGuard {
    pub(super) fn new(client: Client, guards: Vec<Guard>) -> Self {
        Self { client, guards }
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn permits(&self) -> u32 {
        u32::try_from(self.guards.len()).unwrap_or(u32::MAX)
    }

    /// Returns the paths of the nodes, one for each permit, in the order of their creation.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.guards.iter().map(Guard::node)
    }

    /// Reads the data of the first node. This is the data that [`Semaphore::with_data`] has set,
    /// unless another client has changed it.
    ///
    /// # Errors
    /// Returns an error if a request fails. `NoNode` means that the permit is lost.
    ///
    /// [`Semaphore::with_data`]: crate::Semaphore::with_data
    pub async fn data(&self) -> Result<Bytes, LockError> {
        let Some(first) = self.guards.first() else { return Ok(Bytes::new()) };
        Ok(self.client.get_data(first.node()).await?.data)
    }

    /// Returns the fencing token if all permits are provably held now. For several permits this is
    /// the token of the last one, which is the largest.
    ///
    /// Tokens grow in the order in which permits are acquired. Holders of a semaphore work at the
    /// same time. So a resource cannot reject a token for being smaller than another one, unless
    /// each of its users acquires all permits.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] once a permit may be lost.
    pub fn token(&self) -> Result<FencingToken, LockError> {
        self.tokens()?.pop().ok_or(LockError::Lost(LossReason::Released))
    }

    /// Returns the fencing tokens, one for each permit, in the order of the nodes.
    pub fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        self.guards.iter().map(Guard::token).collect()
    }

    /// Returns true if all permits are provably held now. Sends no request.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Returns how long all permits stay provably held if no more replies arrive from the ensemble;
    /// zero if one is lost. See [`Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Confirms with a quorum of the ensemble that the node of every permit exists; see
    /// [`Guard::check`].
    pub async fn check(&self) -> Result<FencingToken, LockError> {
        for checked in join_all(self.guards.iter().map(Guard::check)).await {
            checked?;
        }
        self.token()
    }

    /// Waits until a permit is lost and returns the reason; see [`Guard::lost`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lost: Vec<_> = self.guards.iter().map(|guard| Box::pin(guard.lost())).collect();
        async move { select_all(lost).await.0 }
    }

    /// Runs `work` while all permits are held; see [`Guard::run_while_held`].
    ///
    /// # Errors
    /// Returns [`LockError::Lost`], also if a permit is lost by the time `work` has ended.
    ///
    /// # Cancel safety
    /// Same as `work`.
    pub async fn run_while_held<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        match select(pin!(self.lost()), pin!(work)).await {
            Either::Left((reason, _)) => Err(LockError::Lost(reason)),
            Either::Right((done, _)) => self.token().map(|_| done),
        }
    }

    /// Waits until another client requests the revocation of any of the permits; see
    /// [`Guard::revocation_requested`].
    ///
    /// # Errors
    /// Fails if one of the nodes is gone, if the session has ended, or if a request fails.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let asked: Vec<_> =
            self.guards.iter().map(|guard| Box::pin(guard.revocation_requested())).collect();
        async move { select_all(asked).await.0 }
    }

    /// Begins a transaction that is applied only if the nodes of all permits exist; see
    /// [`Guard::multi`]. Its first operations are these checks, one for each permit.
    pub fn multi<'a>(&self) -> Multi<'a> {
        let checks = self.client.multi();
        self.guards.iter().fold(checks, |checks, guard| checks.check(guard.node(), None))
    }

    /// Moves the last `permits` permits of this guard into a new guard. Returns `None` if either
    /// guard would have no permit.
    #[must_use = "dropping the new guard releases its permits"]
    pub fn split(&mut self, permits: u32) -> Option<Self> {
        let left = self.guards.len().checked_sub(usize::try_from(permits).ok()?)?;
        (left > 0 && permits > 0)
            .then(|| Self { client: self.client.clone(), guards: self.guards.split_off(left) })
    }

    /// Returns the guard of the only permit.
    pub(crate) fn into_guard(mut self) -> Option<Guard> {
        self.guards.pop()
    }

    /// Releases all permits and waits until the server has confirmed it.
    ///
    /// # Errors
    /// As [`Guard::release`], for the first permit with an error. The other permits are released
    /// all the same.
    ///
    /// # Cancel safety
    /// The first poll of the future, or dropping it, releases the permits.
    pub async fn release(self) -> Result<(), LockError> {
        let released = join_all(self.guards.into_iter().map(Guard::release)).await;
        released.into_iter().collect()
    }
}

fn node_list(guard: &SemaphoreGuard) -> Vec<&str> {
    guard.nodes().collect()
}

impl_held!(SemaphoreGuard, SemaphoreGuard, node_list, SemaphoreGuard::tokens);

impl LockGuard for SemaphoreGuard {
    fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>> {
        Box::pin(async {
            self.check().await?;
            self.tokens()
        })
    }

    fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin((*self).release())
    }
}
