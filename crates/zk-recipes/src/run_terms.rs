//! Terms of a lock over any number of sessions: a caller acquires it, works, and releases it, again
//! and again.

use std::future::Future;
use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use zk_session::{Client, ErrorKind, RetryOn, SessionEnd, SessionManager};

use crate::error::{LockError, LossReason};
use crate::held_lock::{HeldLock, ReleaseOnDrop};
use crate::interruption::Interruption;
use crate::limits::REQUEUE_PAUSE;
use crate::lock::Lock;

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
