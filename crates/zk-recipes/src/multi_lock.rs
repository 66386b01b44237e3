//! Several locks as one: Curator's `InterProcessMultiLock`.

use std::borrow::Borrow;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select, select_all, try_join_all};
use tokio::task::unconstrained;

use crate::deadline::Deadline;
use crate::error::{LockError, LockFailure, LossReason, MultiLockError};
use crate::fencing_token::FencingToken;
use crate::hold::{LockGuard, impl_held};
use crate::lock::Lock;

/// Several locks that are held all together or not at all: Curator's `InterProcessMultiLock`.
///
/// The locks are acquired one after the other. Two callers that acquire the same locks in different
/// orders can deadlock. [`in_canonical_order`](Self::in_canonical_order) prevents this among all
/// callers that use it. [`new`](Self::new) keeps the given order.
///
/// Listing the same lock twice deadlocks, unless both handles have the same
/// [`Owner`](crate::Owner). Then the lock is held once, with one guard for each handle.
///
/// # What it promises
/// * One deadline covers all locks; Curator applies it to each lock.
/// * The first failure ends the acquisition: the later locks are not requested. Curator continues.
/// * The loss of an acquired lock ends the acquisition while it waits for another one.
/// * After a failure the acquired locks are released in reverse order. Every error is reported,
///   except by [`try_acquire`](Self::try_acquire), which releases them in the background.
///
/// # On the wire
/// A multi-lock creates only the nodes of its locks. Other callers may acquire the locks one by one.
///
/// # What it costs
/// It costs the sum of the costs of its locks, which it acquires one after the other. Its fairness is
/// that of its locks.
///
/// # What happens on loss
/// A [`MultiGuard`] is held while all its locks are held. The first loss ends it, and
/// [`MultiGuard::lost`] returns the reason. Release the guard to release the other locks.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use zk_recipes::session::Client;
/// use zk_recipes::{Lock, MultiLock, Mutex, SemaphoreMutex};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let stock: Arc<dyn Lock> = Arc::new(Mutex::new(&client, "/locks/stock")?);
/// let ledger: Arc<dyn Lock> = Arc::new(SemaphoreMutex::new(&client, "/locks/ledger")?);
/// let both = MultiLock::in_canonical_order([stock, ledger]);
/// if let Some(guard) = both.acquire_timeout(Duration::from_secs(5)).await? {
///     println!("the ledger's token, then the stock's: {:?}", guard.tokens()?);
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "InterProcessMultiLock")]
pub struct MultiLock {
    locks: Vec<Arc<dyn Lock>>,
}

impl MultiLock {
    /// Combines the locks in this order. All callers that acquire several of them must use the same
    /// order, or a timeout.
    #[must_use]
    pub fn new(locks: impl IntoIterator<Item = Arc<dyn Lock>>) -> Self {
        Self { locks: locks.into_iter().collect() }
    }

    /// Combines the locks, sorted by path (as bytes). Callers that use this order cannot deadlock;
    /// the order of the arguments does not matter.
    ///
    /// On the same path the locks are sorted by [kind](crate::LockKind), with the write side of a
    /// read-write lock before its read side: one [`Owner`](crate::Owner) can hold both in this order
    /// only. The paths are compared as the handles have them. Locks of different ensembles, or with
    /// different chroots, need an order defined by the caller.
    #[must_use]
    pub fn in_canonical_order(locks: impl IntoIterator<Item = Arc<dyn Lock>>) -> Self {
        let mut this = Self::new(locks);
        this.locks.sort_by(|a, b| (a.path(), a.kind()).cmp(&(b.path(), b.kind())));
        this
    }

