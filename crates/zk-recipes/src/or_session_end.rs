//! The end of a session, for waits that send no request.

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, FutureExt, select};
use zk_session::{Client, Error};

/// Waits for a future, or until the session ends.
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
