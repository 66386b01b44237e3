//! Wait of a contender for its turn: carries out the steps of its [`machine`](super::machine).
//!
//! The future of a step may be dropped at any await, and the step repeated: the machine gets a result
//! only when it is final.

use std::future::pending;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::time::Instant;
use zk_session::path::file_name;
use zk_session::{Children, Client, Error, LeaseTerm, SessionLease, Stat, Watch, Zxid};

use super::common_id::{guess, may_be_first};
use super::contender::{Contender, Granted, Look, Seen};
use super::foreign;
use super::machine::{Ahead, Input, Machine, NodeChange, NodeRole, Output, Step};
use super::watch_set::{Target, WatchSet, is_set};
use super::{Queue, list, one_write};
use crate::deadline::now;
use crate::error::LockError;
use crate::limits::LONG_WAIT_PART;
use crate::observe::AcquireObserver;
use crate::retry::{if_exists, retry, retry_if_unknown};

/// A contender on its way to the head of the queue. Dropping it leaves the queue.
///
/// Thousands of them may wait: each keeps all state that lives across an await.
pub(crate) struct Waiter {
    pub(crate) contender: Contender,
    machine: Machine<String>,
    /// `None` until it waits.
    watches: Option<WatchSet>,
    /// The watch on the own node, once the contender is first.
    own_watch: Option<Watch>,
    /// Lists the queue also if the name ahead is known.
    wants_list: bool,
    /// The path has a node `leases`, which may become a semaphore's. The next contender is to see it too, so
    /// the release has no mark.
    is_beside_leases: bool,
    /// The czxid of the queue's node.
    parent: Zxid,
    /// The list from the same write as the create, until it is evaluated.
    listed: Option<Box<Listed>>,
    /// The time at which the wait for the nearest contender counts as long; `None` once that
    /// contender was checked. It is no timer: a timer belongs to a runtime, and the next step may run
    /// on another one.
    long_wait: Option<Instant>,
    /// Claimed once the contender is next. Until then nothing depends on the lease, and renewing it
    /// would cost the ensemble writes for each waiter.
    lease: Option<SessionLease>,
    pub(crate) observed: Option<Box<AcquireObserver>>,
}

/// A list of the queue that has a node of the own name.
struct Listed {
    children: Children,
    /// That node is known to be the own one.
    is_own: bool,
    /// Number of connections lost before the list was requested.
    connections_lost: u64,
}

impl Waiter {
    /// Returns a contender that has not yet queued.
    pub(crate) fn new(queue: &Queue) -> Self {
        Self::observed_by(queue, queue.spec.observe())
    }

    pub(crate) fn observed_by(queue: &Queue, observed: Option<Box<AcquireObserver>>) -> Self {
        Self {
            contender: Contender::new(queue),
            machine: Machine::new(),
            watches: None,
            own_watch: None,
            wants_list: false,
            is_beside_leases: false,
            parent: Zxid(0),
            listed: None,
            long_wait: None,
            lease: None,
            observed,
        }
    }

    /// Queues, and waits until the contender is first and its session lease is valid.
    ///
    /// # Cancel safety
    /// The next call continues.
    pub(crate) async fn acquire(&mut self) -> Result<Granted, LockError> {
        let term = self.reach_head().await?;
        self.take_grant(term)
    }

    /// As [`acquire`](Self::acquire), and keeps the node.
    pub(crate) async fn reach_head(&mut self) -> Result<LeaseTerm, LockError> {
        loop {
            // No effect on a new contender. A ticket, or the position of a cancelled task, may have been
            // first for any time, and a lost connection may have hidden the deletion of its node.
            self.recheck()?;
            while !self.is_first() {
                self.step().await?;
            }
            if let Some(term) = self.bind().await? {
                return Ok(term);
            }
        }
    }

    /// Queues and lists; returns `None` if another contender blocks this one.
    pub(crate) async fn try_acquire(&mut self) -> Result<Option<Granted>, LockError> {
        loop {
            self.settle().await?;
            if !self.is_first() {
                return Ok(None);
            }
            if let Some(term) = self.bind().await? {
                return self.take_grant(term).map(Some);
            }
            self.recheck()?;
        }
    }

