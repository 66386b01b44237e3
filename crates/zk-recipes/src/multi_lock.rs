//! Several locks as one: Curator's `InterProcessMultiLock`.

use std::fmt;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, FutureExt, select, select_all};
use tokio::task::{coop::Unconstrained, unconstrained};
use zk_session::RetryOn;

use crate::error::{LockError, LossReason};
use crate::guard::FencingToken;
use crate::limits::ATTEMPT_TIME;
use crate::lock::{Boxed, Held, Lock};
use crate::planted::Planted;

/// Several locks that are held all together or not at all.
///
/// They are taken one after the other, so two that take the same locks in different
/// orders can wait for each other. [`in_canonical_order`](Self::in_canonical_order)
/// makes that impossible among all who use it; [`new`](Self::new) keeps the order that
/// is given. The same lock twice waits for itself, unless both handles are of one
/// [`Owner`](crate::Owner): then it is held once, with a guard for each mention.
///
/// # What it promises
/// * One deadline is for all of them. (With Curator it is for each.)
/// * The first that fails ends it: none of the later ones is asked for. (Curator goes on.)
/// * While one is waited for, the loss of one that was had already ends it as well.
/// * What was had is given up in reverse order. Except by [`try_acquire`](Self::try_acquire), every error is reported.
///
/// # On the wire
/// Nothing of its own: the nodes of the locks it is made of, which others may take one by one.
///
/// # What it costs
/// What its locks cost, one after the other; fairness is theirs as well.
///
/// # What happens on loss
/// A [`MultiGuard`] is held as long as all its locks are: the first that is lost ends it, and
/// [`MultiGuard::lost`] says why. The others are still to be given up, by its release.
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
pub struct MultiLock {
    locks: Vec<Arc<dyn Lock>>,
}

impl MultiLock {
    /// The locks in this order. All who take several of them must take them in the same
    /// order, or with a timeout.
    pub fn new(locks: impl IntoIterator<Item = Arc<dyn Lock>>) -> Self {
        Self { locks: locks.into_iter().collect() }
    }

    /// The locks sorted by path (as bytes), and by kind on the same path: the write side of a
    /// read-write lock comes before its read side, since one [`Owner`](crate::Owner) may have
    /// both in this order only. However the locks are given, those who use this order cannot
    /// wait for each other in a circle.
    /// The paths are compared as the handles have them: locks of different ensembles, or
    /// with different chroots, need an order of their own.
    pub fn in_canonical_order(locks: impl IntoIterator<Item = Arc<dyn Lock>>) -> Self {
        let mut this = Self::new(locks);
        if !Planted::MultiOrderAsGiven.is_on() {
            this.locks.sort_by(|a, b| (a.path(), b.kind()).cmp(&(b.path(), a.kind())));
        }
        this
    }

