//! Bounds of a wait: a time limit, a connection, a session. And the clock.

use std::borrow::Borrow;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select};
use tokio::task::{coop::Unconstrained, unconstrained};
use tokio::time::Instant;
use zk_session::{Client, Error};

use crate::error::LockError;

/// The end of an acquisition with a timeout.
pub(crate) struct Deadline {
    /// A timeout of zero makes a single attempt, which waits for the replies of a server that answers.
    is_one_attempt: bool,
    /// Ends also a task that has used up its coop budget.
    sleep: Unconstrained<BoxFuture<'static, ()>>,
}

impl Deadline {
    /// Starts the time, with `sleep` as the clock. A single attempt takes `attempt_max` at most.
    pub(crate) fn new(
        timeout: Duration,
        attempt_max: Duration,
        sleep: impl FnOnce(Duration) -> BoxFuture<'static, ()>,
    ) -> Self {
        let is_one_attempt = timeout.is_zero();
        let time = if is_one_attempt { attempt_max } else { timeout };
        Self { is_one_attempt, sleep: unconstrained(sleep(time)) }
    }

    /// Returns true if the timeout is zero.
    pub(crate) fn is_one_attempt(&self) -> bool {
        self.is_one_attempt
    }

    /// Waits for a future; returns `None` after the deadline. Dropping the future must clean up
    /// without waiting.
    pub(crate) async fn bound<F: Future>(&mut self, future: F) -> Option<F::Output> {
        match select(pin!(future), &mut self.sleep).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(((), _)) => None,
        }
    }

    /// Acquires a lock: waits for it, or makes one attempt if the timeout is zero. Returns `None`
    /// after the deadline.
    ///
    /// # Errors
    /// The errors of the acquisition. An attempt without a connection returns `None`.
    pub(crate) async fn acquire<T, E, W, A>(
        &mut self,
        wait: impl FnOnce() -> W,
        attempt: impl FnOnce() -> A,
    ) -> Result<Option<T>, E>
    where
        E: Borrow<LockError>,
        W: Future<Output = Result<T, E>>,
        A: Future<Output = Result<Option<T>, E>>,
    {
        if !self.is_one_attempt {
            return self.bound(wait()).await.transpose();
        }
        match self.bound(attempt()).await {
            None => Ok(None),
            Some(Err(error)) if matches!(error.borrow(), LockError::NotConnected { .. }) => {
                Ok(None)
            }
            Some(attempted) => attempted,
        }
    }
}

/// Acquires a lock of one session within `timeout`; see [`Deadline::acquire`].
pub(crate) async fn acquire_in_time<T, W, A>(
    client: &Client,
    timeout: Duration,
    wait: impl FnOnce() -> W,
    attempt: impl FnOnce() -> A,
) -> Result<Option<T>, LockError>
where
    W: Future<Output = Result<T, LockError>>,
    A: Future<Output = Result<Option<T>, LockError>>,
{
    let attempt_max = client.session_timeout();
    let mut deadline =
        Deadline::new(timeout, attempt_max, |time| client.runtime().sleep(time).boxed());
    match (deadline.acquire(wait, attempt).await?, client.end_reason()) {
        // The clock also ends when the runtime of the session shuts down.
        (None, Some(end)) if !timeout.is_zero() => Err(Error::from(end).into()),
        (acquired, _) => Ok(acquired),
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
    attempt: impl Future<Output = Result<Option<T>, LockError>>,
) -> Result<Option<T>, LockError> {
    let attempted = match client.while_connected(attempt).await {
        Some(attempted) => attempted,
        None => Err(no_connection(client, path)),
    };
    // It may have failed without waiting, for example because another task of this process has the lock.
    if !matches!(attempted, Ok(Some(_))) {
        client.take_from_budget().await;
    }
    attempted
}

fn no_connection(client: &Client, path: &str) -> LockError {
    match client.end_reason() {
        Some(end) => Error::from(end).into(),
        None => LockError::NotConnected { path: path.to_owned() },
    }
}

/// Waits for a future that sends no request, or until the session ends.
///
/// # Errors
/// Returns the error with which every request fails from then on.
pub(crate) async fn or_session_end<F: Future>(
    client: &Client,
    future: F,
) -> Result<F::Output, Error> {
    let mut future = pin!(future);
    if let Some(output) = future.as_mut().now_or_never() {
        return Ok(output);
    }
    // On the heap: tasks that wait in the ensemble's queue do not need this memory.
    match select(future, Box::pin(client.wait_for_end())).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right((end, _)) => Err(end.into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the only place of this crate that reads a clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use zk_session::Config;
    use zk_testing::TestServer;

    use super::*;

    /// The timer and the session end at the same moment, before the wait sees the end.
    #[tokio::test(start_paused = true)]
    async fn timeout_reports_the_end_of_the_session() {
        let config = Config::new("server:1").unwrap().seed(1);
        let client = config.connector(TestServer::in_memory()).connect().await.unwrap();
        client.close().await;
        let asked = async |timeout| {
            acquire_in_time(&client, timeout, pending, || ready(Ok(None::<()>))).await
        };
        let error = asked(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error, Error::from(client.end_reason().unwrap()).into());
        assert_eq!(asked(Duration::ZERO).await, Ok(None), "the attempt was made before");
    }
}
