//! Time limits of an acquisition.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, FutureExt, select};
use tokio::task::unconstrained;
use zk_session::{Client, Error, ErrorKind};

use crate::error::LockError;
use crate::limits::ATTEMPT_TIME;

/// Waits for a future, for at most `timeout`; returns `None` if it takes longer. Dropping the
/// future must clean up without waiting.
pub(crate) async fn in_time<F: Future>(
    client: &Client,
    timeout: Duration,
    future: F,
) -> Option<F::Output> {
    // The deadline must also end a task that has used up its coop budget.
    let deadline = pin!(unconstrained(client.sleep(timeout)));
    match select(pin!(future), deadline).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}

/// Makes an attempt that does not wait for a connection.
///
/// # Errors
/// [`LockError::NotConnected`] without a connection, also if it is lost during the attempt; the end
/// of the session; otherwise the errors of the attempt.
pub(crate) async fn while_connected<T>(
    client: &Client,
    path: &str,
    attempt: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let (mut attempt, mut events) = (pin!(attempt), client.events());
    loop {
        // An attempt may also wait without a request, for example for the time to renew the lease.
        let news = pin!(events.next());
        let mut step = select(attempt.as_mut(), news);
        let step = poll_fn(|cx| match step.poll_unpin(cx) {
            Poll::Pending if !client.is_connected() => Poll::Ready(None),
            polled => polled.map(Some),
        });
        match step.await {
            Some(Either::Left((attempted, _))) => return attempted,
            Some(Either::Right((Some(_), _))) => {}
            // There are no events after the end of the session.
            None | Some(Either::Right((None, _))) => return Err(no_connection(client, path)),
        }
    }
}

fn no_connection(client: &Client, path: &str) -> LockError {
    match client.end_reason() {
        Some(end) => Error::not_applied(ErrorKind::SessionEnded(end)).into(),
        None => LockError::NotConnected { path: path.to_owned() },
    }
}

/// Makes an attempt for an acquisition with a timeout of zero.
///
/// # Errors
/// The errors of the attempt. Without a connection it returns `None`.
pub(crate) async fn at_once<T>(
    client: &Client,
    attempt: impl Future<Output = Result<Option<T>, LockError>>,
) -> Result<Option<T>, LockError> {
    match in_time(client, ATTEMPT_TIME, attempt).await {
        None | Some(Err(LockError::NotConnected { .. })) => Ok(None),
        Some(attempted) => attempted,
    }
}
