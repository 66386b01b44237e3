//! Wait of a contender for its turn.
//!
//! A contender watches its own node and the nearest contender ahead. It acquires the lock by events
//! alone in two cases:
//!
//! * The contender ahead was first and has [marked](Contender::mark_release) its release: one
//!   transaction has changed and deleted its node. Events show that since 3.9.0 (ZOOKEEPER-4655).
//! * The names of all contenders ahead are known, two at most, and all of them have left. No
//!   contender can be placed ahead of a contender for a mutex.
//!
//! Otherwise it lists again when the contender ahead leaves. On servers before 3.9.0 it also watches
//! the second-nearest contender, and lists when that one leaves. In a moving queue that happens
//! while its predecessor holds the lock. docs/marked-release.md of the repository says what a mark
//! proves.
//!
//! The watch on the own node detects its deletion by another client without a list. Events arrive
//! in the order of the transactions. If the last predecessor's node is deleted and the own watch
//! has not fired, the own node existed at that time. This does not hold for events that were missed
//! during a disconnect: after a reconnect the contender lists once more.
//!
//! The future of a step may be dropped at any await, and the step repeated: a step stores a result
//! only when it is final.

use std::future::pending;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::time::Instant;
use zk_session::path::file_name;
use zk_session::{Children, Client, Error, LeaseTerm, Stat};

use super::blockers::Blockers;
use super::contender::Contender;
use super::foreign;
use super::one_write;
use super::position::QueuePosition;
use super::watch_set::{NodeChange, NodeRole, Target, WatchSet};
use crate::deadline::now;
use crate::error::LockError;
use crate::limits::{LONG_WAIT_PART, RESTARTS_MAX};
use crate::retry::{if_exists, retry};

/// A contender on its way to the head of the queue.
///
/// Thousands of them may wait: each keeps all state that lives across an await.
pub(crate) struct Waiter {
    pub(crate) contender: Contender,
    watches: WatchSet,
    stage: Stage,
    /// Number of connections lost before the last list of the queue.
    connections_lost: u64,
    restarts: usize,
    /// True once the queue has been checked for nodes of other recipes.
    is_path_checked: bool,
    /// Position in the queue, for callers that request it. It requires a sorted list each time.
    position: Option<QueuePosition>,
    /// The servers let a waiter distinguish a marked release. Known once it has waited.
    has_marks: bool,
    /// It has waited for [`LONG_WAIT_PART`] of the session timeout.
    waits_long: bool,
    /// The end of that time, for the nearest contender ahead; `None` once that contender was checked.
    /// It is no timer: a timer belongs to a runtime, and the next step may run on another one.
    long_wait: Option<Instant>,
}

#[derive(Debug)]
enum Stage {
    /// Not in the queue, as far as is established.
    NotQueued,
    /// In the queue, with the list from the same write as the create, if it is still valid.
    Queued(Option<Box<Children>>),
    Blocked(Blockers),
    First,
}

impl Waiter {
    pub(crate) fn new(contender: Contender) -> Self {
        let watches = WatchSet::new(&contender.client);
        let connections_lost = contender.client.connections_lost();
        Self {
            contender,
            watches,
            stage: Stage::NotQueued,
            connections_lost,
            restarts: 0,
            is_path_checked: false,
            position: None,
            has_marks: false,
            waits_long: false,
            long_wait: None,
        }
    }

    /// As [`new`](Self::new), and tracks the position in the queue.
    pub(crate) fn with_position(contender: Contender) -> Self {
        Self { position: Some(QueuePosition::default()), ..Self::new(contender) }
    }

    /// Queues, and waits until the contender is first and its session lease is valid.
    pub(crate) async fn acquire(&mut self) -> Result<LeaseTerm, LockError> {
        loop {
            self.revalidate();
            while !self.is_first() {
                self.step().await?;
            }
            if let Some(term) = self.contender.bind().await? {
                return Ok(term);
            }
        }
    }

