//! Watching a few nodes at once until one of them goes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::task::unconstrained;
use zk_session::{Client, ErrorCode, EventType, Watch};

use super::attempts::Attempts;
use super::one_write;
use crate::error::LockError;
use crate::planted::Planted;

/// The nodes that are watched. Dropping it forgets the watches.
///
/// Watches are set by getData or getChildren and not by exists: on a node that is gone already
/// exists would leave a watch behind for nothing. They survive reconnects, and only
/// the deletion counts: not the reconnect itself, and not a change of the data, by
/// which holders are asked to let go.
#[derive(Debug)]
pub(crate) struct Vigil {
    client: Client,
    /// The contender's own node, once it is watched.
    own: Option<String>,
    /// Without a watch if it has fired, and there was no time yet for another one.
    watched: Vec<(String, Option<Watch>)>,
}

impl Vigil {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), own: None, watched: Vec::new() }
    }

    /// Watches these nodes from now on, and no others. What is watched already costs
    /// nothing; the rest is asked for in one write. What is gone is not watched.
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

    /// True if there is anything to hear of the node, or it is not watched: then what is
    /// known of it is out of date.
    pub(crate) fn has_news(&mut self, node: &str) -> bool {
        let Some((_, watch)) = self.watched.iter_mut().find(|(watched, _)| watched == node) else {
            return true;
        };
        // A task that has used up its budget would not be told of an event that is there.
        let has_fired = |armed: &mut Watch| unconstrained(armed).now_or_never().is_some();
        if watch.as_mut().is_some_and(has_fired) {
            *watch = None;
        }
        watch.is_none()
    }

    /// Gives the watch of a node away.
    pub(crate) fn take(&mut self, node: &str) -> Option<Watch> {
        let index = self.watched.iter().position(|(watched, _)| watched == node)?;
        self.watched.swap_remove(index).1
    }

    /// Waits until one of the nodes is gone, and watches it no more. Nothing is lost when
    /// the future is dropped.
    pub(crate) async fn next_gone(&mut self) -> Result<(), LockError> {
        loop {
            if let Some(index) = self.watched.iter().position(|(_, it)| it.is_none()) {
                // On the heap: there are many who wait, and hardly ever one whose data change.
                let armed = Box::pin(self.watch(&self.watched[index].0)).await?;
                if armed.is_none() {
                    self.watched.remove(index);
                    return Ok(());
                }
                self.watched[index].1 = armed;
            }
            let (index, event) = poll_fn(|cx| {
                for (index, (_, watch)) in self.watched.iter_mut().enumerate() {
                    if let Some(armed) = watch
                        && let Poll::Ready(event) = Pin::new(armed).poll(cx)
                    {
                        *watch = None;
                        return Poll::Ready((index, event));
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

    /// Watches a node; `None` if it is gone.
    async fn watch(&self, node: &str) -> Result<Option<Watch>, LockError> {
        let mut attempts = Attempts::default();
        loop {
            // The guard goes on with the watch on its own node: see `hold::deleted`.
            let set = match self.own.as_deref() == Some(node) {
                true => self.client.get_children_and_watch(node).await.map(|(_, watch)| watch),
                false => self.client.get_data_and_watch(node).await.map(|(_, watch)| watch),
            };
            match set {
                Ok(watch) => return Ok(Some(watch)),
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
                    if Planted::LostWakeUpOnNoNode.is_on() {
                        self.client.exists_and_watch(node).await?.1.await?;
                    }
                    return Ok(None);
                }
                Err(error) => attempts.again(&self.client, error).await?,
            }
        }
    }
}