    /// The paths of the locks, in the order in which they are taken.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &str> {
        self.locks.iter().map(|lock| lock.path())
    }

    /// Waits for all the locks, as long as it takes.
    ///
    /// # Errors
    /// The first lock that could not be had, or was lost while the next was waited for,
    /// and whatever went wrong when those that were had were given up.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, gives everything up, and leaves no node behind.
    pub async fn acquire(&self) -> Result<MultiGuard, MultiLockError> {
        match self.take().await {
            Ok(guard) => Ok(guard),
            Err((taken, failure)) => Err(taken.give_up(failure).await),
        }
    }

    /// Takes all the locks if all are free, and none otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). It does not wait for a connection:
    /// [`LockError::NotConnected`] if one of the locks has none. Locks that were had before another was
    /// not free are released in the background, so errors of their release are not reported.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, MultiLockError> {
        match self.try_take().await {
            Ok(guard) => Ok(Some(guard)),
            // Released in the background, so that nothing here waits for a connection.
            Err((_, None)) => Ok(None),
            Err((_, Some(failure))) => Err(failure.into()),
        }
    }

    /// Waits for all the locks, but no longer than `timeout` for all of them together,
    /// also without a connection. On a timeout the locks that were acquired are released in the
    /// background.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire), which may take
    /// [15 ms](crate::limits::ATTEMPT_TIME) for all of them together. Without a connection it returns
    /// `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Releases that take longer than the timeout report no errors.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<MultiGuard>, MultiLockError> {
        let Some(first) = self.locks.first() else { return self.acquire().await.map(Some) };
        let is_zero = timeout.is_zero();
        let time = if is_zero { ATTEMPT_TIME } else { timeout };
        // The deadline holds in a task that has used up its budget, too.
        let mut deadline = unconstrained(first.sleep_boxed(time));
        let taken = match is_zero {
            true => until(&mut deadline, self.try_take()).await,
            false => {
                let taken = until(&mut deadline, self.take()).await;
                taken.map(|taken| taken.map_err(|(taken, failure)| (taken, Some(failure))))
            }
        };
        // Dropping a guard, or a future, releases its locks in the background.
        match taken {
            None => Ok(None),
            Some(Ok(guard)) => Ok(Some(guard)),
            Some(Err((_, None))) => Ok(None),
            Some(Err((_, Some(failure)))) if is_zero && failure.is_not_connected() => Ok(None),
            Some(Err((taken, Some(failure)))) => {
                let given_up = until(&mut deadline, taken.give_up(failure.clone())).await;
                Err(given_up.unwrap_or_else(|| failure.into()))
            }
        }
    }

    /// Waits for all the locks. If one fails, returns those that were acquired before it.
    async fn take(&self) -> Result<MultiGuard, (MultiGuard, LockFailure)> {
        let mut guard = MultiGuard { held: Vec::with_capacity(self.locks.len()) };
        let mut losses: Vec<Boxed<'static, LossReason>> = Vec::new();
        for lock in &self.locks {
            let acquired = {
                let lost = pin!(first(&mut losses));
                match select(lock.acquire_boxed(), lost).await {
                    Either::Left((acquired, _)) => Ok(acquired),
                    Either::Right((lost, _)) => Err(lost),
                }
            };
            let failure = match acquired {
                Ok(Ok(held)) => {
                    losses.push(held.lost_boxed());
                    guard.held.push((lock.path().to_owned(), held));
                    continue;
                }
                Ok(Err(error)) => LockFailure::new(lock.path(), error),
                Err(loss) => guard.loss(loss),
            };
            return Err((guard, failure));
        }
        // The last one may have been had in the very moment in which another was lost.
        match unconstrained(first(&mut losses)).now_or_never() {
            None => Ok(guard),
            Some(loss) => {
                let failure = guard.loss(loss);
                Err((guard, failure))
            }
        }
    }

    /// Takes all the locks that are free, up to the first that is not, or that fails.
    async fn try_take(&self) -> Result<MultiGuard, (MultiGuard, Option<LockFailure>)> {
        let mut guard = MultiGuard { held: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            match lock.try_acquire_boxed().await {
                Ok(Some(held)) => guard.held.push((lock.path().to_owned(), held)),
                Ok(None) if Planted::MultiKeepsTheFirst.is_on() => {
                    std::mem::forget(guard);
                    return Err((MultiGuard { held: Vec::new() }, None));
                }
                Ok(None) => return Err((guard, None)),
                Err(error) => return Err((guard, Some(LockFailure::new(lock.path(), error)))),
            }
        }
        Ok(guard)
    }
}

/// Several locks that are held. It is held as long as all of them are; dropping it gives
/// them up in reverse order, without waiting.
#[derive(Debug)]
#[must_use = "the locks are given up when the guard is dropped"]
pub struct MultiGuard {
    /// With the path of each lock.
    held: Vec<(String, Box<dyn Held>)>,
}

