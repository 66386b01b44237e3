//! Wait of a contender for its turn: carries out the steps of its [`machine`](super::machine).
//!
//! The future of a step may be dropped at any await, and the step repeated: the machine gets a result
//! only when it is final.

use std::future::pending;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::time::Instant;
use zk_session::path::file_name;
use zk_session::{Children, Client, Error, LeaseTerm, Stat};

use super::contender::Contender;
use super::foreign;
use super::machine::{Ahead, Input, Machine, NodeChange, NodeRole, Output, Step};
use super::one_write;
use super::position::QueuePosition;
use super::watch_set::{Target, WatchSet};
use crate::deadline::now;
use crate::error::LockError;
use crate::limits::LONG_WAIT_PART;
use crate::retry::{if_exists, retry};

/// A contender on its way to the head of the queue.
///
/// Thousands of them may wait: each keeps all state that lives across an await.
pub(crate) struct Waiter {
    pub(crate) contender: Contender,
    machine: Machine<String>,
    watches: WatchSet,
    /// The list from the same write as the create, if it is still valid.
    listed: Option<Box<Listed>>,
    /// Position in the queue, for callers that request it. It requires a sorted list each time.
    position: Option<QueuePosition>,
    /// The time at which the wait for the nearest contender counts as long; `None` once that
    /// contender was checked. It is no timer: a timer belongs to a runtime, and the next step may run
    /// on another one.
    long_wait: Option<Instant>,
}

/// A list of the queue, and the number of connections lost before it was requested.
struct Listed {
    children: Children,
    connections_lost: u64,
}

impl Waiter {
    pub(crate) fn new(contender: Contender) -> Self {
        Self::reporting(contender, None)
    }

    /// As [`new`](Self::new), and tracks the position in the queue.
    pub(crate) fn with_position(contender: Contender) -> Self {
        Self::reporting(contender, Some(QueuePosition::default()))
    }

    fn reporting(contender: Contender, position: Option<QueuePosition>) -> Self {
        Self {
            machine: Machine::new(position.is_some()),
            watches: WatchSet::new(&contender.client),
            contender,
            listed: None,
            position,
            long_wait: None,
        }
    }

