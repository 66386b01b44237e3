//! The engine under every lock of the family: contenders queue as ephemeral
//! sequential children of one node, in an order that Curator shares.
//!
//! Who is next is decided on the list of children itself, see
//! [`ChildList::rank`](zk_session::ChildList::rank).
//! [`admission`] says who is in whose way.
//! [`contender`] puts a node into the queue, once, whatever happens to the
//! connection, and takes it out again; [`turn`] waits until it is first.
//! [`parents`] makes the path the queue lives in.

use std::future::poll_fn;
use std::pin::pin;

use zk_session::Client;

use crate::limits::THROTTLED_PAUSE;

pub(crate) mod admission;
pub(crate) mod contender;
pub(crate) mod kind;
pub(crate) mod name;
pub(crate) mod parents;
pub(crate) mod turn;
mod vigil;

/// True for trouble that is waited out: the request was not applied, and made again
/// it waits until there is a connection. A client at its limits is not waited out:
/// it would refuse again at once, for ever, without ever letting go of the thread; and
/// so would one that is on a read-only server.
pub(crate) fn passes(error: &zk_session::Error) -> bool {
    use zk_session::ErrorKind::{LimitReached, NotReadOnly};
    error.is_retryable() && !matches!(error.kind(), LimitReached(_) | NotReadOnly)
}

/// Lets trouble that [`passes`] pass. A server that declines, as one that throttles,
/// answers at once, and must not be asked again at once; anything else has taken its time,
/// or waits for a connection by itself.
pub(crate) async fn pause(error: &zk_session::Error) {
    if error.code().is_some() && passes(error) {
        tokio::time::sleep(THROTTLED_PAUSE).await;
    }
}

/// Whatever requests the future makes when it is polled leave in one write.
pub(crate) async fn one_write<T>(client: &Client, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _one_write = client.batch();
        future.as_mut().poll(cx)
    })
    .await
}
