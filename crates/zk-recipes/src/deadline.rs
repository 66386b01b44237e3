//! Time limits of an acquisition, and the clock.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select};
use tokio::task::{coop::Unconstrained, unconstrained};
use tokio::time::Instant;
use zk_session::{Client, Error};

use crate::error::LockError;

/// The end of an acquisition with a timeout.
pub(crate) struct Deadline {
    /// A timeout of zero makes a single attempt. It waits for the replies of a server that answers: with
    /// a bound below a round trip it would never succeed.
    is_one_attempt: bool,
    /// Ends also a task that has used up its coop budget.
    sleep: Unconstrained<BoxFuture<'static, ()>>,
}

impl Deadline {
    /// Starts the time of an acquisition through `client`.
    pub(crate) fn new(client: &Client, timeout: Duration) -> Self {
        let is_one_attempt = timeout.is_zero();
        // A silent server is left before that. One that throttles each request answers for ever.
        let time = if is_one_attempt { client.session_timeout() } else { timeout };
        Self { is_one_attempt, sleep: unconstrained(client.sleep(time).boxed()) }
    }

    /// Waits for a future; returns `None` after the deadline. Dropping the future must clean up
    /// without waiting.
    pub(crate) async fn bound<F: Future>(&mut self, future: F) -> Option<F::Output> {
        match select(pin!(future), &mut self.sleep).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(((), _)) => None,
        }
    }

    /// As [`bound`](Self::bound), for clean-up: a single attempt does not wait for it.
    pub(crate) async fn bound_clean_up<F: Future>(&mut self, future: F) -> Option<F::Output> {
        if self.is_one_attempt { None } else { self.bound(future).await }
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
    let mut deadline = Deadline::new(client, timeout);
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
        Some(end) => Error::from(end).into(),
        None => LockError::NotConnected { path: path.to_owned() },
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
