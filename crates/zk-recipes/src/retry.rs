//! Retries: which requests are repeated, how soon, and how often.

use zk_session::{Client, Error, ErrorCode, ErrorKind, RetryOn};

use crate::limits::{THROTTLED_PAUSE, TIMED_OUT_MAX, TIMED_OUT_PAUSE};

/// Returns true if the request was not applied and may succeed when it is repeated. The repeated
/// request may have to wait for a connection.
///
/// Returns false for a client at its limits and for a client on a read-only server. Both fail again
/// at once, and a retry loop would never yield its thread.
pub(crate) fn is_transient(error: &Error) -> bool {
    use ErrorKind::{LimitReached, NotReadOnly};
    error.retry_on() == RetryOn::SameSession
        && !matches!(error.kind(), LimitReached(_) | NotReadOnly)
}

/// Repeats a request while it fails for a [transient](is_transient) reason.
///
/// # Errors
/// Returns the first error of another kind, or the last of too many timeouts.
pub(crate) async fn retry<T, F>(client: &Client, mut request: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut attempts = Attempts::default();
    loop {
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) => attempts.again(client, error).await?,
        }
    }
}

/// As [`retry`], for a request that may be applied twice without harm.
///
/// # Errors
/// As [`retry`].
pub(crate) async fn retry_if_unknown<T, F>(
    client: &Client,
    mut request: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut attempts = Attempts::default();
    loop {
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) => attempts.again_if_unknown(client, error).await?,
        }
    }
}

/// Returns `None` if the node of a request does not exist.
///
/// # Errors
/// Returns every other error.
pub(crate) fn if_exists<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Counts the attempts of one request, and waits between them.
///
/// Connection problems have no limit: the session reconnects or ends. Consecutive timeouts on a
/// working connection have one, because the timeout of the handle is too short for the ensemble
/// then.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    timed_out: u32,
    /// Number of connections lost before the first of these timeouts.
    cuts: u64,
}

impl Attempts {
    /// Waits before the request is repeated.
    ///
    /// # Errors
    /// Returns `error` if it is not [transient](is_transient), or if the request has timed out too
    /// often.
    pub(crate) async fn again(&mut self, client: &Client, error: Error) -> Result<(), Error> {
        match is_transient(&error) {
            true => self.pause(client, error).await,
            false => Err(error),
        }
    }

    /// As [`again`](Self::again), for a request that may be applied twice without harm.
    ///
    /// # Errors
    /// As [`again`](Self::again).
    pub(crate) async fn again_if_unknown(
        &mut self,
        client: &Client,
        error: Error,
    ) -> Result<(), Error> {
        let is_unanswered =
            matches!(error.kind(), ErrorKind::ConnectionLost(_) | ErrorKind::TimedOut);
        match is_unanswered || is_transient(&error) {
            true => self.pause(client, error).await,
            false => Err(error),
        }
    }

    async fn pause(&mut self, client: &Client, error: Error) -> Result<(), Error> {
        let pause = if *error.kind() == ErrorKind::TimedOut {
            let cuts = client.connections_lost();
            if self.timed_out == 0 || cuts != self.cuts || !client.is_connected() {
                (self.timed_out, self.cuts) = (0, cuts);
            }
            if self.timed_out >= TIMED_OUT_MAX {
                return Err(error);
            }
            let step = TIMED_OUT_PAUSE.saturating_mul(1 << self.timed_out);
            self.timed_out += 1;
            step.min(client.session_timeout() / 8)
        } else {
            self.timed_out = 0;
            // A server that throttles replies at once. Other failures have taken some time, or the
            // next request waits for a connection.
            if error.code().is_none() {
                return Ok(());
            }
            THROTTLED_PAUSE
        };
        // On the heap, because it is rare; this keeps the futures of waiters small.
        Box::pin(client.sleep(pause)).await;
        Ok(())
    }
}
