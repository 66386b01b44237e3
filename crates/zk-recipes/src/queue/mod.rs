//! The queue under every lock. Contenders are ephemeral sequential children of one node, in
//! Curator's order.
//!
//! The list of children decides which contender is next; see
//! [`SequenceOrder::rank`](crate::child_order::SequenceOrder::rank).
//!
//! * [`machine`] decides which contender is next. It has no IO.
//! * [`waiter`] waits until its contender is first: it carries out the steps of the machine.
//! * [`contender`] creates a node in the queue, exactly once whatever the connection does, and
//!   deletes it.
//! * [`common_id`] gives the nodes names that follow from each other.
//! * [`watch_set`] watches the nodes that matter to a waiter.
//! * [`foreign`] detects the nodes of other recipes.
//! * [`spec`] has the names and the properties of the nodes.

mod common_id;
pub(crate) mod contender;
pub(crate) mod foreign;
mod machine;
pub(crate) mod spec;
pub(crate) mod waiter;
pub(crate) mod watch_set;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use zk_session::{Children, Client, Error};

use self::common_id::CommonId;
use self::spec::QueueSpec;
use crate::retry::{if_exists, retry};

/// A queue, as seen by a client. [`Guard::acquire`](crate::Guard) of a queue is the whole plain lock, which
/// mutexes and both sides of a read-write lock use. Re-entry, local queues and tickets are around it.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) spec: Arc<QueueSpec>,
    common_id: Option<Arc<CommonId>>,
}

impl Queue {
    pub(crate) fn new(client: &Client, spec: impl Into<Arc<QueueSpec>>) -> Self {
        let spec = spec.into();
        let common_id = spec.may_have_common_id.then(|| CommonId::of(client, &spec.path));
        Self { client: client.clone(), spec, common_id }
    }

    pub(crate) fn spec_mut(&mut self) -> &mut QueueSpec {
        Arc::make_mut(&mut self.spec)
    }

    /// Returns the queue with a client that does not keep the session open.
    pub(crate) fn weak(self) -> Self {
        Self { client: self.client.weak(), ..self }
    }

    /// Returns what the session knows about the [common id](common_id), if the names may have it.
    fn common_id(&self) -> Option<&Arc<CommonId>> {
        self.common_id.as_ref().filter(|_| self.spec.may_have_common_id)
    }
}

/// Sends all requests that one poll of the future makes in one write.
pub(crate) async fn one_write<T>(client: &Client, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _one_write = client.batch();
        future.as_mut().poll(cx)
    })
    .await
}

/// Lists the children of a node; returns `None` if it does not exist.
pub(crate) async fn list(client: &Client, path: &str) -> Result<Option<Children>, Error> {
    if_exists(retry(client, || client.get_children(path)).await)
}