    /// Queues and lists; returns `None` if another contender blocks this one. It lists again when
    /// the lease had to be renewed.
    pub(crate) async fn try_acquire(&mut self) -> Result<Option<LeaseTerm>, LockError> {
        self.enter().await?;
        loop {
            self.step().await?;
            if !self.is_first() {
                return Ok(None);
            }
            if let Some(term) = self.contender.bind().await? {
                return Ok(Some(term));
            }
            self.revalidate();
        }
    }

    /// Continues until the contender is in the queue and has listed the contenders ahead.
    pub(crate) async fn settle(&mut self) -> Result<(), LockError> {
        while matches!(self.stage, Stage::NotQueued | Stage::Queued(_)) {
            self.step().await?;
        }
        Ok(())
    }

    /// Lists again, unless the contender is first, which it stays.
    pub(crate) async fn refresh(&mut self) -> Result<(), LockError> {
        if let Stage::Blocked(_) = self.stage {
            self.stage = Stage::Queued(None);
        }
        self.revalidate();
        self.settle().await
    }

    /// Lists the queue again if the own node may have been deleted since the contender became
    /// first. A lost connection may have hidden the event. Otherwise the watch on the own node is
    /// conclusive, if there is one.
    fn revalidate(&mut self) {
        let has_disconnected = self.connections_lost != self.contender.client.connections_lost();
        if self.is_first() && (has_disconnected || self.contender.is_node_outdated()) {
            self.stage = Stage::Queued(None);
        }
    }

    /// Advances by one request or event.
    pub(crate) async fn step(&mut self) -> Result<(), LockError> {
        match &mut self.stage {
            Stage::NotQueued => self.enter().await,
            Stage::Queued(listed) => {
                let listed = listed.take();
                self.list(listed).await
            }
            Stage::Blocked(_) => self.watch().await,
            Stage::First => Ok(()),
        }
    }

    async fn enter(&mut self) -> Result<(), LockError> {
        self.connections_lost = self.contender.client.connections_lost();
        let listed = self.contender.enter().await?;
        self.stage = Stage::Queued(listed.map(Box::new));
        Ok(())
    }

    async fn list(&mut self, listed: Option<Box<Children>>) -> Result<(), LockError> {
        let listed = match listed {
            Some(children) => Some(*children),
            None => Box::pin(self.list_and_check_own_node()).await?,
        };
        let Some(children) = listed else { return self.start_over_without_node() };
        let own = self.contender.node().map(|node| file_name(&node.path));
        let Some(own) = own else { return self.start_over() };
        let spec = &self.contender.spec;
        let Some(rank) = spec.rank(&children.names, own) else { return self.start_over() };
        if !self.is_path_checked && rank.has_others {
            let has_leases = match spec.exclusive {
                Some(recipe) => foreign::refuse_in_queue(spec, recipe, &children.names)?,
                None => false,
            };
            if has_leases {
                // On the heap, because it is rare; this keeps the futures of waiters small.
                Box::pin(foreign::refuse_leases(&self.contender.client, &spec.path)).await?;
            }
        }
        self.is_path_checked = true;
        if let Some(position) = &mut self.position {
            *position = QueuePosition::of(spec, &children.names, &rank);
        }
        if rank.position == 0 {
            self.become_first();
        } else {
            self.stage = Stage::Blocked(Blockers::of(spec, &rank));
            // It is first once the nearest contender leaves, unless another one is placed ahead.
            if rank.position == 1 {
                self.contender.claim_lease();
            }
            self.contender.observed.blocked();
            self.long_wait = Some(long_wait_end(&self.contender.client));
        }
        Ok(())
    }

