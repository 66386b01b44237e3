//! The guard of a held lock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use zk_session::{Multi, Repeat};

use super::{Hold, Last, LockGuard, impl_held};
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::queue::Queue;
use crate::queue::contender::Granted;
use crate::queue::waiter::Waiter;
use crate::retry::attempts;
use crate::revocation::next_revocation;

/// A lock that is held.
///
/// The guard is bound to its session. Once the session has ended, or may be about to end, the guard
/// is lost and stays lost. It reports the loss before the server can grant the lock to another
/// contender. It cannot stop a holder that acts without checking it; see [`FencingToken`].
///
/// Dropping the guard releases the lock in the background. If the connection is down, the node is
/// deleted as soon as the session reconnects.
///
/// An [`Owner`](crate::Owner) that acquires a lock it already holds gets another guard of the same
/// hold. These guards share one node and one token. They are lost together, and the last of them
/// releases the lock.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    hold: Arc<Hold>,
    /// The token of the holder. A node that passes to the next holder of the process has another one.
    token: FencingToken,
    /// Number (mzxid) of the last revocation request that this guard has reported.
    reported: Arc<AtomicI64>,
    has_ended: bool,
}

impl Guard {
    /// Queues, and waits for the lock.
    pub(crate) async fn acquire(queue: &Queue) -> Result<Self, LockError> {
        Ok(Self::new(Waiter::new(queue).acquire().await?))
    }

    /// Queues, and leaves the queue if the lock is not free.
    pub(crate) async fn try_acquire(queue: &Queue) -> Result<Option<Self>, LockError> {
        Ok(Waiter::new(queue).try_acquire().await?.map(Self::new))
    }

    /// Returns the guard of a contender that was granted the lock.
    pub(crate) fn new(granted: Granted) -> Self {
        let token = FencingToken::new(granted.node.czxid);
        Self::with_token(granted, token)
    }

    /// As [`new`](Self::new), with the token of the hold that this one replaces.
    pub(crate) fn with_token(granted: Granted, token: FencingToken) -> Self {
        Self::of(Hold::begin(granted, token), token)
    }

    pub(super) fn of(hold: Arc<Hold>, token: FencingToken) -> Self {
        Self { hold, token, reported: Arc::default(), has_ended: false }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Returns the token, whether the lock is held or not.
    pub(crate) fn own_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the hold if no other guard shares it. From then on no guard can.
    ///
    /// # Errors
    /// Returns this guard if others share the hold.
    pub(crate) fn into_last(mut self) -> Result<Last, Self> {
        match self.hold.end_last_guard() {
            Some(last) => {
                self.has_ended = true;
                Ok(last)
            }
            None => Err(self),
        }
    }

    /// Returns the path of the holder's node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.hold.node.path
    }

    /// Returns the fencing token if the lock is provably held now. The clock decides this, not the
    /// state of the connection.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] once the lock may be lost.
    pub fn token(&self) -> Result<FencingToken, LockError> {
        match self.hold.loss() {
            None => Ok(self.token),
            Some(reason) => Err(LockError::Lost(reason)),
        }
    }

