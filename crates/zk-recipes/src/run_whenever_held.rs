//! Work that runs whenever this process holds a lock, over any number of sessions.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, OptionFuture, select};
use zk_session::{Client, ErrorKind, Multi, RetryOn, SessionEnd, SessionManager};

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::limits::REQUEUE_PAUSE;
use crate::lock::{Lock, LockGuard};

/// Runs `work` whenever this process holds the lock, until the work has finished.
///
/// It queues for the lock, runs the work while the lock is held, and drops the work when the lock
/// is lost. Then it queues again, on the next session if the current one has ended. When the work
/// finishes, it releases the lock and returns the output. If the release shows that the lock was
/// lost before, the work runs again, like work that was dropped.
///
/// `lock` creates the lock for the client of each session. `work` gets a [`HeldLock`], which has
/// the fencing token. Work that changes its captures takes the form
/// `|held| { …; async move { … } }`. `interrupted` is called for each lost lock and each failed
/// attempt; it must not block. An expired session usually causes two calls: one for the lost lock, and
/// one for the failed attempt on the ended session.
///
/// The error of `lock` converts into a [`LockError`], and the error of `work` from one, as
/// `Box<dyn Error + Send + Sync>` does.
///
/// # Errors
/// * The error of the work, if the lock was still held at that time. If the lock was lost, the
///   error of the work is dropped and reported as an interruption. An example is a request that
///   fails when the session expires.
/// * The first error for which a retry cannot help ([`RetryOn::Never`]), from `lock`, from an
///   acquisition, or because the [`SessionManager`] has stopped.
///
/// # Cancel safety
/// Dropping the future drops the work and releases the lock in the background.
///
/// # Example
/// ```no_run
/// use zk_recipes::session::{Config, SessionManager};
/// use zk_recipes::{LockError, Mutex, run_whenever_held};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let sent = run_whenever_held(
///     &sessions,
///     |client| Mutex::new(client, "/locks/newsletter"),
///     async |held| {
///         let mut sent = 0;
///         while send_one(held.token()?.get()).await {
///             sent += 1;
///         }
///         Ok::<_, LockError>(sent)
///     },
///     |interruption| eprintln!("{interruption}"),
/// );
/// println!("{} newsletters were sent", sent.await?);
/// # Ok(())
/// # }
///
/// async fn send_one(token: i64) -> bool { /* the mailer refuses a token below the largest it has seen */
/// #   drop(token); false
/// }
/// ```
pub async fn run_whenever_held<L, E, F, T, W>(
    sessions: &SessionManager,
    lock: impl Fn(&Client) -> Result<L, E>,
    mut work: impl FnMut(HeldLock) -> F,
    mut interrupted: impl FnMut(Interruption),
) -> Result<T, W>
where
    L: Lock,
    E: Into<LockError>,
    F: Future<Output = Result<T, W>>,
    W: From<LockError>,
{
    loop {
        let client = sessions.open_client().await.map_err(LockError::from)?;
        let lock = lock(&client).map_err(Into::into)?;
        let held = match lock.acquire_boxed().await {
            Ok(held) => HeldLock::new(&client, held),
            Err(error) => {
                let retry_on = error.retry_on();
                if retry_on == RetryOn::Never {
                    return Err(error.into());
                }
                interrupted(Interruption::NotAcquired(error));
                // A session that is closing rejects every request at once.
                let ended = client.wait_for_end();
                drop(tokio::time::timeout(REQUEUE_PAUSE, ended).await);
                continue;
            }
        };
        let _released = ReleaseOnDrop(held.clone());
        let token = held.token().ok();
        let ended = match select(pin!(held.lost()), pin!(work(held.clone()))).await {
            Either::Left((reason, _)) => Err(reason),
            Either::Right((result, _)) => match (held.release().await, &result) {
                (Err(reason), _) => Err(reason),
                // The work may have failed for the same reason.
                (Ok(Some(end)), Err(_)) => Err(LossReason::SessionEnded(end)),
                (Ok(_), _) => Ok(result),
            },
        };
        match ended {
            Ok(result) => return result,
            Err(reason) => {
                drop(held.take());
                interrupted(Interruption::Lost { token, reason });
            }
        }
    }
}