    /// Lists the queue. Returns `None` if the own node is gone.
    ///
    /// A list has names only. Another client may have deleted the own node and created another one of
    /// its name, maybe after somebody else had the lock. The watch on the own node shows that, also
    /// after a reconnect: it is set again ahead of the list. Without a watch, the node is read in the
    /// same write, after the list.
    async fn list_and_check_own_node(&mut self) -> Result<Option<Children>, LockError> {
        let is_watched = self.is_own_node_watched();
        let Contender { client, spec, .. } = &self.contender;
        self.connections_lost = client.connections_lost();
        match self.contender.node().filter(|_| !is_watched) {
            None => {
                let listed = list(client, &spec.path).await?;
                Ok(listed.filter(|_| self.is_own_node_watched()))
            }
            Some(own) => {
                let look = || async {
                    let (listed, stat) =
                        (client.get_children(&spec.path), client.exists(&own.path));
                    Ok((listed.await?, stat.await?))
                };
                let looked = if_exists(one_write(client, retry(client, look)).await)?;
                let is_own = |stat: Option<Stat>| stat.is_some_and(|it| it.czxid == own.czxid);
                Ok(looked.and_then(|(listed, stat)| is_own(stat).then_some(listed)))
            }
        }
    }

    /// Returns true if a watch guards the own node, and has not fired.
    fn is_own_node_watched(&mut self) -> bool {
        let own = self.contender.node();
        own.is_some_and(|own| !self.watches.is_outdated(&own.path))
            || !self.contender.is_node_outdated()
    }

    /// Watches the contenders that block this one until one of them leaves.
    async fn watch(&mut self) -> Result<(), LockError> {
        self.has_marks = self.contender.client.events_have_zxids().await;
        if let Some(missing) = self.set_watches().await? {
            return self.handle_change(missing, NodeChange::Deleted);
        }
        match self.next_change().await? {
            Some((role, change)) => self.handle_change(role, change),
            None => self.check_nearest().await,
        }
    }

    /// Watches the nearest contenders ahead and the own node. Returns one of them that is gone.
    async fn set_watches(&mut self) -> Result<Option<NodeRole>, LockError> {
        let Stage::Blocked(ahead) = &self.stage else { return Ok(None) };
        let role = NodeRole::Nearest { has_marks: self.has_marks };
        let nearest = ahead.nearest.as_ref().map(|node| Target { node, role });
        let looks_ahead = !self.has_marks || self.waits_long || self.position.is_some();
        let second = ahead.second.as_ref().filter(|_| looks_ahead);
        // A change does not move a waiter that tracks its position.
        let role = NodeRole::Second { tells_changes: self.position.is_none() };
        let second = second.map(|node| Target { node, role });
        let role = NodeRole::Own { is_readable: self.contender.spec.has_default_acl() };
        let Some(own) = self.contender.node() else { return Ok(Some(role)) };
        let targets = [nearest, second, Some(Target { node: &own.path, role })];
        let targets: Vec<_> = targets.into_iter().flatten().collect();
        self.watches.keep(&targets, own.czxid).await?;
        let missing = targets.iter().find(|target| !self.watches.watches(target.node));
        Ok(missing.map(|target| target.role))
    }

    /// Waits until a watch fires, and returns what happened to its node. Returns `None` after a long
    /// wait.
    async fn next_change(&mut self) -> Result<Option<(NodeRole, NodeChange)>, LockError> {
        let client = &self.contender.client;
        let rest = self.long_wait.map(|end| end.saturating_duration_since(now()));
        let long = async {
            match rest {
                Some(rest) => Box::pin(client.sleep(rest)).await,
                None => pending().await,
            }
        };
        match select(pin!(self.watches.next()), pin!(long)).await {
            Either::Left((news, _)) => news.map(Some),
            Either::Right(_) => {
                // If the check is cancelled, it is made after another wait.
                (self.waits_long, self.long_wait) = (true, Some(long_wait_end(client)));
                Ok(None)
            }
        }
    }

    /// After a long wait, reads the node of the nearest contender, and watches the second-nearest.
    ///
    /// The server sends no events of a node that the client may not read, and does not say so when
    /// the watches are set. The read fails then.
    async fn check_nearest(&mut self) -> Result<(), LockError> {
        if let Stage::Blocked(Blockers { nearest: Some(node), .. }) = &self.stage {
            let client = &self.contender.client;
            if if_exists(retry(client, || client.get_data(node)).await)?.is_none() {
                self.list_again();
            }
        }
        self.long_wait = None;
        Ok(())
    }