    /// Continues until the contender is in the queue and has listed the contenders ahead.
    pub(crate) async fn settle(&mut self) -> Result<(), LockError> {
        self.wants_list = true;
        while !matches!(self.machine.step(), Step::Watch | Step::Done) {
            self.step().await?;
        }
        Ok(())
    }

    /// Reports that a list of the caller does not have the own node.
    pub(crate) fn not_listed(&mut self) -> Result<(), LockError> {
        self.handle(Input::NotListed)
    }

    /// Reports that a contender has left, which the waiter may not watch.
    pub(crate) fn left(&mut self, node: String) -> Result<(), LockError> {
        self.handle(Input::Left(node))
    }

    /// Checks the own node again, if the contender is first.
    pub(crate) fn recheck(&mut self) -> Result<(), LockError> {
        self.handle(Input::Recheck)
    }

    pub(crate) fn is_first(&self) -> bool {
        matches!(self.machine.step(), Step::Done)
    }

    /// Advances by one request or event.
    pub(crate) async fn step(&mut self) -> Result<(), LockError> {
        match self.machine.step() {
            Step::Create => self.create().await,
            Step::List { checks_path } => self.list(checks_path).await,
            Step::Watch => self.watch().await,
            Step::Confirm => {
                let connections_lost = self.contender.queue.client.connections_lost();
                let is_watched = self.is_own_node_watched();
                self.handle(Input::OwnNode { is_watched, connections_lost })
            }
            Step::Done => Ok(()),
        }
    }

    async fn create(&mut self) -> Result<(), LockError> {
        let connections_lost = self.contender.queue.client.connections_lost();
        let look = if self.wants_list { Look::List } else { Look::Parent };
        let seen = self.contender.enter(look).await?;
        self.handle(Input::Created)?;
        match seen {
            Seen::Nothing => Ok(()),
            Seen::Parent(stat) => self.see(&stat, connections_lost),
            Seen::List(children) => {
                // The pzxid is the last create or delete among the children: nothing has changed between
                // the create and the list.
                let own = self.contender.node();
                let is_own = own.is_some_and(|own| children.stat.pzxid == own.czxid);
                self.listed = Some(Box::new(Listed { children, is_own, connections_lost }));
                Ok(())
            }
        }
    }

    /// Takes its place by the Stat of the queue's node, without a list if that is enough.
    fn see(&mut self, parent: &Stat, connections_lost: u64) -> Result<(), LockError> {
        self.saw_parent(parent);
        if self.contender.is_stale(parent) {
            return self.handle(Input::NotListed);
        }
        let Some(own) = self.contender.node() else { return Ok(()) };
        // The only child, and the last one that was created or deleted: neither is enough, because others
        // may have left since, or another client may have deleted the own node.
        if parent.num_children == 1 && parent.pzxid == own.czxid {
            return self.handle(Input::Seen { ahead: None, connections_lost });
        }
        match guess(&own.path) {
            Some(ahead) => self.handle(Input::Seen { ahead: Some(ahead), connections_lost }),
            None => Ok(()),
        }
    }

    async fn list(&mut self, checks_path: bool) -> Result<(), LockError> {
        let listed = match self.listed.take() {
            Some(listed) => Some(*listed),
            None => Box::pin(self.list_and_check_own_node()).await?,
        };
        let Some(Listed { children, is_own, connections_lost }) = listed else {
            return self.handle(Input::OwnNodeGone);
        };
        self.saw_parent(&children.stat);
        let spec = &self.contender.queue.spec;
        let own = self.contender.node().map(|node| file_name(&node.path));
        let own = own.filter(|_| !self.contender.is_stale(&children.stat));
        let Some((own, rank)) = own.and_then(|own| Some((own, spec.rank(&children.names, own)?)))
        else {
            return self.handle(Input::NotListed);
        };
        if let Some(ahead) = rank.predecessor {
            self.contender.saw_ahead(own, ahead);
        }
        if checks_path && rank.has_others {
            // On the heap, because it is rare; this keeps the futures of waiters small.
            let refused = foreign::refuse(&self.contender.queue.client, spec, &children.names);
            self.is_beside_leases = Box::pin(refused).await?;
        }
        let nearest = [rank.predecessor, rank.second].map(|name| name.map(|name| spec.node(name)));
        let ahead = Ahead::of(spec.admission, rank.position, nearest);
        self.handle(Input::Listed { ahead, is_own, connections_lost })
    }

