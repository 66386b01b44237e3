//! Requests that may be applied twice.

use zk_recipes::session::{Client, Error, Outcome, RetryOn};

use crate::failure::is_end;
use crate::sessions::{Sessions, clock, idle_limit};

/// Sends a request, and repeats it if its answer is lost: it does no harm to apply it twice. Returns
/// also whether an answer was lost.
pub(crate) async fn repeat<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
    request: impl Fn(&Client) -> F,
) -> (Result<T, Error>, bool) {
    let (retry, begun) = (Sessions::retry(client), clock());
    let mut was_lost = false;
    loop {
        let done = retry.run(&request).await;
        let is_lost = |error: &Error| error.outcome() == Outcome::Unknown && !is_end(error);
        if !done.as_ref().is_err_and(is_lost) || clock() - begun > idle_limit(client) {
            let whole =
                |error: Error| if was_lost { error.with_outcome(Outcome::Unknown) } else { error };
            return (done.map_err(whole), was_lost);
        }
        was_lost = true;
    }
}

/// Awaits a request that was sent with others, and repeats it like [`repeat`] if its answer is lost or the
/// server could not handle it yet.
pub(crate) async fn repeat_sent<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
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
    let (done, was_lost) = repeat(client, request).await;
    let done =
        if is_lost { done.map_err(|error| error.with_outcome(Outcome::Unknown)) } else { done };
    (done, is_lost || was_lost)
}
