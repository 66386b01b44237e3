//! The node of a contender: created once, found again after a lost reply, and deleted in every
//! case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zk_session::path::{child, file_name};
use zk_session::{
    Children, Client, CreateMode, Created, Error, ErrorKind, LeaseTerm, Outcome, ParentMode,
    Pending, Repeat, SessionLease, Stat, Watch, Zxid,
};

use super::admission::Admission;
use super::foreign::refuse_before_leases;
use super::name::{new_protection, sequence};
use super::spec::QueueSpec;
use super::watch_set::is_fired_or_unset;
use crate::contender_info;
use crate::error::LockError;
use crate::limits::{PARENT_ATTEMPTS_MAX, SEQUENCE_END};
use crate::observe;
use crate::recipe::Recipe;
use crate::retry::{attempts, retry, retry_if_unknown};

/// A contender for a lock, from before the creation of its node until its deletion.
///
/// Dropping it at any time leaves no node behind: the session deletes the node in the background,
/// over reconnects.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) client: Client,
    pub(crate) spec: Arc<QueueSpec>,
    protection: Box<str>,
    /// Set once the contender is next. Until then nothing depends on the lease, and renewing it
    /// would cost the ensemble writes for each waiter.
    claim: Option<SessionLease>,
    state: NodeStage,
    /// The watch on the own node from the time in the queue.
    watch: Option<Watch>,
    /// The deletion of the node is marked.
    is_marked: AtomicBool,
    pub(crate) observed: observe::AcquireObserver,
}

#[derive(Debug)]
enum NodeStage {
    /// The node does not exist.
    Absent,
    /// The node may exist: the reply to its creation has not arrived.
    Requested,
    /// The node exists.
    Exists(Node),
}

/// The node of a contender.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// The transaction that created the node. This number grows over the life of the ensemble; the
    /// sequence number starts again when an empty lock is removed.
    pub(crate) czxid: Zxid,
}

impl Node {
    /// Watches the node for its deletion; returns `None` if it is gone or was created again.
    ///
    /// # Errors
    /// If the node [cannot be watched](is_unwatchable) and still exists, or if a request fails.
    pub(crate) async fn watch(&self, client: &Client) -> Result<Option<Watch>, Error> {
        let is_same = |stat: &Stat| stat.czxid == self.czxid;
        match client.get_children_and_watch(&self.path).await {
            Ok((children, watch)) => Ok(is_same(&children.stat).then_some(watch)),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) if is_unwatchable(&error) => {
                let exists = client.exists(&self.path).await?.is_some_and(|stat| is_same(&stat));
                if exists { Err(error) } else { Ok(None) }
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns true if the session is at a limit, or if the ACL of the node does not permit the holder
/// to read it. Servers since 3.8.4 send no event of such a node (CVE-2024-23944).
pub(crate) fn is_unwatchable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitReached(_)) || error.is_no_auth()
}

impl Contender {
    pub(crate) fn new(client: &Client, spec: &Arc<QueueSpec>) -> Self {
        Self {
            client: client.clone(),
            spec: spec.clone(),
            protection: new_protection(client),
            claim: None,
            state: NodeStage::Absent,
            watch: None,
            is_marked: AtomicBool::new(false),
            observed: observe::AcquireObserver::begin(&spec.path, spec.metrics.as_ref()),
        }
    }