    fn saw_parent(&mut self, parent: &Stat) {
        self.parent = parent.czxid;
        if let Some(id) = self.contender.queue.common_id() {
            id.saw_parent(parent.czxid);
        }
    }

    /// Lists the queue. Returns `None` if the own node is gone.
    ///
    /// The watch on the own node shows that, also after a reconnect: it is set again ahead of the list.
    /// Without a watch, the node is read in the same write, after the list.
    async fn list_and_check_own_node(&mut self) -> Result<Option<Listed>, LockError> {
        let connections_lost = self.contender.queue.client.connections_lost();
        let children = if self.is_own_node_watched() {
            let Queue { client, spec, .. } = &self.contender.queue;
            let listed = list(client, &spec.path).await?;
            if self.is_own_node_watched() { listed } else { None }
        } else {
            self.list_and_read_own_node().await?
        };
        Ok(children.map(|children| Listed { children, is_own: true, connections_lost }))
    }

    async fn list_and_read_own_node(&self) -> Result<Option<Children>, Error> {
        let Queue { client, spec, .. } = &self.contender.queue;
        let Some(own) = self.contender.node() else { return Ok(None) };
        let look = || async {
            let (listed, stat) = (client.get_children(&spec.path), client.exists(&own.path));
            Ok((listed.await?, stat.await?))
        };
        let looked = if_exists(one_write(client, retry(client, look)).await)?;
        Ok(looked.and_then(|(children, stat)| {
            let is_own = stat.is_some_and(|stat| stat.czxid == own.czxid);
            is_own.then_some(children)
        }))
    }

    /// Returns true if a watch guards the own node, and has not fired.
    fn is_own_node_watched(&mut self) -> bool {
        let own = self.contender.node();
        let watches = own.zip(self.watches.as_mut());
        watches.is_some_and(|(own, watches)| watches.is_set(&own.path))
            || is_set(&mut self.own_watch)
    }

    /// Watches the contenders that block this one until one of them leaves.
    async fn watch(&mut self) -> Result<(), LockError> {
        let has_marks = self.contender.queue.client.events_have_zxids().await;
        if let (true, Some(id)) = (has_marks, self.contender.queue.common_id()) {
            id.has_marks(&self.contender.queue.client);
        }
        self.handle(Input::Waits { has_marks })?;
        if let Some(missing) = self.set_watches().await? {
            return self.handle(Input::Changed(missing, NodeChange::Deleted));
        }
        match self.next_change().await? {
            Some((role, change)) => self.handle(Input::Changed(role, change)),
            None => self.check_nearest().await,
        }
    }

    /// Watches the nearest contenders ahead and the own node. Returns one of them that is gone.
    async fn set_watches(&mut self) -> Result<Option<NodeRole>, LockError> {
        let Queue { client, spec, .. } = &self.contender.queue;
        let role = NodeRole::Own { is_readable: spec.has_default_acl() };
        let Some(own) = self.contender.node() else { return Ok(Some(role)) };
        let ahead = self.machine.targets().map(|(node, role)| {
            let may_be_first = may_be_first(file_name(node), self.parent);
            let role = if may_be_first { role } else { role.without_marks() };
            Target { node, role }
        });
        let targets: Vec<_> = ahead.chain([Target { node: &own.path, role }]).collect();
        let watches = self.watches.get_or_insert_default();
        watches.keep(client, &targets, own.czxid).await?;
        let missing = targets.iter().find(|target| !watches.watches(target.node));
        Ok(missing.map(|target| target.role))
    }

