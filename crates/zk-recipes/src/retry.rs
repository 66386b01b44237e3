//! Repeated requests. The locks repeat them until the session ends.

use zk_session::{Attempts, Client, Error, Outcome, Repeat, RetryPolicy};

static POLICY: RetryPolicy = RetryPolicy::until_session_end();

/// Begins the first attempt of a request that the caller repeats itself.
pub(crate) fn attempts() -> Attempts<'static> {
    POLICY.begin()
}

/// Repeats a request while it fails for a reason that passes, and was not applied.
///
/// # Errors
/// Returns the first error of another kind, or the last of too many timeouts.
pub(crate) async fn retry<T, F>(client: &Client, mut request: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    match request().await {
        Err(error) => Box::pin(retry_after(error, client, Repeat::NotApplied, request)).await,
        answer => answer,
    }
}

/// As [`retry`], for a request that may be applied twice without harm.
///
/// # Errors
/// As [`retry`]. The outcome is "not applied", because the caller's operation can be repeated.
pub(crate) async fn retry_if_unknown<T, F>(
    client: &Client,
    mut request: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    match request().await {
        Err(error) => Box::pin(retry_after(error, client, Repeat::Unanswered, request))
            .await
            .map_err(|error| error.with_outcome(Outcome::NotApplied)),
        answer => answer,
    }
}

/// Repeats a request after the error of its first attempt. Box the future, because it is rare; this
/// keeps the futures of waiters small.
pub(crate) async fn retry_after<T, F>(
    mut error: Error,
    client: &Client,
    repeat: Repeat,
    mut request: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut attempts = attempts();
    loop {
        attempts.again(client, error, repeat).await?;
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(failed) => error = failed,
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
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}
