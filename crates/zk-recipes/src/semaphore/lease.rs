//! What a holder of permits holds.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, join_all, select, select_all};
use zk_session::{Client, Multi};

use crate::error::{LockError, LossReason};
use crate::guard::{FencingToken, Guard};

/// Permits of a semaphore that are held: as many as were asked for, one or more.
///
/// As a [`Guard`], it is bound to its session, is lost before the server can give a
/// permit to anybody else, and gives everything up when it is dropped, without
/// waiting, even if the connection is down at the moment. With several permits it is
/// held as long as all of them are.
#[derive(Debug)]
#[must_use = "the permits are given up when the lease is dropped"]
pub struct Lease {
    client: Client,
    /// One for each permit, at least one, in the order of their nodes.
    guards: Vec<Guard>,
}

impl Lease {
    pub(super) fn new(client: Client, guards: Vec<Guard>) -> Self {
        Self { client, guards }
    }

    /// How many permits these are.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.guards.len()
    }

    /// The paths of the nodes, one for each permit, in the order in which they were made.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.guards.iter().map(Guard::node)
    }

    /// Reads the data of the first of the nodes: what [`Semaphore::with_data`] has put
    /// there, unless somebody has changed it since.
    ///
    /// # Errors
    /// A failed request; with `NoNode` the permit is lost.
    ///
    /// [`Semaphore::with_data`]: crate::Semaphore::with_data
    pub async fn data(&self) -> Result<Bytes, LockError> {
        let Some(first) = self.guards.first() else { return Ok(Bytes::new()) };
        Ok(self.client.get_data(first.node()).await?.data.unwrap_or_default())
    }

    /// The fencing token, if all permits are held for certain at this moment. Of
    /// several permits it is the last one's, which is the largest.
    ///
    /// Tokens grow in the order in which permits are taken. Holders of a semaphore work
    /// at the same time, so a resource cannot refuse a token for being smaller than
    /// another, unless whoever uses it takes all the permits there are.
    ///
    /// # Errors
    /// [`LockError::Lost`] once a permit may be lost.
    pub fn token(&self) -> Result<FencingToken, LockError> {
        self.tokens()?.pop().ok_or(LockError::Lost(LossReason::Released))
    }

    /// The fencing tokens, one for each permit, in the order of the nodes.
    ///
    /// # Errors
    /// As [`token`](Self::token).
    pub fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        self.guards.iter().map(Guard::token).collect()
    }

    /// True if all permits are held for certain at this moment. Asks no server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Returns how long all permits are held for certain if nothing more arrives from the
    /// ensemble; zero if one is lost. See [`Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Asks a quorum of the ensemble, as [`Guard::check`] does, for every permit.
    ///
    /// # Errors
    /// As [`Guard::check`].
    pub async fn check(&self) -> Result<FencingToken, LockError> {
        for checked in join_all(self.guards.iter().map(Guard::check)).await {
            checked?;
        }
        self.token()
    }

    /// Waits until a permit is lost, and tells why; see [`Guard::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lost: Vec<_> = self.guards.iter().map(|guard| Box::pin(guard.lost())).collect();
        async move { select_all(lost).await.0 }
    }

    /// Runs `work` for as long as all permits are held; see [`Guard::run`].
    ///
    /// # Errors
    /// [`LockError::Lost`], also if a permit is lost by the time the work has ended.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        match select(pin!(self.lost()), pin!(work)).await {
            Either::Left((reason, _)) => Err(LockError::Lost(reason)),
            Either::Right((done, _)) => self.token().map(|_| done),
        }
    }

    /// Waits until somebody asks for any of the permits; see [`Guard::revocation`].
    ///
    /// # Errors
    /// One of the nodes, or the session, has gone; a request fails.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn revocation(&self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let asked: Vec<_> = self.guards.iter().map(|guard| Box::pin(guard.revocation())).collect();
        async move { select_all(asked).await.0 }
    }

    /// Begins a transaction that is applied only if the nodes of all permits are there;
    /// see [`Guard::multi`]. Its first operations are those checks, one for each permit.
    pub fn multi<'a>(&self) -> Multi<'a> {
        let checks = self.client.multi();
        self.guards.iter().fold(checks, |checks, guard| checks.check(guard.node(), None))
    }

    /// Takes some of the permits out of this lease, the ones that were taken last;
    /// `None` unless some are left, for both are leases of one permit at least.
    pub fn split(&mut self, permits: usize) -> Option<Self> {
        let left = self.guards.len().checked_sub(permits)?;
        (left > 0 && permits > 0)
            .then(|| Self { client: self.client.clone(), guards: self.guards.split_off(left) })
    }

    /// The guard of a lease of one permit.
    pub(crate) fn into_guard(mut self) -> Option<Guard> {
        self.guards.pop()
    }

    /// Gives all permits up and waits until the server has said so.
    ///
    /// # Errors
    /// As [`Guard::release`], of the first permit that it went wrong with; the others
    /// are given up all the same.
    ///
    /// # Cancel safety
    /// The permits are given up by the call's first poll, or by dropping the future.
    pub async fn release(self) -> Result<(), LockError> {
        let released = join_all(self.guards.into_iter().map(Guard::release)).await;
        released.into_iter().collect()
    }
}