    /// Keeps the watch on the own node while the node exists.
    pub(crate) fn keep_watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Watches the own node. If it is gone, or another one has its name, the contender forgets it.
    pub(crate) async fn watch_node(&mut self) -> Result<(), LockError> {
        let NodeStage::Exists(node) = &self.state else { return Ok(()) };
        match retry(&self.client, || node.watch(&self.client)).await {
            Ok(Some(watch)) => self.watch = Some(watch),
            Ok(None) => self.forget_node(),
            // It exists.
            Err(error) if is_unwatchable(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(crate) fn take_watch(&mut self) -> Option<Watch> {
        self.watch.take()
    }

    /// Returns true if the own node may have changed: its watch has fired, or it has no watch.
    pub(crate) fn is_node_outdated(&mut self) -> bool {
        is_fired_or_unset(&mut self.watch)
    }

    /// Marks the release: the transaction that deletes the node changes its data, too. It tells the
    /// next contender in line that no other contender is ahead of it; see the module documentation of
    /// [`waiter`](super::waiter). The contender must be first.
    ///
    /// A contender that did not have to wait needs no mark: the ones behind it have seen in their
    /// lists that it is first.
    pub(crate) fn mark_release(&self) {
        self.is_marked.store(self.spec.may_mark_release(), Ordering::Release);
    }

    /// Deletes the node without a mark, because another node stands beside it for the same holder.
    pub(crate) fn unmark_release(&self) {
        self.is_marked.store(false, Ordering::Release);
    }

    /// Claims the session's lease from now on.
    pub(crate) fn claim_lease(&mut self) {
        self.claim.get_or_insert_with(|| self.client.claim_lease());
    }

    /// Binds the future guard to the lease, once the contender was first in a list. This needs no
    /// request if the contender has just created its node, or was next for some time.
    ///
    /// Returns `None` if the lease had to be renewed first, after a long wait. Nodes may have been
    /// deleted in the meantime: list again, and bind again. A lease that is valid after the list
    /// proves that the session, and so the node in the list, did not expire before.
    pub(crate) async fn bind(&mut self) -> Result<Option<LeaseTerm>, Error> {
        let claim = self.claim.get_or_insert_with(|| self.client.claim_lease());
        let term = claim.bind();
        if term.is_none() {
            retry_if_unknown(&self.client, || claim.renew()).await?;
        }
        Ok(term)
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        match &self.state {
            NodeStage::Exists(node) => Some(node),
            NodeStage::Absent | NodeStage::Requested => None,
        }
    }

    /// Creates the node, and returns the list of children that was requested in the same write.
    /// Returns `None` if the list is not valid, or if the node exists already.
    ///
    /// At most one node exists in any case: after a lost reply the node is looked up by the id in
    /// its name before another one is created.
    pub(crate) async fn enter(&mut self) -> Result<Option<Children>, LockError> {
        match self.state {
            NodeStage::Exists(_) => return Ok(None),
            // The future of an earlier attempt was dropped in progress.
            NodeStage::Requested => self.restart(),
            NodeStage::Absent => {}
        }
        let (data, path) = (self.data(), self.path_asked_for(""));
        let (mut attempts, mut parent_attempts) = (attempts(), 0);
        loop {
            let (created, listed) = {
                let _one_write = self.client.batch();
                let mode = CreateMode::EphemeralSequential;
                let created = self.client.create_with_acl(&path, &data, mode, self.spec.acl());
                // A caller that counts many permits requests one list for all of them.
                let listed = (!self.is_permit()).then(|| self.client.get_children(&self.spec.path));
                (created, listed)
            };
            let error = match Creating::of(&mut self.state, created).answer().await {
                Ok(created) => {
                    self.adopt(created)?;
                    return Ok(match listed {
                        Some(listed) => listed.await.ok(),
                        None => None,
                    });
                }
                Err(error) => error,
            };
            if error.outcome() == Outcome::Unknown && !is_final(&error) {
                // On the heap, because it is rare; this keeps the futures of waiters small.
                if Box::pin(self.find()).await? {
                    return Ok(None);
                }
                let error = error.with_outcome(Outcome::NotApplied);
                attempts.again(&self.client, error, Repeat::NotApplied).await?;
                continue;
            }
            if error.outcome() == Outcome::Applied {
                // The node exists under a name that could not be read. The drop deletes it.
                return Err(error.into());
            }
            self.state = NodeStage::Absent;
            if error.is_no_node() && parent_attempts < PARENT_ATTEMPTS_MAX {
                parent_attempts += 1;
                Box::pin(self.ensure_path()).await?;
            } else {
                attempts.again(&self.client, error, Repeat::NotApplied).await?;
            }
        }
    }

    /// Creates the missing nodes of the queue's path as containers. The server removes them some time
    /// after the last contender has left. A missing chroot is not created: a lock below a mistyped
    /// chroot would exclude no other client.
    async fn ensure_path(&self) -> Result<(), LockError> {
        let path = &self.spec.path;
        if self.spec.exclusive == Some(Recipe::Semaphore) {
            refuse_before_leases(&self.client, path).await?;
        }
        let acl = self.spec.acl();
        let make = || self.client.ensure_path_with_acl(path, ParentMode::Containers, acl);
        Ok(retry_if_unknown(&self.client, make).await?)
    }

    /// Returns the data for the node.
    pub(crate) fn data(&self) -> Arc<[u8]> {
        self.spec.data.clone().unwrap_or_else(|| contender_info::own(&self.client).into())
    }

    /// Returns the path of the node up to the sequence number, followed by `sequence`.
    pub(crate) fn path_asked_for(&self, sequence: &str) -> String {
        let name = [&*self.protection, &*self.spec.lock_name, sequence].concat();
        child(&self.spec.path, &name)
    }

    /// Records that the node of the requested path may exist, created by other code than
    /// [`enter`](Self::enter).
    pub(crate) fn expect_node(&mut self) {
        self.state = NodeStage::Requested;
    }

    /// Records that the node does not exist: it was not created, or a transaction has deleted it.
    pub(crate) fn forget_node(&mut self) {
        self.state = NodeStage::Absent;
    }

    /// Looks up the node of a create whose reply was lost.
    pub(crate) async fn find(&mut self) -> Result<bool, LockError> {
        let search = || self.client.find_protected(&self.spec.path, &self.protection);
        match retry(&self.client, search).await? {
            Some(created) => self.adopt(created).map(|()| true),
            None => {
                self.state = NodeStage::Absent;
                Ok(false)
            }
        }
    }

    /// Adopts the node if this session owns it. A node from another session is about to be deleted
    /// (CURATOR-604).
    pub(crate) fn adopt(&mut self, Created { path, stat }: Created) -> Result<(), LockError> {
        if stat.ephemeral_owner != self.client.session_id() {
            self.state = NodeStage::Absent; // this session must not delete it
            return Err(LockError::NodeDeleted { path });
        }
        let number = sequence(file_name(&path).as_bytes(), self.spec.rule());
        let is_last = number.is_none_or(|number| number >= SEQUENCE_END);
        let adopted = match is_last {
            true => Err(LockError::SequenceExhausted { node: path.clone() }),
            false => Ok(()),
        };
        self.state = NodeStage::Exists(Node { path, czxid: stat.czxid });
        adopted
    }

    /// Deletes the node, if there is or may be one, and prepares a new attempt under a new name. The
    /// deletion is repeated if its reply is lost.
    pub(crate) fn restart(&mut self) {
        self.unmark_release(); // it is no longer first
        drop(self.clean_up());
        self.claim = None; // it is no longer next
        self.watch = None; // it is on the old node
        self.protection = new_protection(&self.client);
    }

    /// Deletes the node and waits until the server has confirmed it. Returns false if another
    /// client had deleted it before.
    pub(crate) async fn leave(&mut self) -> Result<bool, Error> {
        match self.clean_up() {
            Some(deleted) => deleted.await,
            None => Ok(true),
        }
    }

    /// As [`leave`](Self::leave). If the reply to the creation has not arrived, it looks the node up
    /// first, so that its deletion is confirmed, too.
    pub(crate) async fn leave_confirmed(&mut self) -> Result<(), LockError> {
        if matches!(self.state, NodeStage::Requested) {
            self.find().await?;
        }
        self.leave().await?;
        Ok(())
    }

    fn is_permit(&self) -> bool {
        self.spec.admission == Admission::Counted
    }

    fn delete(&self, node: &Node) -> Pending<bool> {
        match self.is_marked.load(Ordering::Acquire) {
            true => self.client.delete_marked_guaranteed(&node.path),
            false => self.client.delete_guaranteed(&node.path),
        }
    }

    /// Deletes the node, if it may exist. Returns the reply to the deletion of a known node.
    fn clean_up(&mut self) -> Option<Pending<bool>> {
        match std::mem::replace(&mut self.state, NodeStage::Absent) {
            NodeStage::Exists(node) => Some(self.delete(&node)),
            NodeStage::Requested => {
                self.client.delete_protected_guaranteed(&self.spec.path, &self.protection);
                None
            }
            NodeStage::Absent => None,
        }
    }
}

/// A create in progress. If it is dropped before the request is sent, the request is cancelled and
/// needs no clean-up. In an outage, a service may cancel acquisitions very often.
struct Creating<'a> {
    state: &'a mut NodeStage,
    asked: Pending<Created>,
}

impl<'a> Creating<'a> {
    fn of(state: &'a mut NodeStage, asked: Pending<Created>) -> Self {
        *state = NodeStage::Requested;
        Self { state, asked }
    }

    async fn answer(mut self) -> Result<Created, Error> {
        (&mut self.asked).await
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        if self.asked.cancel() {
            *self.state = NodeStage::Absent;
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        drop(self.clean_up());
    }
}

/// Returns true if the session has ended: the server removes its nodes.
pub(crate) fn is_final(error: &Error) -> bool {
    error.origin() == zk_session::ErrorOrigin::Session
}
