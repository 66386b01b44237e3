//! Work that runs whenever this process holds a lock, over any number of sessions.

use std::future::Future;
use std::ops::ControlFlow;

use futures::TryFutureExt;
use zk_session::{Client, SessionManager};

use crate::error::LockError;
use crate::held_lock::HeldLock;
use crate::interruption::Interruption;
use crate::lock::Lock;
use crate::run_terms::run_terms;

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
    let work = |held| work(held).map_ok(ControlFlow::Break);
    run_terms(sessions, lock, work, interrupted).await
}
