//! Watches on the nodes ahead of a contender, and on its own node.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::task::unconstrained;
use zk_session::{Client, Error, EventType, OpCode, Stat, Watch, WatchEvent, WatchKind, Zxid};

use super::machine::{NodeChange, NodeRole};
use super::one_write;
use crate::error::LockError;
use crate::retry::{if_exists, retry, retry_if_unknown};

/// A set of watched nodes. Dropping it removes the watches.
///
/// The watches survive reconnects, and a reconnect does not count as a deletion. A lock node has no
/// children, so only its deletion fires a child watch, and a revocation request does not. `exists`
/// would leave a useless watch behind on a deleted node.
#[derive(Debug, Default)]
pub(crate) struct WatchSet {
    watched: Vec<Watched>,
    /// The transaction that has created the contender's own node.
    since: Zxid,
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
    /// Watches these nodes and no others. Watches that are already set need no request; the missing
    /// ones are requested in one write. A node that no longer exists is not watched.
    ///
    /// `since` is the czxid of the contender's own node. So the watch on a node fires at once if another
    /// client has deleted the node and created it again under the same name. The watch on a read node
    /// that a writer ahead has created beside its own fires too, and is set again.
    pub(crate) async fn keep(
        &mut self,
        client: &Client,
        targets: &[Target<'_>],
        since: Zxid,
    ) -> Result<(), LockError> {
        self.since = since;
        self.watched.retain(|watched| targets.contains(&watched.target()));
        let mut missing = targets.to_vec();
        missing.retain(|target| !self.watches(target.node));
        if !missing.is_empty() {
            let armed = one_write(client, arm(client, &missing, since)).await?;
            self.watched.extend(armed.into_iter().flatten());
        }
        Ok(())
    }

    pub(crate) fn watches(&self, node: &str) -> bool {
        self.watched.iter().any(|watched| watched.node == node)
    }

    /// Returns true if the node is watched, and the watch has not fired.
    pub(crate) fn is_set(&mut self, node: &str) -> bool {
        let mut watched = self.watched.iter_mut();
        watched.any(|watched| watched.node == node && is_set(&mut watched.watch))
    }

    /// Removes the watch of a node from the set and returns it.
    pub(crate) fn take(&mut self, node: &str) -> Option<Watch> {
        let index = self.watched.iter().position(|watched| watched.node == node)?;
        self.watched.swap_remove(index).watch
    }

    /// Waits until a node changes, and stops watching it. Dropping the future loses nothing.
    pub(crate) async fn next(
        &mut self,
        client: &Client,
    ) -> Result<(NodeRole, NodeChange), LockError> {
        loop {
            if let Some(index) = self.watched.iter().position(|watched| watched.watch.is_none()) {
                // On the heap: waiters are many, and other clients rarely create children here.
                let Watched { node, role, .. } = &self.watched[index];
                let armed = Box::pin(watch_children(client, node)).await?;
                let is_own = matches!(role, NodeRole::Own { .. });
                if armed.as_ref().is_none_or(|(stat, _)| is_own && stat.czxid != self.since) {
                    return Ok((self.watched.swap_remove(index).role, NodeChange::Deleted));
                }
                self.watched[index].watch = armed.map(|(_, watch)| watch);
            }
            let (index, event) = poll_fn(|cx| {
                let mut watched = self.watched.iter_mut().enumerate();
                let fired = watched.find_map(|(index, watched)| Some((index, watched.poll(cx)?)));
                fired.map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            let event = event?;
            if let Some(change) = self.watched[index].change_by(&event) {
                return Ok((self.watched.swap_remove(index).role, change));
            }
        }
    }
}

/// Sets the watches on the nodes that exist.
async fn arm(
    client: &Client,
    targets: &[Target<'_>],
    since: Zxid,
) -> Result<Vec<Option<Watched>>, LockError> {
    let at_once = client.supports(OpCode::SetWatches);
    let kinds_of = |target: &Target<'_>| if at_once { target.kinds() } else { &[] };
    let kinds =
        targets.iter().flat_map(|target| kinds_of(target).iter().map(|kind| (target.node, *kind)));
    let kinds: Vec<_> = kinds.collect();
    // The server answers after the events of nodes that are gone. So an event counts only
    // once all watches are set, that of the own node among them.
    let set = retry_if_unknown(client, || async {
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let (watches, set) = client.watch_nodes(&kinds, since);
        set.await.map(|()| watches)
    });
    let mut watches = set.await?.into_iter();
    let armed = targets.iter().map(|target| {
        let [watch, change] =
            [0, 1].map(|at| kinds_of(target).get(at).and_then(|_| watches.next()));
        complete(client, *target, since, watch, change)
    });
    try_join_all(armed).await
}

/// Adds the watch that has to be set with a request of its own: that on the own node, which must be the one
/// that `since` has created, and all of them at a server without `setWatches`. A newer node of a contender's
/// name is not that contender's.
async fn complete(
    client: &Client,
    target: Target<'_>,
    since: Zxid,
    mut watch: Option<Watch>,
    change: Option<Watch>,
) -> Result<Option<Watched>, LockError> {
    let Target { node, role } = target;
    if watch.is_none() {
        let read = watch_children(client, node).await?;
        watch = read.and_then(|(stat, watch)| (stat.czxid <= since).then_some(watch));
    }
    Ok(watch.map(|watch| Watched { node: node.to_owned(), role, watch: Some(watch), change }))
}

/// Watches the children of a node; returns `None` if it is gone.
async fn watch_children(client: &Client, node: &str) -> Result<Option<(Stat, Watch)>, LockError> {
    let set = || async {
        let (children, watch) = client.get_children_and_watch(node).await?;
        Ok((children.stat, watch))
    };
    Ok(if_exists(retry(client, set).await)?)
}

impl Target<'_> {
    /// Returns the watches that are set in one request for all nodes. That request does not check
    /// whether the client may read the nodes.
    fn kinds(&self) -> &'static [WatchKind] {
        match self.role {
            NodeRole::Nearest { has_marks: true } => &[WatchKind::Children, WatchKind::Data],
            NodeRole::Second => &[WatchKind::Data],
            NodeRole::Nearest { has_marks: false } | NodeRole::Own { is_readable: true } => {
                &[WatchKind::Children]
            }
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

/// Returns true if there is a watch, and it has not fired. A watch that has fired is dropped.
pub(crate) fn is_set(watch: &mut Option<Watch>) -> bool {
    // Without `unconstrained`, a task that has used up its coop budget would miss an event.
    let has_fired = |armed: &mut Watch| unconstrained(armed).now_or_never().is_some();
    if watch.as_mut().is_some_and(has_fired) {
        *watch = None;
    }
    watch.is_some()
}