    /// Waits until a watch fires, and returns what happened to its node. Returns `None` after a long
    /// wait.
    async fn next_change(&mut self) -> Result<Option<(NodeRole, NodeChange)>, LockError> {
        let client = &self.contender.queue.client;
        let rest = self.long_wait.map(|end| end.saturating_duration_since(now()));
        let long = async {
            match rest {
                Some(rest) => Box::pin(client.runtime().sleep(rest)).await,
                None => pending().await,
            }
        };
        let watches = self.watches.get_or_insert_default();
        match select(pin!(watches.next(client)), pin!(long)).await {
            Either::Left((change, _)) => change.map(Some),
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
        self.long_wait = Some(self.long_wait_end());
        if let Some(node) = self.machine.nearest() {
            let client = &self.contender.queue.client;
            if if_exists(retry(client, || client.get_data(node)).await)?.is_none() {
                self.handle(Input::NearestGone)?;
            }
        }
        self.long_wait = None;
        Ok(())
    }

    /// Returns the time at which a wait that begins now counts as long.
    fn long_wait_end(&self) -> Instant {
        now() + LONG_WAIT_PART.of(self.contender.queue.client.session_timeout())
    }

    /// Passes an input to the machine, and carries out its output.
    fn handle(&mut self, input: Input<String>) -> Result<(), LockError> {
        let output = self.machine.handle(input);
        if let Some(observed) = &mut self.observed {
            match output {
                Output::Continue => {}
                Output::Blocked => observed.blocked(),
                Output::ListAgain | Output::First => observed.unblocked(),
                Output::StartOver { .. } => observed.restarted(),
            }
        }
        match output {
            Output::Continue | Output::ListAgain => {}
            Output::Blocked => self.long_wait = Some(self.long_wait_end()),
            Output::First => self.keep_own_watch(),
            Output::StartOver { is_node_gone, fails } => {
                self.start_over(is_node_gone);
                if fails {
                    return Err(LockError::NodeDeleted {
                        path: self.contender.queue.spec.path.clone(),
                    });
                }
            }
        }
        if self.machine.is_next() {
            self.lease.get_or_insert_with(|| self.contender.queue.client.claim_lease());
        }
        Ok(())
    }

    /// Keeps the watch on the own node for the hold. It fires when the node is deleted, so it needs no
    /// cancellation. A contender that lists again and is still first has it already.
    fn keep_own_watch(&mut self) {
        if let (Some(own), Some(watches)) = (self.contender.node(), &mut self.watches) {
            self.own_watch = watches.take(&own.path).or_else(|| self.own_watch.take());
        }
    }

    /// Leaves the queue, to queue again under another name. A node of the old name that is gone may
    /// be another client's by now, and is not deleted.
    fn start_over(&mut self, is_node_gone: bool) {
        if is_node_gone {
            self.contender.forget_node();
        }
        self.contender.restart();
        self.own_watch = None;
        self.lease = None; // it is no longer next
    }

    /// Binds the future hold to the lease, once the contender is first. This needs no request if the
    /// contender has just created its node, or was next for some time.
    ///
    /// Returns `None` if the lease had to be renewed first, after a long wait. Nodes may have been
    /// deleted in the meantime: check again, and bind again. A lease that is valid after the check
    /// proves that the session, and so the node, did not expire before.
    async fn bind(&mut self) -> Result<Option<LeaseTerm>, Error> {
        let client = &self.contender.queue.client;
        bind_or_renew(client, self.lease.get_or_insert_with(|| client.claim_lease())).await
    }

    fn take_grant(&mut self, term: LeaseTerm) -> Result<Granted, LockError> {
        let marks_release = self.marks_release();
        // It was bound to the lease.
        let lease = self.lease.take().unwrap_or_else(|| self.contender.queue.client.claim_lease());
        let granted = self.contender.grant(lease, term)?;
        let (watch, observed) = (self.own_watch.take(), self.observed.take());
        Ok(Granted { marks_release, watch, observed, ..granted })
    }

    fn marks_release(&self) -> bool {
        self.machine.marks_release()
            && self.contender.queue.spec.may_mark_release()
            && !self.is_beside_leases
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        drop(self.contender.leave(self.marks_release()));
    }
}

/// Returns the term of the lease, or renews the lease and returns `None`.
pub(crate) async fn bind_or_renew(
    client: &Client,
    lease: &SessionLease,
) -> Result<Option<LeaseTerm>, Error> {
    let term = lease.bind();
    if term.is_none() {
        retry_if_unknown(client, || lease.renew()).await?;
    }
    Ok(term)
}
