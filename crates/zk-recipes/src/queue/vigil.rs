//! Watching a few nodes at once until one of them goes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use zk_session::{Client, Error, ErrorCode, EventType, NodeData, Watch};

use super::{passes, pause};
use crate::error::LockError;
use crate::planted::Planted;

/// The nodes that are watched. Dropping it forgets the watches.
///
/// Watches are set by getData and not by exists: on a node that is gone already
/// exists would leave a watch behind for nothing. They survive reconnects, and only
/// the deletion counts: not the reconnect itself, and not a change of the data, by
/// which holders are asked to let go.
#[derive(Debug)]
pub(crate) struct Vigil {
    client: Client,
    watched: Vec<(String, Watch)>,
}

impl Vigil {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), watched: Vec::new() }
    }

    /// Watches these nodes from now on, and no others. What is watched already costs
    /// nothing; the rest is asked for in one write. What is gone is not watched.
    pub(crate) async fn keep(&mut self, nodes: &[&str]) -> Result<(), LockError> {
        self.watched.retain(|(node, _)| nodes.contains(&node.as_str()));
        let missing: Vec<&str> = nodes.iter().copied().filter(|it| !self.watches(it)).collect();
        let asked: Vec<_> = {
            let _one_write = self.client.batch();
            missing.iter().map(|node| self.client.get_data_and_watch(node)).collect()
        };
        for (node, answer) in missing.into_iter().zip(asked) {
            let answer = answer.await;
            if let Some(watch) = self.settled(node, answer).await? {
                self.watched.push((node.to_owned(), watch));
            }
        }
        Ok(())
    }

    pub(crate) fn watches(&self, node: &str) -> bool {
        self.watched.iter().any(|(watched, _)| watched == node)
    }

    /// Gives the watch of a node away.
    pub(crate) fn take(&mut self, node: &str) -> Option<Watch> {
        let index = self.watched.iter().position(|(watched, _)| watched == node)?;
        Some(self.watched.swap_remove(index).1)
    }

    /// Waits until one of the nodes is gone, and watches it no more.
    pub(crate) async fn next_gone(&mut self) -> Result<(), LockError> {
        loop {
            let (index, event) = poll_fn(|cx| {
                for (index, (_, watch)) in self.watched.iter_mut().enumerate() {
                    if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
                        return Poll::Ready((index, event));
                    }
                }
                Poll::Pending
            })
            .await;
            let (node, fired) = self.watched.swap_remove(index);
            drop(fired);
            if event?.event_type == EventType::NODE_DELETED {
                return Ok(());
            }
            let answer = self.client.get_data_and_watch(&node).await;
            match self.settled(&node, answer).await? {
                Some(watch) => self.watched.push((node, watch)),
                None => return Ok(()),
            }
        }
    }

    /// The watch of an answer, asked for again while that helps; `None` if there is no
    /// such node.
    async fn settled(
        &self,
        node: &str,
        mut answer: Result<(NodeData, Watch), Error>,
    ) -> Result<Option<Watch>, LockError> {
        loop {
            match answer {
                Ok((_, watch)) => return Ok(Some(watch)),
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
                    if Planted::LostWakeUpOnNoNode.is_on() {
                        self.client.exists_and_watch(node).await?.1.await?;
                    }
                    return Ok(None);
                }
                Err(error) if passes(&error) => pause(&error).await,
                Err(error) => return Err(error.into()),
            }
            answer = self.client.get_data_and_watch(node).await;
        }
    }
}
