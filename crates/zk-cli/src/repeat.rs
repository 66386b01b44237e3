//! Requests that may be applied twice.

use zk_recipes::session::{Client, Error, Outcome, RetryOn};

use crate::failure::is_end;
use crate::sessions::{Session, clock, idle_limit};

/// Sends a request, and repeats it if its answer is lost: it does no harm to apply it twice. Returns
/// also whether an answer was lost.
pub(crate) async fn repeat<T, F: Future<Output = Result<T, Error>>>(
    Session { client, retry, .. }: &Session,
    request: impl Fn(&Client) -> F,
) -> (Result<T, Error>, bool) {
    let begun = clock();
    let mut was_lost = false;
    loop {
        let done = retry.run(&request).await;
        let is_lost = |error: &Error| error.outcome() == Outcome::Unknown && !is_end(error);
        if !done.as_ref().is_err_and(is_lost) || clock() - begun > idle_limit(client) {
            return (after_loss(done, was_lost), was_lost);
        }
        was_lost = true;
    }
}

/// Awaits a request that was sent with others, and repeats it like [`repeat`] if its answer is lost or the
/// server could not handle it yet.
pub(crate) async fn repeat_sent<T, F: Future<Output = Result<T, Error>>>(
    session: &Session,
    sent: impl Future<Output = Result<T, Error>>,
    request: impl Fn(&Client) -> F,
) -> (Result<T, Error>, bool) {
    let first = match sent.await {
        Err(error) if !is_end(&error) => error,
        done => return (done, false),
    };
    let is_lost = first.outcome() == Outcome::Unknown;
    if !is_lost && first.retry_on() != RetryOn::SameSession {
        return (Err(first), false);
    }
    let (done, was_lost) = repeat(session, request).await;
    (after_loss(done, is_lost), is_lost || was_lost)
}

/// Returns the result of the last attempt. If the answer to an earlier one was lost, no error proves that
/// nothing was applied.
pub(crate) fn after_loss<T>(done: Result<T, Error>, was_lost: bool) -> Result<T, Error> {
    if was_lost { done.map_err(|error| error.with_outcome(Outcome::Unknown)) } else { done }
}
