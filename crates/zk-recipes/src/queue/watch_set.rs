//! Watches on the nodes ahead of a contender, and on its own node.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::task::unconstrained;
use zk_session::{Client, Error, EventType, Stat, Watch, WatchEvent, WatchKind, Zxid};

use super::machine::{NodeChange, NodeRole};
use super::one_write;
use crate::error::LockError;
use crate::retry::{if_exists, retry, retry_if_unknown};

/// A set of watched nodes. Dropping it removes the watches.
///
/// The watches survive reconnects, and a reconnect does not count as a deletion. A lock node has no
/// children, so only its deletion fires a child watch, and a revocation request does not. `exists`
/// would leave a useless watch behind on a deleted node.
#[derive(Debug)]
pub(crate) struct WatchSet {
    client: Client,
    watched: Vec<Watched>,
}

/// A node to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) node: &'a str,
    pub(crate) role: NodeRole,
}

#[derive(Debug)]
struct Watched {
    node: String,
    role: NodeRole,
    /// `None` if it has fired for a reason that does not matter, and was not yet set again.
    watch: Option<Watch>,
    /// Of the nearest contender: fires when its data changes, in the first half of a marked release
    /// or for a revocation request. It wakes no task: the deletion decides.
    change: Option<Watch>,
}

impl WatchSet {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), watched: Vec::new() }
    }

    /// Watches these nodes and no others. Watches that are already set need no request; the missing
    /// ones are requested in one write. A node that no longer exists is not watched.
    ///
    /// `since` is the czxid of the contender's own node. So the watch on a node fires at once if another
    /// client has deleted the node and created it again under the same name. The watch on a read node
    /// that a writer ahead has created beside its own fires too, and is set again.
    pub(crate) async fn keep(
        &mut self,
        targets: &[Target<'_>],
        since: Zxid,
    ) -> Result<(), LockError> {
        self.watched.retain(|it| targets.contains(&it.target()));
        let mut missing = targets.to_vec();
        missing.retain(|target| !self.watches(target.node));
        let armed = one_write(&self.client, self.arm(&missing, since)).await?;
        self.watched.extend(armed.into_iter().flatten());
        Ok(())
    }

    /// Sets the watches on the nodes that exist.
    async fn arm(
        &self,
        targets: &[Target<'_>],
        since: Zxid,
    ) -> Result<Vec<Option<Watched>>, LockError> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let kinds = targets
            .iter()
            .flat_map(|target| target.kinds().iter().map(|kind| (target.node, *kind)));
        let kinds: Vec<_> = kinds.collect();
        // The server answers after the events of nodes that are gone. So an event counts only
        // once all watches are set, that of the own node among them.
        let set = retry_if_unknown(&self.client, || async {
            let (watches, set) = self.client.watch_nodes(&kinds, since);
            set.await.map(|()| watches)
        });
        let mut watches = set.await?.into_iter();
        let armed = targets.iter().map(|target| {
            let [watch, change] =
                [0, 1].map(|at| target.kinds().get(at).and_then(|_| watches.next()));
            self.complete(*target, since, watch, change)
        });
        try_join_all(armed).await
    }

    /// Adds the watch that has to be set with a request of its own: that on the own node, which must
    /// be the one that `since` has created.
    async fn complete(
        &self,
        target: Target<'_>,
        since: Zxid,
        mut watch: Option<Watch>,
        change: Option<Watch>,
    ) -> Result<Option<Watched>, LockError> {
        let Target { node, role } = target;
        if watch.is_none() {
            let read = self.watch_children(node).await?;
            watch = read.and_then(|(stat, watch)| (stat.czxid == since).then_some(watch));
        }
        Ok(watch.map(|watch| Watched { node: node.to_owned(), role, watch: Some(watch), change }))
    }

    pub(crate) fn watches(&self, node: &str) -> bool {
        self.watched.iter().any(|it| it.node == node)
    }

    /// Returns true if the watch of the node has fired, or if it is not watched. The information
    /// about the node is out of date then.
    pub(crate) fn is_outdated(&mut self, node: &str) -> bool {
        let Some(it) = self.watched.iter_mut().find(|it| it.node == node) else { return true };
        is_fired_or_unset(&mut it.watch)
    }

    /// Removes the watch of a node from the set and returns it.
    pub(crate) fn take(&mut self, node: &str) -> Option<Watch> {
        let index = self.watched.iter().position(|it| it.node == node)?;
        self.watched.swap_remove(index).watch
    }

    /// Waits until a node changes, and stops watching it. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<(NodeRole, NodeChange), LockError> {
        loop {
            if let Some(index) = self.watched.iter().position(|it| it.watch.is_none()) {
                // On the heap: waiters are many, and other clients rarely create children here.
                let armed = Box::pin(self.watch_children(&self.watched[index].node)).await?;
                if armed.is_none() {
                    return Ok((self.watched.swap_remove(index).role, NodeChange::Deleted));
                }
                self.watched[index].watch = armed.map(|(_, watch)| watch);
            }
            let (index, event) = poll_fn(|cx| {
                let mut watched = self.watched.iter_mut().enumerate();
                let fired = watched.find_map(|(index, it)| Some((index, it.poll(cx)?)));
                fired.map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            let event = event?;
            if let Some(change) = self.watched[index].change_by(&event) {
                return Ok((self.watched.swap_remove(index).role, change));
            }
        }
    }

    /// Watches the children of a node; returns `None` if it is gone.
    async fn watch_children(&self, node: &str) -> Result<Option<(Stat, Watch)>, LockError> {
        let set = || async {
            let (children, watch) = self.client.get_children_and_watch(node).await?;
            Ok((children.stat, watch))
        };
        Ok(if_exists(retry(&self.client, set).await)?)
    }
}

impl Target<'_> {
    /// Returns the watches that are set in one request for all nodes. That request does not check
    /// whether the client may read the nodes.
    fn kinds(&self) -> &'static [WatchKind] {
        match self.role {
            NodeRole::Nearest { has_marks: true } => &[WatchKind::Children, WatchKind::Data],
            NodeRole::Second { tells_changes: true } => &[WatchKind::Data],
            NodeRole::Nearest { has_marks: false }
            | NodeRole::Second { tells_changes: false }
            | NodeRole::Own { is_readable: true } => &[WatchKind::Children],
            NodeRole::Own { is_readable: false } => &[],
        }
    }
}

