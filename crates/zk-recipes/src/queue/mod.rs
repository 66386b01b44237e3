//! The engine under every lock of the family: contenders queue as ephemeral
//! sequential children of one node, in an order that Curator shares.
//!
//! Who is next is decided on the list of children itself, see
//! [`ChildList::rank`](zk_session::ChildList::rank).
//! [`admission`] says who is in whose way.
//! [`contender`] puts a node into the queue, once, whatever happens to the
//! connection, and takes it out again; [`turn`] waits until it is first.
//! [`parents`] makes the path the queue lives in.
//! [`attempts`] decides which requests are made again, and how often.
//! [`foreign`] recognises the nodes of other recipes.

use std::future::poll_fn;
use std::pin::pin;

use zk_session::Client;

pub(crate) mod admission;
pub(crate) mod attempts;
pub(crate) mod contender;
pub(crate) mod foreign;
pub(crate) mod kind;
pub(crate) mod name;
pub(crate) mod parents;
pub(crate) mod turn;
mod vigil;

/// Whatever requests the future makes when it is polled leave in one write.
pub(crate) async fn one_write<T>(client: &Client, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _one_write = client.batch();
        future.as_mut().poll(cx)
    })
    .await
}
