//! The node of a contender: created once, found again after a lost reply, and deleted in every
//! case.

use zk_session::path::{child, file_name};
use zk_session::{
    Children, Client, CreateMode, Created, Error, ErrorKind, LeaseTerm, Outcome, ParentMode,
    Pending, Repeat, SessionLease, Stat, Watch, Zxid,
};

use super::Queue;
use super::foreign::refuse_before_leases;
use super::spec::{Admission, new_protection, sequence};
use crate::error::LockError;
use crate::limits::{PARENT_ATTEMPTS_MAX, SEQUENCE_END};
use crate::observe::AcquireObserver;
use crate::recipe::Recipe;
use crate::retry::{attempts, retry, retry_if_unknown};

/// A contender for a lock, from before the creation of its node until its deletion.
///
/// Dropping it at any time leaves no node behind: the session deletes the node in the background,
/// over reconnects.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) queue: Queue,
    protection: Box<str>,
    stage: NodeStage,
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

/// What the queue has granted to a contender: all that a hold needs.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) queue: Queue,
    pub(crate) node: Node,
    pub(crate) lease: SessionLease,
    pub(crate) term: LeaseTerm,
    /// The contender was first and had to wait, so that its release is to be marked.
    pub(crate) marks_release: bool,
    pub(crate) watch: Option<Watch>,
    pub(crate) observed: Option<Box<AcquireObserver>>,
}