impl Watched {
    fn target(&self) -> Target<'_> {
        Target { node: &self.node, role: self.role }
    }

    /// Polls `watch`, and returns its event.
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Result<WatchEvent, Error>> {
        let Poll::Ready(event) = Pin::new(self.watch.as_mut()?).poll(cx) else { return None };
        self.watch = None;
        Some(event)
    }

    /// Returns the change that an event of `watch` reports, or `None` if it does not matter.
    fn change_by(&mut self, event: &WatchEvent) -> Option<NodeChange> {
        let is_deleted = event.event_type == EventType::NODE_DELETED;
        let change = if is_deleted { self.change.take() } else { None };
        let data = change.and_then(|watch| unconstrained(watch).now_or_never()?.ok());
        let parts = |event: &WatchEvent| (event.event_type, event.zxid);
        self.role.change(parts(event), data.as_ref().map(parts))
    }
}

/// Returns true if the watch has fired, or if there is none. A watch that has fired is dropped.
pub(super) fn is_fired_or_unset(watch: &mut Option<Watch>) -> bool {
    // Without `unconstrained`, a task that has used up its coop budget would miss an event.
    let has_fired = |armed: &mut Watch| unconstrained(armed).now_or_never().is_some();
    if watch.as_mut().is_some_and(has_fired) {
        *watch = None;
    }
    watch.is_none()
}
