//! Retries: which requests are repeated, how soon, and how often.

use zk_session::{Client, Error, ErrorKind, RetryOn};

use crate::limits::{THROTTLED_PAUSE, TIMED_OUT_MAX, TIMED_OUT_PAUSE};

/// Checks whether the request was not applied and may succeed when it is repeated. It may have to
/// wait for a connection then.
///
/// False for a client at its limits and for one on a read-only server: both refuse again at once,
/// and a loop would never release its thread.
pub(crate) fn is_transient(error: &Error) -> bool {
    use ErrorKind::{LimitReached, NotReadOnly};
    error.retry_on() == RetryOn::SameSession
        && !matches!(error.kind(), LimitReached(_) | NotReadOnly)
}

/// Counts the attempts at one request, and waits between them.
///
/// Trouble with the connection has no bound: the session reconnects or ends. Requests that time out
/// in a row on a working connection have one, because the timeout of the handle is too short for the
/// ensemble then.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    timed_out: u32,
    /// How many connections had been lost at the first of those.
    cuts: u64,
}

impl Attempts {
    /// Waits before the request is repeated.
    ///
    /// # Errors
    /// The error itself, if it is not [transient](is_transient), or if the request has timed out
    /// too often.
    pub(crate) async fn again(&mut self, client: &Client, error: Error) -> Result<(), Error> {
        match is_transient(&error) {
            true => self.pause(client, error).await,
            false => Err(error),
        }
    }

    /// As [`again`](Self::again), for a request that does no harm if it is applied twice.
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
            // A server that throttles answers at once. Anything else has taken its time, or waits
            // for a connection by itself.
            if error.code().is_none() {
                return Ok(());
            }
            THROTTLED_PAUSE
        };
        // On the heap, as it is rare, to keep the futures of waiters small.
        Box::pin(client.sleep(pause)).await;
        Ok(())
    }
}
