//! Repeated requests, and the errors after which a repetition may succeed.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use zk_recipes::session::{
    Acl, Client, Error, ErrorCode, ErrorKind, Outcome, ParentMode, Repeat, Retry, RetryPolicy, path,
};

use crate::limits::{
    CONFLICT_PAUSE, CONFLICT_PAUSE_MAX, REPEAT_PAUSE, REPEAT_PAUSE_MAX, REPEATS_MAX,
};

/// Pauses before a request is repeated.
pub(crate) static REQUEST_POLICY: RetryPolicy =
    RetryPolicy::exponential(REPEAT_PAUSE, REPEAT_PAUSE_MAX);

/// Pauses after conflicts with other clients.
pub(crate) static CONFLICT_POLICY: RetryPolicy =
    RetryPolicy::exponential(CONFLICT_PAUSE, CONFLICT_PAUSE_MAX);

/// Returns a handle that repeats reads and requests that were not applied.
pub(crate) fn retry(client: &Client) -> Retry {
    client.retry(REQUEST_POLICY.max_attempts(REPEATS_MAX))
}

/// Reply to a request that was repeated until a server answered it.
pub(crate) struct Repeated<T> {
    pub(crate) reply: Result<T, Error>,
    /// The reply to an earlier attempt was lost, so that attempt may have been applied.
    pub(crate) is_unconfirmed: bool,
}

/// Repeats a request until a server has answered it, also after a lost reply.
///
/// An error without an answer has [`Outcome::Unknown`] if any attempt may have been applied.
pub(crate) async fn repeat<T, F>(client: &Client, mut request: impl FnMut() -> F) -> Repeated<T>
where
    F: Future<Output = Result<T, Error>>,
{
    let policy = REQUEST_POLICY.max_attempts(REPEATS_MAX);
    let (mut attempts, mut is_unconfirmed) = (policy.begin(), false);
    loop {
        let error = match request().await {
            Ok(reply) => return Repeated { reply: Ok(reply), is_unconfirmed },
            Err(error) => error,
        };
        is_unconfirmed |= error.outcome() == Outcome::Unknown;
        let Err(error) = attempts.again(client, error, Repeat::Unanswered).await else { continue };
        let is_answered = error.code().is_some() && !is_transient(&error);
        let reply = if is_unconfirmed && !is_answered {
            Err(error.with_outcome(Outcome::Unknown))
        } else {
            Err(error)
        };
        return Repeated { reply, is_unconfirmed };
    }
}

/// Returns true if a repetition on the same session may succeed. The failed attempt may have been
/// applied.
pub(crate) fn is_transient(error: &Error) -> bool {
    Repeat::Unanswered.covers(error)
}

/// Returns true if the session repairs the cause of the error: it reconnects, or a server is
/// temporarily unable to serve. The caller can do nothing about it.
pub(crate) fn is_passing(error: &Error) -> bool {
    is_transient(error) && !matches!(error.kind(), ErrorKind::LimitReached(_))
}

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

/// Makes one attempt, for a timeout of zero. The attempt waits for the replies of a server that answers,
/// for at most a session timeout. Returns `None` after that time, and at once without a connection.
pub(crate) async fn one_attempt<T>(client: &Client, attempt: impl Future<Output = T>) -> Option<T> {
    within(client, client.session_timeout(), client.while_connected(attempt)).await.flatten()
}

/// Waits for a future for at most `timeout`. Returns `None` after that time.
pub(crate) async fn within<T>(
    client: &Client,
    timeout: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(future), pin!(client.runtime().sleep(timeout))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
