//! Terms of a lock over any number of sessions: a caller acquires it, works, and releases it, again
//! and again.

mod held_lock;
mod interruption;

use std::future::Future;
use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::pin;
use std::time::Duration;

use futures::TryFutureExt;
use futures::future::{Either, select};
use zk_session::{Client, ErrorKind, RetryOn, SessionEnd, SessionManager};

pub use self::held_lock::HeldLock;
pub(crate) use self::held_lock::ReleaseOnDrop;
pub use self::interruption::Interruption;
use crate::error::{LockError, LossReason};
use crate::limits::REQUEUE_PAUSE;
use crate::lock::Lock;

/// Runs `work` whenever this process holds the lock, until the work has finished.
///
/// It queues for the lock, runs the work while the lock is held, and drops the work when the lock
/// is lost. Then it queues again, on the next session if the current one has ended. When the work
/// finishes, it releases the lock and returns the output. If the release shows that the lock was
/// lost before, the work runs again, like work that was dropped.
///
/// `lock` creates the lock for the client of each session. `work` gets a [`HeldLock`], which has
/// the fencing token. Work that changes its captures takes the form
/// `|held| { …; async move { … } }`.
///
/// `interrupted` is called for each lost lock, for each failed attempt, and for a release that the
/// server has not confirmed. It must not block. An expired session usually causes two calls: one for
/// the lost lock, and one for the failed attempt on the ended session.
///
/// The error of `lock` converts into a [`LockError`], and the error of `work` from one, as
/// `Box<dyn Error + Send + Sync>` does.
///
/// # Errors
/// * The error of the work, if the lock was still held at that time. If the lock was lost, the
///   error of the work is dropped and reported as an interruption. An example is a request that
///   fails when the session expires.
/// * The first error for which a retry cannot help
///   ([`RetryOn::Never`](zk_session::RetryOn::Never)), from `lock`, from an acquisition, or because
///   the [`SessionManager`] has stopped.
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
///         while send_one(held.token()?.czxid()).await {
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
    interrupted: impl FnMut(Interruption),
) -> Result<T, W>
where
    L: Lock,
    E: Into<LockError>,
    F: Future<Output = Result<T, W>>,
    W: From<LockError>,
{
    let work = |held| work(held).map_ok(Break);
    run_terms(sessions, lock, work, interrupted).await
}

/// Runs `work` for each term in which the lock is held, until the work breaks with a result.
///
/// After a term that ends with [`Continue`] the lock is released, and the next term begins at the
/// end of the queue. A term that ends with the loss of the lock is reported to `interrupted`.
///
/// # Errors
/// * The error of the work, if the lock was still held at that time.
/// * The first error of `lock` or of an acquisition for which a retry cannot help.
/// * The error of a release for which a retry cannot help, if the work wants another term.
pub(crate) async fn run_terms<L, E, F, T, W>(
    sessions: &SessionManager,
    lock: impl Fn(&Client) -> Result<L, E>,
    mut work: impl FnMut(HeldLock) -> F,
    mut interrupted: impl FnMut(Interruption),
) -> Result<T, W>
where
    L: Lock,
    E: Into<LockError>,
    F: Future<Output = Result<ControlFlow<T>, W>>,
    W: From<LockError>,
{
    loop {
        let client = sessions.open_client().await.map_err(LockError::from)?;
        let lock = lock(&client).map_err(Into::into)?;
        let held = match lock.acquire_boxed().await {
            Ok(held) => HeldLock::new(lock.client(), held),
            Err(error) => {
                interrupted(pause_after(&client, error).await?);
                continue;
            }
        };
        let _released = ReleaseOnDrop(held.clone());
        let token = held.token().ok();
        let ended = match select(pin!(held.lost()), pin!(work(held.clone()))).await {
            Either::Left((reason, _)) => Err(reason),
            Either::Right((result, _)) => match held.release().await {
                Ok(()) => Ok(result),
                Err(LockError::Lost(reason)) => Err(reason),
                // The lock was held when the work ended.
                Err(error) => match session_end(&error) {
                    // The work may have failed for the same reason.
                    Some(end) if result.is_err() => Err(LossReason::SessionEnded(end)),
                    Some(_) => Ok(result),
                    // The next term would wait for the end of this one.
                    None if is_rejected(&error) && matches!(result, Ok(Continue(()))) => {
                        return Err(error.into());
                    }
                    None => {
                        interrupted(Interruption::NotReleased(error));
                        Ok(result)
                    }
                },
            },
        };
        match ended {
            Ok(Ok(Continue(()))) => {}
            Ok(Ok(Break(result))) => return Ok(result),
            Ok(Err(error)) => return Err(error),
            Err(reason) => {
                drop(held.take());
                interrupted(Interruption::Lost { token, reason });
            }
        }
    }
}

/// Returns the end of the session. The server removes the node of a lock with the session.
fn session_end(error: &LockError) -> Option<SessionEnd> {
    match error {
        LockError::Client(error) => match error.kind() {
            ErrorKind::SessionEnded(end) => Some(*end),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if a server has rejected a release. Without an answer, the session deletes the node later.
fn is_rejected(error: &LockError) -> bool {
    matches!(error, LockError::Client(error) if error.code().is_some())
        && error.retry_on() == RetryOn::Never
}

/// Waits before the next acquisition, and returns the interruption to report.
///
/// # Errors
/// Returns the error if a retry cannot help.
pub(crate) async fn pause_after(
    client: &Client,
    error: LockError,
) -> Result<Interruption, LockError> {
    if error.retry_on() == RetryOn::Never {
        return Err(error);
    }
    pause(client, REQUEUE_PAUSE).await;
    Ok(Interruption::NotAcquired(error))
}

/// Waits for this time, or until the session has ended.
pub(crate) async fn pause(client: &Client, time: Duration) {
    // A session that is closing rejects every request at once. The timer is the client's, because the
    // caller's thread may have no runtime.
    select(pin!(client.runtime().sleep(time)), pin!(client.wait_for_end())).await;
}