impl Contender {
    pub(crate) fn new(queue: &Queue) -> Self {
        let protection = new_protection(&queue.client);
        Self { queue: queue.clone(), protection, stage: NodeStage::Absent }
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        match &self.stage {
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
        match self.stage {
            NodeStage::Exists(_) => return Ok(None),
            // The future of an earlier attempt was dropped in progress.
            NodeStage::Requested => self.restart(),
            NodeStage::Absent => {}
        }
        let (path, data) = (self.path_asked_for(""), self.queue.spec.data(&self.queue.client));
        match self.create(&path, &data).await {
            Ok((created, listed)) => self.entered(created, listed).await,
            // On the heap, because it is rare; this keeps the futures of waiters small.
            Err(error) => Box::pin(self.create_again(&path, &data, error)).await,
        }
    }

    /// Requests the node, and a list in the same write.
    async fn create(
        &mut self,
        path: &str,
        data: &[u8],
    ) -> Result<(Created, Option<Pending<Children>>), Error> {
        let (created, listed) = {
            let _one_write = self.queue.client.batch();
            let mode = CreateMode::EphemeralSequential;
            let created =
                self.queue.client.create_with_acl(path, data, mode, self.queue.spec.acl());
            // A caller that counts many permits requests one list for all of them.
            let is_permit = self.queue.spec.admission == Admission::Counted;
            let listed =
                (!is_permit).then(|| self.queue.client.get_children(&self.queue.spec.path));
            (created, listed)
        };
        let created = Creating::of(&mut self.stage, created).answer().await?;
        Ok((created, listed))
    }

    async fn entered(
        &mut self,
        created: Created,
        listed: Option<Pending<Children>>,
    ) -> Result<Option<Children>, LockError> {
        self.adopt(created)?;
        match listed {
            Some(listed) => Ok(listed.await.ok()),
            None => Ok(None),
        }
    }

    /// Continues after the error of the first attempt.
    async fn create_again(
        &mut self,
        path: &str,
        data: &[u8],
        mut error: Error,
    ) -> Result<Option<Children>, LockError> {
        let (mut attempts, mut parent_attempts) = (attempts(), 0);
        loop {
            if error.outcome() == Outcome::Unknown && !is_final(&error) {
                if self.find().await? {
                    return Ok(None);
                }
                error = error.with_outcome(Outcome::NotApplied);
            }
            if error.outcome() == Outcome::Applied {
                // The node exists under a name that could not be read. The drop deletes it.
                return Err(error.into());
            }
            self.stage = NodeStage::Absent;
            if error.is_no_node() && parent_attempts < PARENT_ATTEMPTS_MAX {
                parent_attempts += 1;
                self.ensure_path().await?;
            } else {
                attempts.again(&self.queue.client, error, Repeat::NotApplied).await?;
            }
            match self.create(path, data).await {
                Ok((created, listed)) => return self.entered(created, listed).await,
                Err(failed) => error = failed,
            }
        }
    }

    /// Creates the missing nodes of the queue's path as containers. The server removes them some time
    /// after the last contender has left. A missing chroot is not created: a lock below a mistyped
    /// chroot would exclude no other client.
    async fn ensure_path(&self) -> Result<(), LockError> {
        let path = &self.queue.spec.path;
        if self.queue.spec.exclusive == Some(Recipe::Semaphore) {
            refuse_before_leases(&self.queue.client, path).await?;
        }
        let acl = self.queue.spec.acl();
        let make = || self.queue.client.ensure_path_with_acl(path, ParentMode::Containers, acl);
        Ok(retry_if_unknown(&self.queue.client, make).await?)
    }

    /// Returns the path of the node up to the sequence number, followed by `sequence`.
    pub(crate) fn path_asked_for(&self, sequence: &str) -> String {
        let name = [&*self.protection, &*self.queue.spec.lock_name, sequence].concat();
        child(&self.queue.spec.path, &name)
    }

    /// Records that the node of the requested path may exist, created by other code than
    /// [`enter`](Self::enter).
    pub(crate) fn expect_node(&mut self) {
        self.stage = NodeStage::Requested;
    }

    /// Records that the node does not exist: it was not created, or a transaction has deleted it.
    pub(crate) fn forget_node(&mut self) {
        self.stage = NodeStage::Absent;
    }

    /// Hands the node over to a hold, which rests on this term of the lease.
    pub(crate) fn grant(
        &mut self,
        lease: SessionLease,
        term: LeaseTerm,
    ) -> Result<Granted, LockError> {
        let queue = self.queue.clone();
        match std::mem::replace(&mut self.stage, NodeStage::Absent) {
            NodeStage::Exists(node) => {
                let (marks_release, watch, observed) = (false, None, None);
                Ok(Granted { queue, node, lease, term, marks_release, watch, observed })
            }
            stage => {
                self.stage = stage;
                Err(LockError::NodeDeleted { path: queue.spec.path.clone() })
            }
        }
    }

    /// Looks up the node of a create whose reply was lost.
    pub(crate) async fn find(&mut self) -> Result<bool, LockError> {
        let search = || self.queue.client.find_protected(&self.queue.spec.path, &self.protection);
        match retry(&self.queue.client, search).await? {
            Some(created) => self.adopt(created).map(|()| true),
            None => {
                self.stage = NodeStage::Absent;
                Ok(false)
            }
        }
    }

    /// Adopts the node if this session owns it. A node from another session is about to be deleted
    /// (CURATOR-604). A node with one of the last sequence numbers is adopted for its deletion only.
    pub(crate) fn adopt(&mut self, Created { path, stat }: Created) -> Result<(), LockError> {
        if stat.ephemeral_owner != self.queue.client.session_id() {
            self.stage = NodeStage::Absent; // this session must not delete it
            return Err(LockError::NodeDeleted { path });
        }
        let number = sequence(file_name(&path).as_bytes(), self.queue.spec.rule());
        let is_last = number.is_none_or(|number| number >= SEQUENCE_END);
        let adopted =
            if is_last { Err(LockError::SequenceExhausted { node: path.clone() }) } else { Ok(()) };
        self.stage = NodeStage::Exists(Node { path, czxid: stat.czxid });
        adopted
    }

    /// Deletes the node, if there is or may be one, and prepares a new attempt under a new name.
    pub(crate) fn restart(&mut self) {
        drop(self.leave(false));
        self.protection = new_protection(&self.queue.client);
    }

    /// Deletes the node, if it may exist, with a mark if it was first; see the [rules of the
    /// queue](super::machine). The session repeats the deletion until it is confirmed. Returns the reply
    /// to the deletion of a known node: false if another client had deleted it before.
    pub(crate) fn leave(&mut self, is_marked: bool) -> Option<Pending<bool>> {
        match std::mem::replace(&mut self.stage, NodeStage::Absent) {
            NodeStage::Exists(node) => Some(node.delete(&self.queue.client, is_marked)),
            NodeStage::Requested => {
                self.queue
                    .client
                    .delete_protected_guaranteed(&self.queue.spec.path, &self.protection);
                None
            }
            NodeStage::Absent => None,
        }
    }

    /// Deletes the node and waits until the server has confirmed it. If the reply to the creation has
    /// not arrived, it looks the node up first.
    pub(crate) async fn leave_confirmed(&mut self) -> Result<(), LockError> {
        if matches!(self.stage, NodeStage::Requested) {
            self.find().await?;
        }
        if let Some(deleted) = self.leave(false) {
            deleted.await?;
        }
        Ok(())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        drop(self.leave(false));
    }
}

impl Node {
    pub(crate) fn delete(&self, client: &Client, is_marked: bool) -> Pending<bool> {
        if is_marked {
            client.delete_marked_guaranteed(&self.path)
        } else {
            client.delete_guaranteed(&self.path)
        }
    }

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

/// A create in progress. If it is dropped before the request is sent, the request is cancelled and
/// needs no clean-up. In an outage, a service may cancel acquisitions very often.
struct Creating<'a> {
    stage: &'a mut NodeStage,
    asked: Pending<Created>,
}

impl<'a> Creating<'a> {
    fn of(stage: &'a mut NodeStage, asked: Pending<Created>) -> Self {
        *stage = NodeStage::Requested;
        Self { stage, asked }
    }

    async fn answer(mut self) -> Result<Created, Error> {
        (&mut self.asked).await
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        if self.asked.cancel() {
            *self.stage = NodeStage::Absent;
        }
    }
}

/// Returns true if the session has ended: the server removes its nodes.
pub(crate) fn is_final(error: &Error) -> bool {
    error.origin() == zk_session::ErrorOrigin::Session
}

/// Returns true if the session is at a limit, or if the ACL of the node does not permit the holder
/// to read it. Servers since 3.8.4 send no event of such a node (CVE-2024-23944).
pub(crate) fn is_unwatchable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitReached(_)) || error.is_no_auth()
}