impl MultiGuard {
    /// The paths of the holder's nodes, in the order of the locks.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        self.held.iter().flat_map(|(_, held)| held.nodes()).collect()
    }

    /// The fencing tokens, in the order of the locks, if all are held for certain at this
    /// moment. Each lock's tokens grow for themselves: a resource must be given the token
    /// of the lock that protects it.
    ///
    /// # Errors
    /// [`LockError::Lost`] once any of the locks may be lost.
    pub fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        let mut tokens = Vec::with_capacity(self.held.len());
        for (_, held) in &self.held {
            tokens.extend(held.tokens()?);
        }
        Ok(tokens)
    }

    /// True if all the locks are held for certain at this moment. Asks no server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.iter().all(|(_, held)| held.is_held())
    }

    /// Returns how long all the locks are held for certain if nothing more arrives from the
    /// ensembles; zero if one is lost. See [`Guard::remaining`](crate::Guard::remaining).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.iter().map(|(_, held)| held.remaining()).min().unwrap_or_default()
    }

    /// Waits until any of the locks is lost, and tells why; see
    /// [`Guard::lost`](crate::Guard::lost).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let mut lost: Vec<_> = self.held.iter().map(|(_, held)| held.lost_boxed()).collect();
        async move { first(&mut lost).await.0 }
    }

    /// Waits until somebody asks for any of the locks; see
    /// [`Guard::revocation`](crate::Guard::revocation).
    ///
    /// # Errors
    /// One of the nodes, or a session, has gone; a request fails.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn revocation(&self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let asked: Vec<_> = self.held.iter().map(|(_, held)| held.revocation_boxed()).collect();
        async move {
            match asked.is_empty() {
                true => pending().await,
                false => select_all(asked).await.0,
            }
        }
    }

    /// Gives all the locks up, in reverse order, and waits until the servers have said so.
    ///
    /// # Errors
    /// Every lock that was no longer held for certain, or whose release failed otherwise;
    /// see [`Guard::release`](crate::Guard::release). None is left out for the failure of
    /// another. They are given up one after the other: what becomes of the session while the
    /// first is given up is told of the others. Who wants to know whether all were held to the
    /// end asks for the [tokens](Self::tokens) before.
    ///
    /// # Cancel safety
    /// Dropping the future gives up what is left, without waiting.
    pub async fn release(mut self) -> Result<(), MultiLockError> {
        let mut failures = Vec::new();
        if Planted::MultiReleasesInOrder.is_on() {
            self.held.reverse();
        }
        while let Some((path, held)) = self.held.pop() {
            if let Err(error) = held.release_boxed().await {
                failures.push(LockFailure { path, error });
            }
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(MultiLockError { failures }),
        }
    }

    /// The loss of one of the locks, for this reason and the lock with this number.
    fn loss(&self, (reason, which): (LossReason, usize)) -> LockFailure {
        let path = self.held.get(which).map_or("", |(path, _)| path.as_str());
        LockFailure::new(path, LockError::Lost(reason))
    }

    /// Releases what was had until this failure.
    async fn give_up(self, failure: LockFailure) -> MultiLockError {
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

/// What went wrong with one of the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFailure {
    /// The path of the lock.
    pub path: String,
    /// What went wrong with it.
    pub error: LockError,
}

impl LockFailure {
    fn new(path: &str, error: LockError) -> Self {
        Self { path: path.to_owned(), error }
    }

    fn is_not_connected(&self) -> bool {
        matches!(self.error, LockError::NotConnected { .. })
    }
}

impl From<LockFailure> for MultiLockError {
    fn from(failure: LockFailure) -> Self {
        Self { failures: vec![failure] }
    }
}

/// Why several locks could not be had together, or not be given up in order.
/// `Debug` prints the same line as `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct MultiLockError {
    failures: Vec<LockFailure>,
}

impl MultiLockError {
    /// Everything that went wrong, one failure at least. The first is what ended the
    /// acquisition, if it was one; the others are in the order of the releases.
    #[must_use]
    pub fn failures(&self) -> &[LockFailure] {
        &self.failures
    }

    /// Returns where trying again may help: the worst case among the failures.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        let all = self.failures.iter().map(|failure| failure.error.retry_on());
        all.max().unwrap_or(RetryOn::Never)
    }
}

impl fmt::Display for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, LockFailure { path, error }) in self.failures.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}lock {path}: {error}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for MultiLockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failures.first().map(|failure| &failure.error as _)
    }
}

/// Waits for a future until the deadline; `None` if it takes longer.
async fn until<F: Future>(
    deadline: &mut Unconstrained<Boxed<'static, ()>>,
    future: F,
) -> Option<F::Output> {
    match select(pin!(future), deadline).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}

/// Waits for the first of them, and tells which; for ever, if there are none.
async fn first(losses: &mut [Boxed<'static, LossReason>]) -> (LossReason, usize) {
    if losses.is_empty() {
        return pending().await;
    }
    let (reason, which, _) = select_all(losses.iter_mut()).await;
    (reason, which)
}
