//! Repeated requests, and the errors after which a repetition may succeed.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use zk_recipes::session::{
    Acl, Client, Error, ErrorCode, ErrorKind, Outcome, ParentMode, Retry, RetryOn, RetryPolicy,
    path,
};

use crate::backoff::Backoff;
use crate::limits::{REPEAT_PAUSE, REPEAT_PAUSE_MAX, REPEATS_MAX};

/// Returns a handle that repeats reads and requests that were not applied.
pub(crate) fn retry(client: &Client) -> Retry {
    let policy = RetryPolicy::exponential(REPEAT_PAUSE, REPEAT_PAUSE_MAX);
    client.retry(policy.attempts(REPEATS_MAX))
}

/// Reply to a request that was repeated until a server answered it.
pub(crate) struct Repeated<T> {
    pub(crate) reply: Result<T, Error>,
    /// The reply to an earlier attempt was lost, so that attempt may have been applied.
    pub(crate) is_doubtful: bool,
}

/// Repeats a request until a server has answered it, also after a lost reply.
///
/// An error without an answer has [`Outcome::Unknown`] if any attempt may have been applied.
pub(crate) async fn repeat<T, F>(client: &Client, mut request: impl FnMut() -> F) -> Repeated<T>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut backoff = Backoff::of_requests(client);
    let (mut is_doubtful, mut attempts) = (false, 0);
    loop {
        let error = match request().await {
            Ok(reply) => return Repeated { reply: Ok(reply), is_doubtful },
            Err(error) => error,
        };
        if !is_transient(&error) {
            let error = match error.code() {
                None if is_doubtful => error.with_outcome(Outcome::Unknown),
                _ => error,
            };
            return Repeated { reply: Err(error), is_doubtful };
        }
        is_doubtful |= error.outcome() == Outcome::Unknown;
        attempts += 1;
        if attempts >= REPEATS_MAX {
            let outcome = if is_doubtful { Outcome::Unknown } else { Outcome::NotApplied };
            return Repeated { reply: Err(error.with_outcome(outcome)), is_doubtful };
        }
        backoff.pause().await;
    }
}

/// Returns true if the reply to a request was lost with its connection, or did not arrive in time.
fn is_unanswered(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionLost(_) | ErrorKind::TimedOut)
}

/// Returns true if a repetition on the same session may succeed. The failed attempt may have been
/// applied.
pub(crate) fn is_transient(error: &Error) -> bool {
    is_unanswered(error) || error.retry_on() == RetryOn::SameSession
}

/// Returns true if the session repairs the cause of the error: it reconnects, or a server is
/// temporarily unable to serve. The caller can do nothing about it.
pub(crate) fn is_passing(error: &Error) -> bool {
    is_transient(error) && !matches!(error.kind(), ErrorKind::LimitReached(_))
}

/// Returns true if the session has ended.
pub(crate) fn is_session_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionEnded(_))
}

/// Creates the missing parents of a node as containers, as Curator does.
pub(crate) async fn create_parents(client: &Client, of: &str, acl: &[Acl]) -> Result<(), Error> {
    let parent = path::parent(of).unwrap_or("/");
    let create = || client.ensure_path_with_acl(parent, ParentMode::Containers, acl);
    repeat(client, create).await.reply
}

/// Returns `None` if the server answered with this code.
pub(crate) fn unless<T>(code: ErrorCode, reply: Result<T, Error>) -> Result<Option<T>, Error> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.code() == Some(code) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for a future for at most `timeout`. Returns `None` after that time.
pub(crate) async fn within<T>(
    client: &Client,
    timeout: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(future), pin!(client.sleep(timeout))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
