//! Watches on a few nodes at once, until one of the nodes is deleted.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::task::unconstrained;
use zk_session::{Client, EventType, Watch};

use super::one_write;
use crate::error::LockError;
use crate::retry::{if_exists, retry};

/// A set of watched nodes. Dropping it removes the watches.
///
/// The watches are set by getData or getChildren, not by exists: on a deleted node, exists would
/// leave a useless watch behind. They survive reconnects. Only the deletion of a node counts. A
/// reconnect does not, and a change of the data does not: it is a revocation request for a holder.
#[derive(Debug)]
pub(crate) struct WatchSet {
    client: Client,
    /// The contender's own node, once it is watched.
    own: Option<String>,
    /// The watched nodes. A node has no watch if its watch has fired and was not yet set again.
    watched: Vec<(String, Option<Watch>)>,
}

impl WatchSet {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), own: None, watched: Vec::new() }
    }

    /// Watches these nodes and no others. Watches that are already set need no request; the missing
    /// ones are requested in one write. Nodes that no longer exist are not watched.
    pub(crate) async fn keep<'a>(
        &mut self,
        ahead: impl Iterator<Item = &'a str>,
        own: Option<&'a str>,
    ) -> Result<(), LockError> {
        self.own = own.map(str::to_owned);
        let mut missing: Vec<&str> = ahead.chain(own).collect();
        self.watched.retain(|(node, _)| missing.contains(&node.as_str()));
        missing.retain(|node| !self.watches(node));
        let asked = try_join_all(missing.iter().map(|node| self.watch(node)));
        let watches = one_write(&self.client, asked).await?;
        let watched = missing.into_iter().zip(watches);
        self.watched
            .extend(watched.filter_map(|(node, watch)| Some((node.to_owned(), Some(watch?)))));
        Ok(())
    }

    pub(crate) fn watches(&self, node: &str) -> bool {
        self.watched.iter().any(|(watched, _)| watched == node)
    }

    /// Returns true if the watch of the node has fired, or if it is not watched. The information
    /// about the node is out of date then.
    pub(crate) fn has_news(&mut self, node: &str) -> bool {
        let Some((_, watch)) = self.watched.iter_mut().find(|(watched, _)| watched == node) else {
            return true;
        };
        has_news(watch)
    }

    /// Removes the watch of a node from the set and returns it.
    pub(crate) fn take(&mut self, node: &str) -> Option<Watch> {
        let index = self.watched.iter().position(|(watched, _)| watched == node)?;
        self.watched.swap_remove(index).1
    }

    /// Waits until one of the nodes is deleted, and stops watching it. Dropping the future loses
    /// nothing.
    pub(crate) async fn next_gone(&mut self) -> Result<(), LockError> {
        loop {
            if let Some(index) = self.watched.iter().position(|(_, it)| it.is_none()) {
                // On the heap: waiters are many, and changes of their predecessors' data are rare.
                let armed = Box::pin(self.watch(&self.watched[index].0)).await?;
                if armed.is_none() {
                    self.watched.remove(index);
                    return Ok(());
                }
                self.watched[index].1 = armed;
            }
            let (index, event) = poll_fn(|cx| {
                for (index, (_, watch)) in self.watched.iter_mut().enumerate() {
                    if let Some(armed) = watch {
                        if let Poll::Ready(event) = Pin::new(armed).poll(cx) {
                            *watch = None;
                            return Poll::Ready((index, event));
                        }
                    }
                }
                Poll::Pending
            })
            .await;
            if event?.event_type == EventType::NODE_DELETED {
                self.watched.swap_remove(index);
                return Ok(());
            }
        }
    }

    /// Watches a node; returns `None` if it is gone.
    async fn watch(&self, node: &str) -> Result<Option<Watch>, LockError> {
        // The guard takes over the watch on its own node: see `holding::deleted`.
        let is_own = self.own.as_deref() == Some(node);
        let set = retry(&self.client, || async {
            Ok(match is_own {
                true => self.client.get_children_and_watch(node).await?.1,
                false => self.client.get_data_and_watch(node).await?.1,
            })
        });
        Ok(if_exists(set.await)?)
    }
}

/// Returns true if the watch has fired, or if there is none. A watch that has fired is dropped.
pub(super) fn has_news(watch: &mut Option<Watch>) -> bool {
    // Without `unconstrained`, a task that has used up its coop budget would miss an event.
    let has_fired = |armed: &mut Watch| unconstrained(armed).now_or_never().is_some();
    if watch.as_mut().is_some_and(has_fired) {
        *watch = None;
    }
    watch.is_none()
}