    /// Returns the paths of the locks, in the order of acquisition.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &str> {
        self.locks.iter().map(|lock| lock.path())
    }

    /// Waits until all locks are acquired, without a time limit.
    ///
    /// # Errors
    /// Returns the failure of the first lock that was not acquired, or that was lost while the call
    /// waited for the next one. The errors of the subsequent releases follow it.
    ///
    /// # Cancel safety
    /// Dropping the future at any point releases all locks and leaves no node behind.
    pub async fn acquire(&self) -> Result<MultiGuard, MultiLockError> {
        match self.take().await {
            Ok(guard) => Ok(guard),
            Err(Incomplete { taken, failure }) => Err(taken.release_after(failure).await),
        }
    }

    /// Acquires all locks if all of them are free; otherwise it acquires none.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). The call does not wait for a connection: it fails with
    /// [`LockError::NotConnected`] if one of the locks has none. If a lock is not free, the locks
    /// acquired before it are released in the background, so errors of these releases are not
    /// reported.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, MultiLockError> {
        // Dropping the acquired guards releases their locks in the background: the call must not
        // wait for a connection.
        self.try_take().await.map_err(|incomplete| incomplete.failure.into())
    }

    /// Waits until all locks are acquired, for at most `timeout` in total, even without a
    /// connection. After the timeout the acquired locks are released in the background.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire). It waits for the
    /// replies of servers that answer, for at most a session timeout for each lock. Without a
    /// connection it returns `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Releases that do not finish within the timeout report no
    /// errors.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<MultiGuard>, MultiLockError> {
        let Some(first) = self.locks.first() else { return self.acquire().await.map(Some) };
        let attempt_max = self.locks.iter().map(|lock| lock.client().session_timeout()).sum();
        let sleep = |time| first.client().runtime().sleep(time).boxed();
        let mut deadline = Deadline::new(timeout, attempt_max, sleep);
        // Dropping a guard or a future releases its locks in the background.
        match deadline.acquire(|| self.take(), || self.try_take()).await {
            Ok(acquired) => Ok(acquired),
            Err(Incomplete { failure, .. }) if deadline.is_one_attempt() => Err(failure.into()),
            Err(Incomplete { taken, failure }) => {
                let released = deadline.bound(taken.release_after(failure.clone())).await;
                Err(released.unwrap_or_else(|| failure.into()))
            }
        }
    }

    /// Waits for all locks.
    async fn take(&self) -> Result<MultiGuard, Incomplete> {
        let mut taken = MultiGuard { held: Vec::with_capacity(self.locks.len()) };
        let mut losses: Vec<BoxFuture<'static, LossReason>> = Vec::new();
        for lock in &self.locks {
            let acquired = {
                let lost = pin!(first(&mut losses));
                match select(lock.acquire_boxed(), lost).await {
                    Either::Left((acquired, _)) => Ok(acquired),
                    Either::Right((loss, _)) => Err(loss),
                }
            };
            let failure = match acquired {
                Ok(Ok(held)) => {
                    losses.push(held.lost_boxed());
                    taken.held.push((lock.path().to_owned(), held));
                    continue;
                }
                Ok(Err(error)) => LockFailure::new(lock.path(), error),
                Err(loss) => taken.loss(loss),
            };
            return Err(Incomplete { taken, failure });
        }
        // The last lock may have been acquired at the same moment at which another one was lost.
        match unconstrained(first(&mut losses)).now_or_never() {
            None => Ok(taken),
            Some(loss) => Err(Incomplete { failure: taken.loss(loss), taken }),
        }
    }

    /// Acquires the locks in order, if all of them are free.
    async fn try_take(&self) -> Result<Option<MultiGuard>, Incomplete> {
        let mut taken = MultiGuard { held: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            match lock.try_acquire_boxed().await {
                Ok(Some(held)) => taken.held.push((lock.path().to_owned(), held)),
                Ok(None) => return Ok(None),
                Err(error) => {
                    let failure = LockFailure::new(lock.path(), error);
                    return Err(Incomplete { taken, failure });
                }
            }
        }
        Ok(Some(taken))
    }
}

/// A failed acquisition: the locks that were acquired before the failure.
struct Incomplete {
    taken: MultiGuard,
    failure: LockFailure,
}

impl Borrow<LockError> for Incomplete {
    fn borrow(&self) -> &LockError {
        &self.failure.error
    }
}

/// A [`MultiLock`] that is held. It is held while all its locks are held. Dropping it releases the
/// locks in reverse order, in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    /// Each guard, with the path of its lock.
    held: Vec<(String, Box<dyn LockGuard>)>,
}