    /// Returns true if the lock is provably held now. Sends no request.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.loss().is_none()
    }

    /// Returns how long the lock is certain to stay held, and zero if it is lost. Sends no request.
    ///
    /// If [`token`](Self::token) succeeds, no other client acquires the lock for this time, under the
    /// [assumptions](zk_session::LeaseAssumptions) of the lease. Exempt are the deletion of the node
    /// and the close of the session by somebody else, and a hypervisor that stops the clocks.
    ///
    /// By default the time is at most 0.41 of the session timeout. The guard may stay valid for longer: a
    /// reconnect may reach a server that grants half of the timeout, and that ends the guard sooner.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.lease(|lease| lease.remaining(self.hold.term)).unwrap_or_default()
    }

    /// Returns the latest time at which the ensemble is proven to have counted the session as
    /// alive. The leader, whichever server it is, counts the session timeout from that time or
    /// later. Returns `None` if the lock is lost. Sends no request.
    #[must_use]
    pub fn last_proven(&self) -> Option<Instant> {
        self.hold.lease(|lease| lease.proven_at(self.hold.term)).flatten()
    }

    /// Confirms with a quorum of the ensemble that the lock's node exists, for steps that must not
    /// be taken without the lock.
    ///
    /// On success, a quorum has confirmed that the node existed at some moment between the call and
    /// its return. The lease was valid at the return. [`remaining`](Self::remaining) returns how
    /// long it lasts from then. The check does not prolong the lease by itself: a request that a
    /// follower forwards does not touch the session at the leader.
    ///
    /// The servers log the request, like a write.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`], or the error of a failed request.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<FencingToken, LockError> {
        let mut attempts = attempts();
        loop {
            self.token()?;
            let (client, node) = (&self.hold.queue.client, &self.hold.node);
            // The server processes the read after the transaction, so the read sees at least the
            // same state. It detects a node that another client created again under the same name.
            let (checked, own) = {
                let _one_write = client.batch();
                (client.check(&node.path, None), client.exists(&node.path))
            };
            let error = match (checked.await, own.await) {
                (Ok(()), Ok(Some(stat))) if stat.czxid == node.czxid => return self.token(),
                (Ok(()), Ok(_)) => return Err(self.hold.found_deleted()),
                (Err(error), _) if error.is_no_node() => {
                    return Err(self.hold.found_deleted());
                }
                (Err(error), _) | (_, Err(error)) => error,
            };
            // A transaction without a change may be repeated in any case.
            if let Err(error) = attempts.again(client, error, Repeat::Unanswered).await {
                return Err(self.loss_or(error.into()));
            }
        }
    }

    /// Waits until the lock is lost and returns the reason. Returns [`LossReason::Released`] if all
    /// guards of the same hold are released or dropped in the meantime.
    ///
    /// All calls share one watch on the guard's node, which is set after the first [tenth of a
    /// second](crate::limits::NODE_WATCH_DELAY). The guard is lost as soon as the deletion event
    /// arrives, even if no task waits in `lost`: [`token`](Self::token) fails from then on.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// ```no_run
    /// # use zk_recipes::{LockError, Mutex};
    /// # async fn example(lock: Mutex, work: impl Future<Output = ()>) -> Result<(), LockError> {
    /// let guard = lock.acquire().await?;
    /// tokio::select! {
    ///     () = work => guard.release().await,
    ///     reason = guard.lost() => Err(LockError::Lost(reason)),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lease = self.hold.lease_lost();
        let told = self.hold.clone().ended(self.token);
        async move {
            match select(pin!(told), pin!(lease)).await {
                Either::Right((loss, _)) => loss,
                // The server removes the node when it expires the session.
                Either::Left((LossReason::NodeDeleted, lease)) => {
                    lease.now_or_never().unwrap_or(LossReason::NodeDeleted)
                }
                Either::Left((reason, _)) => reason,
            }
        }
    }

    /// Runs `work` while the lock is held. If the lock is lost, `work` is dropped at the await it
    /// has reached.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`], also if the lock is lost by the time `work` has ended.
    ///
    /// # Cancel safety
    /// Same as `work`.
    ///
    /// ```no_run
    /// # use zk_recipes::{LockError, Mutex};
    /// # async fn example(lock: Mutex, copy: impl Future<Output = u64>) -> Result<(), LockError> {
    /// let guard = lock.acquire().await?;
    /// let copied = guard.run_while_held(copy).await?;
    /// println!("{copied} files were copied under the lock");
    /// guard.release().await
    /// # }
    /// ```
    pub async fn run_while_held<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        match select(pin!(self.lost()), pin!(work)).await {
            Either::Left((reason, _)) => Err(LockError::Lost(reason)),
            Either::Right((done, _)) => self.token().map(|_| done),
        }
    }

    /// Runs `work` while the lock is held, and also drops it on a revocation request. In that case
    /// the guard is still held: release it.
    ///
    /// # Errors
    /// As [`run_while_held`](Self::run_while_held); [`LockError::RevocationRequested`] on a revocation
    /// request; the error with which [`revocation_requested`](Self::revocation_requested) failed.
    ///
    /// # Cancel safety
    /// Same as `work`.
    pub async fn run_until_revoked<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        let revoked = async {
            match self.revocation_requested().await {
                Ok(()) => LockError::RevocationRequested { node: self.node().to_owned() },
                // `run_while_held` reports this loss, with the guard's own reason.
                Err(LockError::NodeDeleted { .. }) => std::future::pending().await,
                Err(error) => error,
            }
        };
        match select(pin!(revoked), pin!(self.run_while_held(work))).await {
            Either::Left((error, _)) => Err(self.loss_or(error)),
            Either::Right((done, _)) => done,
        }
    }

    /// Waits until another client requests the revocation of the lock, with
    /// [`revoke`](crate::revoke) or Curator's `Revoker`. Requests from before the call count too.
    ///
    /// The holder decides whether to release the lock. If it keeps the lock and calls this method
    /// again, that call waits for the next request.
    ///
    /// # Errors
    /// Fails if the node is gone, if the session has ended, or if a request fails. Fails with
    /// [`LockError::Lost`] if the guard has passed its lock on in a [local
    /// queue](crate::Mutex::with_local_queue).
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let asked = next_revocation(&self.hold.queue.client, &self.hold.node.path, &self.reported);
        let (hold, passed) = (self.hold.clone(), self.hold.clone().passed(self.token));
        async move {
            match select(pin!(asked), pin!(passed)).await {
                Either::Left((asked, _)) => {
                    // The contender that waits for the lock may be in another process.
                    asked.map(|()| hold.stop_passing())
                }
                Either::Right(((), _)) => Err(LockError::Lost(LossReason::Released)),
            }
        }
    }

    /// Begins a transaction that is applied only if the lock's node exists. A client that has lost
    /// the lock cannot apply it, however long it was paused. It needs no token. With a [local
    /// queue](crate::Mutex::with_local_queue) the node may belong to the next holder of the process,
    /// so send the transaction before the guard is released.
    ///
    /// If the lock is gone, the server rejects the transaction with `NoNode` for operation 0, which
    /// is the check of the node. The operations added here are counted from 1.
    ///
    /// ```no_run
    /// # use zk_recipes::{LockError, Mutex};
    /// # async fn example(lock: Mutex) -> Result<(), LockError> {
    /// let guard = lock.acquire().await?;
    /// guard.multi().set_data("/stock/book", b"99", None).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi<'a>(&self) -> Multi<'a> {
        self.hold.multi()
    }

    /// Releases the lock and waits until the server has confirmed it.
    ///
    /// If the owner has other guards of the same hold, the lock stays held. The call then sends no
    /// request, and reports whether the lock is provably held now. The same is true of a guard that
    /// passes its lock on in a [local queue](crate::Mutex::with_local_queue).
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] if the lock was not provably held at the call, or if the server
    /// finds no node. In both cases another holder may have worked at the same time. The node is
    /// deleted all the same, unless the guard knows that it is gone: a node that another client has made
    /// under its name stays. Within the first [tenth of a second](crate::limits::NODE_WATCH_DELAY) of a guard
    /// that did not wait it does not know, and ZooKeeper deletes by the path alone. Otherwise returns the
    /// error of a failed request. The session deletes the node later, unless the server has rejected the
    /// deletion: then it stays until the session ends.
    ///
    /// # Cancel safety
    /// The call itself releases the lock. Dropping the future only ends the wait for the
    /// confirmation.
    #[doc(alias = "unlock")]
    pub async fn release(mut self) -> Result<(), LockError> {
        let held = self.token();
        self.has_ended = true;
        match self.hold.end_guard() {
            Some(last) => {
                let released = last.release().await;
                held.and(released)
            }
            None => held.map(drop), // the other guards still hold it
        }
    }

    fn node_list(&self) -> Vec<&str> {
        vec![self.node()]
    }

    fn token_list(&self) -> Result<Vec<FencingToken>, LockError> {
        Ok(vec![self.token()?])
    }

    /// Returns the loss of the lock, or `error` while it is held.
    fn loss_or(&self, error: LockError) -> LockError {
        self.hold.loss().map_or(error, LockError::Lost)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.has_ended {
            drop(self.hold.end_guard());
        }
    }
}

impl_held!(Guard, Guard, Guard::node_list, Guard::token_list);

impl LockGuard for Guard {
    fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>> {
        Box::pin(async {
            self.check().await?;
            self.token_list()
        })
    }

    fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin((*self).release())
    }
}
