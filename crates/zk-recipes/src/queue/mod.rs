//! The queue under every lock. Contenders are ephemeral sequential children of one node, in
//! Curator's order.
//!
//! The list of children decides which contender is next; see
//! [`SequenceOrder::rank`](crate::child_order::SequenceOrder::rank).
//!
//! * [`machine`] decides which contender is next, with the rule of its [`admission`].
//! * [`contender`] creates a node in the queue, exactly once whatever the connection does, and
//!   deletes it.
//! * [`waiter`] waits until the contender is first: it carries out the steps of the machine.
//! * [`foreign`] detects the nodes of other recipes.

use std::future::poll_fn;
use std::pin::pin;

use zk_session::Client;

pub(crate) mod admission;
pub(crate) mod contender;
pub(crate) mod foreign;
mod machine;
pub(crate) mod name;
pub(crate) mod position;
pub(crate) mod spec;
pub(crate) mod waiter;
mod watch_set;

/// Sends all requests that one poll of the future makes in one write.
pub(crate) async fn one_write<T>(client: &Client, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _one_write = client.batch();
        future.as_mut().poll(cx)
    })
    .await
}