impl MultiGuard {
    /// Returns the paths of the holder's nodes, in the order of the locks.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        self.held.iter().flat_map(|(_, held)| held.nodes()).collect()
    }

    /// Returns the fencing tokens, in the order of the locks, if all locks are provably held now.
    /// The tokens of different locks are not comparable: pass each resource the token of the lock
    /// that protects it.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] once any of the locks may be lost.
    pub fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        let tokens: Vec<_> =
            self.held.iter().map(|(_, held)| held.tokens()).collect::<Result<_, _>>()?;
        Ok(tokens.concat())
    }

    /// Returns true if all locks are provably held now. Sends no request.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.iter().all(|(_, held)| held.is_held())
    }

    /// Returns the paths of the locks that may be lost now, in the order of the locks. Sends no
    /// request.
    pub fn lost_paths(&self) -> impl Iterator<Item = &str> {
        let lost = self.held.iter().filter(|(_, held)| !held.is_held());
        lost.map(|(path, _)| path.as_str())
    }

    /// Returns how long all locks stay provably held if no more replies arrive from the ensembles;
    /// zero if one is lost. See [`Guard::remaining`](crate::Guard::remaining).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.iter().map(|(_, held)| held.remaining()).min().unwrap_or_default()
    }

    /// Waits until any of the locks is lost and returns the reason; see
    /// [`Guard::lost`](crate::Guard::lost).
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let mut lost: Vec<_> = self.held.iter().map(|(_, held)| held.lost_boxed()).collect();
        async move { first(&mut lost).await.0 }
    }

    /// Waits until another client requests the revocation of any of the locks; see
    /// [`Guard::revocation_requested`](crate::Guard::revocation_requested).
    ///
    /// # Errors
    /// Fails if one of the nodes is gone, if a session has ended, or if a request fails.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let asked: Vec<_> =
            self.held.iter().map(|(_, held)| held.revocation_requested_boxed()).collect();
        async move {
            if asked.is_empty() {
                return pending().await;
            }
            select_all(asked).await.0
        }
    }

    /// Releases all locks in reverse order and waits until the servers have confirmed it.
    ///
    /// # Errors
    /// Returns one failure for each lock that was not provably held, and for each failed release;
    /// see [`Guard::release`](crate::Guard::release). A failure does not stop the release of the
    /// other locks.
    ///
    /// The locks are released one after the other. If the session ends during the first release,
    /// the other locks report it too. To learn whether all locks were held to the end, call
    /// [`tokens`](Self::tokens) before.
    ///
    /// # Cancel safety
    /// Dropping the future releases the remaining locks in the background.
    pub async fn release(mut self) -> Result<(), MultiLockError> {
        let mut failures = Vec::new();
        while let Some((path, held)) = self.held.pop() {
            if let Err(error) = held.release_boxed().await {
                failures.push(LockFailure { path, error });
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(MultiLockError { failures }) }
    }

    /// Returns the failure for the loss of the lock with this index.
    fn loss(&self, (reason, which): (LossReason, usize)) -> LockFailure {
        let path = self.held.get(which).map_or("", |(path, _)| path.as_str());
        LockFailure::new(path, LockError::Lost(reason))
    }

    /// Releases the locks that were acquired before this failure, and returns all failures.
    async fn release_after(self, failure: LockFailure) -> MultiLockError {
        let mut failures = vec![failure];
        if let Err(error) = self.release().await {
            failures.extend(error.failures);
        }
        MultiLockError { failures }
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while let Some(held) = self.held.pop() {
            drop(held);
        }
    }
}

/// Waits for the first loss and returns it with the index of its lock; waits forever without locks.
async fn first(losses: &mut [BoxFuture<'static, LossReason>]) -> (LossReason, usize) {
    if losses.is_empty() {
        return pending().await;
    }
    let (reason, which, _) = select_all(losses.iter_mut()).await;
    (reason, which)
}

impl_held!(MultiGuard, MultiGuard, MultiGuard::nodes, MultiGuard::tokens);

impl LockGuard for MultiGuard {
    fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>> {
        Box::pin(async {
            try_join_all(self.held.iter().map(|(_, held)| held.check_boxed())).await?;
            self.tokens()
        })
    }

    fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin(async move { (*self).release().await.map_err(LockError::from) })
    }
}