    /// Handles the change of a watched node.
    fn handle_change(&mut self, role: NodeRole, change: NodeChange) -> Result<(), LockError> {
        let Stage::Blocked(ahead) = &mut self.stage else { return Ok(()) };
        match (role, change) {
            (NodeRole::Own { .. }, NodeChange::Deleted) => return self.start_over_without_node(),
            // It was first.
            (NodeRole::Nearest { .. }, NodeChange::Released) => {
                (ahead.nearest, ahead.second) = (None, None)
            }
            (NodeRole::Nearest { .. }, NodeChange::Deleted) if ahead.at_most_two_ahead => {
                ahead.nearest = ahead.second.take();
                self.long_wait = Some(long_wait_end(&self.contender.client));
            }
            (NodeRole::Second { .. }, NodeChange::Deleted) if ahead.at_most_two_ahead => {
                ahead.second = None
            }
            // Most likely it was first and has released the lock, so that this waiter is next. If it
            // was asked to release and stays, this claims the lease too early, which does no harm.
            (NodeRole::Second { .. }, NodeChange::Changed) => {
                (ahead.second, ahead.at_most_two_ahead) = (None, false);
            }
            _ => {
                self.list_again();
                return Ok(());
            }
        }
        if let Some(holder) = &ahead.nearest {
            self.contender.claim_lease();
            if let Some(position) = &mut self.position {
                *position = QueuePosition { ahead: 1, holder: Some(holder.clone()) };
            }
        } else if self.is_stale() {
            self.list_again();
        } else {
            self.become_first();
        }
        Ok(())
    }

    /// Lists the queue with the next step, because no contender may block this one any longer.
    fn list_again(&mut self) {
        self.contender.observed.unblocked();
        self.stage = Stage::Queued(None);
    }

    /// Returns true if the own node may be deleted. Events are handled one by one, and that of the
    /// own node may be queued too, since one transaction may delete several nodes. It may also
    /// arrive later: events that were missed during a disconnect have no order.
    fn is_stale(&mut self) -> bool {
        let own = self.contender.node();
        own.is_none_or(|own| self.watches.is_outdated(&own.path))
            || self.connections_lost != self.contender.client.connections_lost()
    }

    fn become_first(&mut self) {
        self.contender.observed.unblocked();
        // This watch fires when the node is deleted, so it needs no cancellation. A contender that
        // lists again and is still first already has it.
        let own = self.contender.node().and_then(|own| self.watches.take(&own.path));
        if let Some(own) = own {
            self.contender.keep_watch(own);
        }
        if self.has_marks {
            self.contender.mark_release();
        }
        if let Some(position) = &mut self.position {
            *position = QueuePosition::default();
        }
        self.stage = Stage::First;
    }

    /// Queues again, because the own node is gone. Another client's node of its name is not deleted.
    fn start_over_without_node(&mut self) -> Result<(), LockError> {
        self.contender.forget_node();
        self.start_over()
    }

    /// Queues again, because the own node is not in the list.
    fn start_over(&mut self) -> Result<(), LockError> {
        self.restarts += 1;
        self.is_path_checked = false;
        self.stage = Stage::NotQueued;
        self.watches = WatchSet::new(&self.contender.client);
        self.contender.restart();
        self.contender.observed.restarted();
        match self.restarts < RESTARTS_MAX {
            true => Ok(()),
            false => Err(LockError::NodeDeleted { path: self.contender.spec.path.clone() }),
        }
    }

    pub(crate) fn is_first(&self) -> bool {
        matches!(self.stage, Stage::First)
    }

    pub(crate) fn position(&self) -> Option<&QueuePosition> {
        self.position.as_ref()
    }
}

/// Returns the time at which a wait that begins now counts as long.
fn long_wait_end(client: &Client) -> Instant {
    now() + LONG_WAIT_PART.of(client.session_timeout())
}

/// Lists the children of a node; returns `None` if it does not exist.
pub(crate) async fn list(client: &Client, path: &str) -> Result<Option<Children>, Error> {
    if_exists(retry(client, || client.get_children(path)).await)
}