/// Releases the lock when the loop around it is dropped or panics, even if clones of the lock
/// exist.
struct ReleaseOnDrop(HeldLock);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// The reason why the work was dropped or could not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interruption {
    /// The lock was lost.
    Lost {
        /// The token of the holder that lost it; `None` if it was lost before the work began.
        token: Option<FencingToken>,
        /// The reason of the loss.
        reason: LossReason,
    },
    /// The lock could not be acquired. Another attempt follows.
    NotAcquired(LockError),
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { token: Some(token), reason } => {
                write!(f, "the lock with token {token} was lost: {reason}")
            }
            Self::Lost { token: None, reason } => write!(f, "the lock was lost: {reason}"),
            Self::NotAcquired(error) => write!(f, "the lock was not acquired: {error}"),
        }
    }
}

/// The lock that [`run_whenever_held`] holds for its work. Cheap to clone. After the work has
/// ended, [`token`](Self::token) fails with [`LockError::Lost`].
#[derive(Clone, Debug)]
pub struct HeldLock {
    client: Client,
    held: Arc<Mutex<Option<Box<dyn LockGuard>>>>,
}

impl HeldLock {
    fn new(client: &Client, held: Box<dyn LockGuard>) -> Self {
        Self { client: client.weak(), held: Arc::new(Mutex::new(Some(held))) }
    }

    /// Returns the client of the session that holds the lock. It does not keep the session open.
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
        let tokens = self.lock().as_ref().map(|held| held.tokens()).transpose()?;
        let first = tokens.and_then(|tokens| tokens.first().copied());
        first.ok_or(LockError::Lost(LossReason::Released))
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
        let held = self.lock();
        held.iter().flat_map(|held| held.nodes()).map(str::to_owned).collect()
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
        let asked = self.lock().as_ref().map(|held| held.revocation_boxed());
        async move {
            let asked = OptionFuture::from(asked).await;
            asked.unwrap_or(Err(LockError::Lost(LossReason::Released)))
        }
    }

    /// Waits until the lock is lost. It is for tasks that the work has spawned;
    /// [`run_whenever_held`] drops the work itself.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lost = self.lock().as_ref().map(|held| held.lost_boxed());
        async move { OptionFuture::from(lost).await.unwrap_or(LossReason::Released) }
    }

    /// Begins a transaction that is applied only if the lock's nodes exist; see
    /// [`Guard::multi`](crate::Guard::multi). Its first operations check the [nodes](Self::nodes),
    /// one each.
    pub fn multi<'a>(&self) -> Multi<'a> {
        self.nodes().iter().fold(self.client.multi(), |multi, node| multi.check(node, None))
    }

    /// Releases the lock. Returns how the session ended, if it ended before the server confirmed
    /// the release.
    ///
    /// # Errors
    /// Returns the reason of the loss if the lock was lost before.
    async fn release(&self) -> Result<Option<SessionEnd>, LossReason> {
        let Some(held) = self.take() else { return Err(LossReason::Released) };
        match held.release_boxed().await {
            Ok(()) => Ok(None),
            Err(LockError::Lost(reason)) => Err(reason),
            // The lock was held at the call. The server removes its node with the session.
            Err(LockError::Client(error)) => match error.kind() {
                ErrorKind::SessionEnded(end) => Ok(Some(*end)),
                _ => Ok(None),
            },
            Err(_) => Ok(None),
        }
    }

    fn take(&self) -> Option<Box<dyn LockGuard>> {
        self.lock().take()
    }

    /// Locks the state for a short time, never across an await.
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn LockGuard>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