    /// Queues, and waits until the contender is first and its session lease is valid.
    pub(crate) async fn acquire(&mut self) -> Result<LeaseTerm, LockError> {
        loop {
            // A lost connection may have hidden the deletion of the own node.
            self.handle(Input::Recheck)?;
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
        self.step().await?;
        loop {
            self.step().await?;
            if !self.is_first() {
                return Ok(None);
            }
            if let Some(term) = self.contender.bind().await? {
                return Ok(Some(term));
            }
            self.handle(Input::Recheck)?;
            self.step().await?;
        }
    }

    /// Continues until the contender is in the queue and has listed the contenders ahead.
    pub(crate) async fn settle(&mut self) -> Result<(), LockError> {
        while !matches!(self.machine.step(), Step::Watch | Step::Done) {
            self.step().await?;
        }
        Ok(())
    }

    /// Lists again, unless the contender is first, which it stays.
    pub(crate) async fn refresh(&mut self) -> Result<(), LockError> {
        self.handle(Input::Refresh)?;
        self.settle().await
    }

    /// Advances by one request or event.
    pub(crate) async fn step(&mut self) -> Result<(), LockError> {
        match self.machine.step() {
            Step::Create => self.create().await,
            Step::List { checks_path } => self.list(checks_path).await,
            Step::Watch => self.watch().await,
            Step::Confirm => {
                let connections_lost = self.contender.client.connections_lost();
                let is_watched = self.is_own_node_watched();
                self.handle(Input::OwnNode { is_watched, connections_lost })
            }
            Step::Done => Ok(()),
        }
    }

    async fn create(&mut self) -> Result<(), LockError> {
        let connections_lost = self.contender.client.connections_lost();
        let children = self.contender.enter().await?;
        self.listed = children.map(|children| Box::new(Listed { children, connections_lost }));
        self.handle(Input::Created)
    }

    async fn list(&mut self, checks_path: bool) -> Result<(), LockError> {
        let listed = match self.listed.take() {
            Some(listed) => Some(*listed),
            None => Box::pin(self.list_and_check_own_node()).await?,
        };
        let Some(Listed { children, connections_lost }) = listed else {
            return self.handle(Input::OwnNodeGone);
        };
        let spec = &self.contender.spec;
        let own = self.contender.node().map(|node| file_name(&node.path));
        let Some(rank) = own.and_then(|own| spec.rank(&children.names, own)) else {
            return self.handle(Input::NotListed);
        };
        if checks_path && rank.has_others {
            let has_leases = match spec.exclusive {
                Some(recipe) => foreign::refuse_in_queue(spec, recipe, &children.names)?,
                None => false,
            };
            if has_leases {
                // On the heap, because it is rare; this keeps the futures of waiters small.
                Box::pin(foreign::refuse_leases(&self.contender.client, &spec.path)).await?;
            }
        }
        if let Some(position) = &mut self.position {
            *position = QueuePosition::of(spec, &children.names, &rank);
        }
        let nearest = [rank.predecessor, rank.second].map(|name| name.map(|name| spec.node(name)));
        let ahead = Ahead::of(spec.admission, rank.position, nearest);
        self.handle(Input::Listed { ahead, connections_lost })
    }

    /// Lists the queue. Returns `None` if the own node is gone.
    ///
    /// A list has names only. Another client may have deleted the own node and created another one of
    /// its name, maybe after somebody else had the lock. The watch on the own node shows that, also
    /// after a reconnect: it is set again ahead of the list. Without a watch, the node is read in the
    /// same write, after the list.
    async fn list_and_check_own_node(&mut self) -> Result<Option<Listed>, LockError> {
        let is_watched = self.is_own_node_watched();
        let Contender { client, spec, .. } = &self.contender;
        let connections_lost = client.connections_lost();
        let children = match self.contender.node().filter(|_| !is_watched) {
            None => {
                let listed = list(client, &spec.path).await?;
                listed.filter(|_| self.is_own_node_watched())
            }
            Some(own) => {
                let look = || async {
                    let (listed, stat) =
                        (client.get_children(&spec.path), client.exists(&own.path));
                    Ok((listed.await?, stat.await?))
                };
                let looked = if_exists(one_write(client, retry(client, look)).await)?;
                let is_own = |stat: Option<Stat>| stat.is_some_and(|it| it.czxid == own.czxid);
                looked.and_then(|(listed, stat)| is_own(stat).then_some(listed))
            }
        };
        Ok(children.map(|children| Listed { children, connections_lost }))
    }

    /// Returns true if a watch guards the own node, and has not fired.
    fn is_own_node_watched(&mut self) -> bool {
        let own = self.contender.node();
        own.is_some_and(|own| !self.watches.is_outdated(&own.path))
            || !self.contender.is_node_outdated()
    }

    /// Watches the contenders that block this one until one of them leaves.
    async fn watch(&mut self) -> Result<(), LockError> {
        let has_marks = self.contender.client.events_have_zxids().await;
        self.handle(Input::Waits { has_marks })?;
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
        let role = NodeRole::Own { is_readable: self.contender.spec.has_default_acl() };
        let Some(own) = self.contender.node() else { return Ok(Some(role)) };
        let ahead = self.machine.targets().map(|(node, role)| Target { node, role });
        let targets: Vec<_> = ahead.chain([Target { node: &own.path, role }]).collect();
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
                Some(rest) => Box::pin(client.runtime().sleep(rest)).await,
                None => pending().await,
            }
        };
        match select(pin!(self.watches.next()), pin!(long)).await {
            Either::Left((news, _)) => news.map(Some),
            Either::Right(_) => Ok(None),
        }
    }

    /// After a long wait, reads the node of the nearest contender. The next step watches the
    /// second-nearest.
    ///
    /// The server sends no events of a node that the client may not read, and does not say so when
    /// the watches are set. The read fails then.
    async fn check_nearest(&mut self) -> Result<(), LockError> {
        self.handle(Input::WaitedLong)?;
        // If the check is cancelled, it is made after another wait.
        self.long_wait = Some(long_wait_end(&self.contender.client));
        if let Some(node) = self.machine.nearest() {
            let client = &self.contender.client;
            if if_exists(retry(client, || client.get_data(node)).await)?.is_none() {
                self.handle(Input::NearestGone)?;
            }
        }
        self.long_wait = None;
        Ok(())
    }

    /// Handles the change of a watched node.
    fn handle_change(&mut self, role: NodeRole, change: NodeChange) -> Result<(), LockError> {
        self.handle(Input::Changed(role, change))?;
        if let (Some(position), Some(holder)) = (&mut self.position, self.machine.nearest()) {
            *position = QueuePosition { ahead: 1, holder: Some(holder.clone()) };
        }
        Ok(())
    }

    /// Passes an input to the machine, and carries out its output.
    fn handle(&mut self, input: Input<String>) -> Result<(), LockError> {
        match self.machine.handle(input) {
            Output::Continue => {}
            Output::Blocked => {
                self.contender.observed.blocked();
                self.long_wait = Some(long_wait_end(&self.contender.client));
            }
            Output::ListAgain => self.contender.observed.unblocked(),
            Output::First => self.become_first(),
            Output::StartOver { is_node_gone, fails } => {
                self.start_over(is_node_gone);
                if fails {
                    return Err(LockError::NodeDeleted { path: self.contender.spec.path.clone() });
                }
            }
        }
        if self.machine.is_next() {
            self.contender.claim_lease();
        }
        Ok(())
    }

    fn become_first(&mut self) {
        self.contender.observed.unblocked();
        // This watch fires when the node is deleted, so it needs no cancellation. A contender that
        // lists again and is still first already has it.
        let own = self.contender.node().and_then(|own| self.watches.take(&own.path));
        if let Some(own) = own {
            self.contender.keep_watch(own);
        }
        if self.machine.marks_release() {
            self.contender.mark_release();
        }
        if let Some(position) = &mut self.position {
            *position = QueuePosition::default();
        }
    }

    /// Leaves the queue, to queue again under another name. A node of the old name that is gone may
    /// be another client's by now, and is not deleted.
    fn start_over(&mut self, is_node_gone: bool) {
        if is_node_gone {
            self.contender.forget_node();
        }
        self.watches = WatchSet::new(&self.contender.client);
        self.contender.restart();
        self.contender.observed.restarted();
    }

    pub(crate) fn is_first(&self) -> bool {
        self.machine.is_first()
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
