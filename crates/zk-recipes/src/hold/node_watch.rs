//! The watch on the node of a hold.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use zk_session::{Client, DelayedStart, EventType, Watch};

use super::Hold;
use crate::limits::{THROTTLED_PAUSE, UNWATCHED_PAUSE};
use crate::queue::contender::{Node, is_final, is_unwatchable};
use crate::retry::retry;

impl Hold {
    /// Spawns the task that ends the hold when the node is deleted.
    pub(super) fn spawn_watch(self: &Arc<Self>, armed: Option<Watch>) {
        let (client, node, hold) =
            (self.queue.client.clone(), self.node.clone(), Arc::downgrade(self));
        let task = self.queue.client.runtime().spawn(async move {
            deleted(client, &node, armed).await;
            if let Some(hold) = hold.upgrade() {
                hold.found_deleted();
            }
        });
        if let Some(task) = task {
            let task = self.node_watch.get_or_init(|| task);
            if !self.is_open() {
                task.abort(); // the hold has ended before this task could be seen
            }
        }
    }
}

impl DelayedStart for Hold {
    fn start(self: Arc<Self>) {
        // A future that waits for the end may have kept a hold that was released.
        if self.is_open() {
            self.spawn_watch(None);
        }
    }
}

/// Waits until the node is deleted. Starts with `armed`, a watch that is already set. It waits
/// through all connection problems, which are reported elsewhere.
///
/// The watch is a child watch. A lock node has no children, and a data watch would have to be set
/// again after each revocation request.
pub(crate) async fn deleted(client: Client, node: &Node, mut armed: Option<Watch>) {
    // No caller waits for these replies, so the handle's request timeout does not apply.
    let client = client.with_timeout(Duration::MAX);
    loop {
        let set = match armed.take() {
            Some(watch) => Ok(Some(watch)),
            None => retry(&client, || node.watch(&client)).await,
        };
        let fired = match set {
            Ok(Some(watch)) => watch.await,
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match fired {
            Ok(event) if event.event_type == EventType::NODE_DELETED => return,
            // Another client has created the node again, or another waiter of this session has set
            // its watch on the node from an earlier transaction on. The next watch tells which.
            Ok(_) => {}
            Err(error) if is_final(&error) => pending().await,
            // Without a watch the guard would miss the deletion, so it polls the node.
            Err(error) if is_unwatchable(&error) => client.runtime().sleep(UNWATCHED_PAUSE).await,
            Err(_) => client.runtime().sleep(THROTTLED_PAUSE).await,
        }
    }
}
