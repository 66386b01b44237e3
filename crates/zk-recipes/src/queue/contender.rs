//! The node of a contender: created once, found again after a lost reply, and deleted in every
//! case.

use std::sync::Arc;
use std::time::Duration;

use zk_session::path::{child, file_name};
use zk_session::{
    Children, Client, CreateMode, Created, Error, ErrorKind, LeaseTerm, Outcome, ParentMode,
    Pending, Repeat, SessionLease, Stat, Watch, Zxid,
};

use super::Queue;
use super::common_id::{Claim, CommonId, Unresolved, prefix};
use super::foreign::refuse_before_leases;
use super::spec::{random_protection, sequence};
use crate::error::LockError;
use crate::limits::{PARENT_ATTEMPTS_MAX, SEQUENCE_END, THROTTLED_PAUSE};
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
    protection: Protection,
    stage: NodeStage,
}

/// What finds the node of a create whose reply was lost.
#[derive(Debug)]
struct Protection {
    /// The start of the node's name, `_c_<id>-`.
    prefix: Box<str>,
    /// `None` if the id is random, and no other node has it.
    common: Option<Common>,
}

/// A name with the [common id](super::common_id).
#[derive(Clone, Debug)]
struct Common {
    id: Arc<CommonId>,
    /// The czxid of the queue's node, which is the id. If another node is there by now, the name is stale:
    /// it may come again, so its node must not be waited with.
    parent: Zxid,
}

#[derive(Debug)]
enum NodeStage {
    /// The node does not exist.
    Absent,
    /// The node may exist: the reply to its creation has not arrived.
    Requested(Option<Unresolved>),
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
    /// Keeps other attempts of the session from the node. Only names with a common id need it.
    _claim: Option<Arc<Claim>>,
}

/// A look at the queue that is requested in the same write as the create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// None: for permits, of which many are created at once.
    Nothing,
    /// The Stat of the queue's node, if the name ahead can be [guessed](super::common_id::guess). A list
    /// otherwise.
    Parent,
    List,
}

/// What that look has shown. It is nothing if its reply was lost.
pub(crate) enum Seen {
    Nothing,
    Parent(Stat),
    List(Children),
}

/// A look in progress.
enum Looking {
    Nothing,
    Parent(Pending<Option<Stat>>),
    List(Pending<Children>),
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
        let (queue, protection) = (queue.clone(), Protection::of(queue));
        Self { queue, protection, stage: NodeStage::Absent }
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        match &self.stage {
            NodeStage::Exists(node) => Some(node),
            NodeStage::Absent | NodeStage::Requested(_) => None,
        }
    }

    /// Returns true if the node has a name with the id of another node of the queue's path than this one.
    pub(crate) fn is_stale(&self, parent: &Stat) -> bool {
        self.protection.common.as_ref().is_some_and(|common| common.parent != parent.czxid)
    }

    /// Notes which name is ahead of the own one.
    pub(crate) fn saw_ahead(&self, own: &str, ahead: &[u8]) {
        if let Some(common) = &self.protection.common {
            common.id.saw_ahead(own, ahead);
        }
    }

    /// Creates the node, and returns what the look has shown. It is nothing if the node exists already.
    ///
    /// At most one node exists in any case: after a lost reply the node is looked up before another one is
    /// created.
    pub(crate) async fn enter(&mut self, look: Look) -> Result<Seen, LockError> {
        match self.stage {
            NodeStage::Exists(_) => return Ok(Seen::Nothing),
            // The future of an earlier attempt was dropped in progress.
            NodeStage::Requested(_) => self.restart(),
            NodeStage::Absent => {}
        }
        let data = self.queue.spec.data(&self.queue.client);
        let failed = match self.create(&data, look).await {
            Ok((created, looking)) => {
                if self.adopt(created)? {
                    return Ok(looking.seen().await);
                }
                None
            }
            Err(error) => Some(error),
        };
        // On the heap, because it is rare; this keeps the futures of waiters small.
        Box::pin(self.create_again(&data, look, failed)).await
    }

    /// Requests the node, and a look at the queue in the same write.
    async fn create(&mut self, data: &[u8], look: Look) -> Result<(Created, Looking), Error> {
        let path = self.path_asked_for("");
        let Queue { client, spec, .. } = &self.queue;
        let unresolved = self.protection.common.as_ref().map(|common| common.id.begin_create());
        let (created, looking) = {
            let _one_write = client.batch();
            let mode = CreateMode::EphemeralSequential;
            let created = client.create_with_acl(&path, data, mode, spec.acl());
            let guesses = self.protection.common.as_ref().is_some_and(|common| common.id.guesses());
            let looking = match look {
                Look::Nothing => Looking::Nothing,
                Look::Parent if guesses => Looking::Parent(client.exists(&spec.path)),
                Look::Parent | Look::List => Looking::List(client.get_children(&spec.path)),
            };
            (created, looking)
        };
        let created = Creating::of(&mut self.stage, created, unresolved).answer().await?;
        Ok((created, looking))
    }

    /// Continues after the error of the first attempt. Without an error, another attempt of the session has
    /// taken the node for its own.
    async fn create_again(
        &mut self,
        data: &[u8],
        look: Look,
        mut failed: Option<Error>,
    ) -> Result<Seen, LockError> {
        let (mut attempts, mut parent_attempts) = (attempts(), 0);
        loop {
            let is_unknown =
                |error: &Error| error.outcome() == Outcome::Unknown && !is_final(error);
            if failed.as_ref().is_none_or(is_unknown) {
                if self.find().await? {
                    return Ok(Seen::Nothing);
                }
                failed = failed.map(|error| error.with_outcome(Outcome::NotApplied));
            }
            match failed {
                // The node exists under a name that could not be read. The drop deletes it.
                Some(error) if error.outcome() == Outcome::Applied => return Err(error.into()),
                Some(error) => {
                    self.stage = NodeStage::Absent;
                    if error.is_no_node() && parent_attempts < PARENT_ATTEMPTS_MAX {
                        parent_attempts += 1;
                        self.protection = Protection::random(&self.queue); // the common id is stale
                        self.ensure_path().await?;
                    } else if error.is_node_exists() && self.protection.common.is_some() {
                        // Somebody else has made a node with the name that is next.
                        self.protection = Protection::random(&self.queue);
                    } else {
                        attempts.again(&self.queue.client, error, Repeat::NotApplied).await?;
                    }
                }
                None => {}
            }
            match self.create(data, look).await {
                Ok((created, looking)) => {
                    if self.adopt(created)? {
                        return Ok(looking.seen().await);
                    }
                    failed = None;
                }
                Err(error) => failed = Some(error),
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
        child(&self.queue.spec.path, &[&*self.start_of_name(), sequence].concat())
    }

    /// Returns the name of the node up to the sequence number.
    fn start_of_name(&self) -> String {
        [&*self.protection.prefix, &*self.queue.spec.lock_name].concat()
    }

    /// Records that the node of the requested path may exist, created by other code than
    /// [`enter`](Self::enter).
    pub(crate) fn expect_node(&mut self) {
        self.stage = NodeStage::Requested(None);
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
        let Queue { client, spec, .. } = &self.queue;
        let found = match &self.protection.common {
            Some(common) => {
                let start = self.start_of_name();
                let search = common.id.find(client, &spec.path, &start, common.parent);
                let found = search.await?;
                found.map(|(created, claim)| (created, Some(claim)))
            }
            None => {
                let search = || client.find_protected(&spec.path, &self.protection.prefix);
                retry(client, search).await?.map(|created| (created, None))
            }
        };
        match found {
            Some((created, claim)) => self.adopt_as(created, claim).map(|()| true),
            None => {
                self.stage = NodeStage::Absent;
                if self.protection.common.is_some() {
                    self.protection = Protection::of(&self.queue); // the name may be stale
                }
                Ok(false)
            }
        }
    }

    /// Adopts a node that was created for this contender. Returns false if another attempt of the session
    /// has taken it for its own.
    pub(crate) fn adopt(&mut self, created: Created) -> Result<bool, LockError> {
        let claim = match &self.protection.common {
            Some(common) => match common.id.claim(file_name(&created.path)) {
                Some(claim) => Some(claim),
                None => return Ok(false),
            },
            None => None,
        };
        self.adopt_as(created, claim).map(|()| true)
    }

    /// Adopts the node if this session owns it. A node from another session is about to be deleted
    /// (CURATOR-604). A node with one of the last sequence numbers is adopted for its deletion only.
    fn adopt_as(
        &mut self,
        Created { path, stat }: Created,
        claim: Option<Claim>,
    ) -> Result<(), LockError> {
        if stat.ephemeral_owner != self.queue.client.session_id() {
            self.stage = NodeStage::Absent; // this session must not delete it
            return Err(LockError::NodeDeleted { path });
        }
        let number = sequence(file_name(&path).as_bytes(), self.queue.spec.rule());
        let is_last = number.is_none_or(|number| number >= SEQUENCE_END);
        let adopted =
            if is_last { Err(LockError::SequenceExhausted { node: path.clone() }) } else { Ok(()) };
        let claim = claim.map(Arc::new);
        self.stage = NodeStage::Exists(Node { path, czxid: stat.czxid, _claim: claim });
        adopted
    }

    /// Deletes the node, if there is or may be one, and prepares a new attempt under a new name.
    pub(crate) fn restart(&mut self) {
        drop(self.leave(false));
        self.protection = Protection::of(&self.queue);
    }

    /// Deletes the node, if it may exist, with a mark if it was first; see the [rules of the
    /// queue](super::machine). The session repeats the deletion until it is confirmed. Returns the reply
    /// to the deletion of a known node: false if another client had deleted it before.
    pub(crate) fn leave(&mut self, is_marked: bool) -> Option<Pending<bool>> {
        match std::mem::replace(&mut self.stage, NodeStage::Absent) {
            NodeStage::Exists(node) => Some(node.delete(&self.queue.client, is_marked)),
            NodeStage::Requested(unresolved) => {
                self.delete_lost(unresolved);
                None
            }
            NodeStage::Absent => None,
        }
    }

    /// Deletes the node of a create whose reply no caller will get.
    fn delete_lost(&self, unresolved: Option<Unresolved>) {
        let Queue { client, spec, .. } = &self.queue;
        let Some(common) = self.protection.common.clone() else {
            return client.delete_protected_guaranteed(&spec.path, &self.protection.prefix);
        };
        let (client, path) = (client.weak().with_timeout(Duration::MAX), spec.path.clone());
        let start = self.start_of_name();
        // Without a runtime the driver has never run, and nothing was sent.
        drop(client.clone().runtime().spawn(async move {
            let _unresolved = unresolved;
            loop {
                match common.id.find(&client, &path, &start, common.parent).await {
                    Ok(Some((created, _claim))) => {
                        return drop(client.delete_guaranteed(&created.path));
                    }
                    Ok(None) => return,
                    Err(error) if is_final(&error) => return,
                    Err(_) => client.runtime().sleep(THROTTLED_PAUSE).await,
                }
            }
        }));
    }

    /// Deletes the node and waits until the server has confirmed it. If the reply to the creation has
    /// not arrived, it looks the node up first.
    pub(crate) async fn leave_confirmed(&mut self) -> Result<(), LockError> {
        if matches!(self.stage, NodeStage::Requested(_)) {
            self.find().await?;
        }
        if let Some(deleted) = self.leave(false) {
            deleted.await?;
        }
        Ok(())
    }
}

impl Protection {
    /// Returns the common id if it can be of use.
    fn of(queue: &Queue) -> Self {
        let id = queue.common_id();
        let common = id.and_then(|id| Some((id, id.parent()?)));
        match common {
            Some((id, parent)) => {
                let common = Some(Common { id: id.clone(), parent });
                Self { prefix: prefix(parent).into(), common }
            }
            None => Self::random(queue),
        }
    }

    fn random(queue: &Queue) -> Self {
        Self { prefix: random_protection(&queue.client), common: None }
    }
}

impl Looking {
    async fn seen(self) -> Seen {
        match self {
            Self::Nothing => Seen::Nothing,
            Self::Parent(stat) => stat.await.ok().flatten().map_or(Seen::Nothing, Seen::Parent),
            Self::List(children) => children.await.map_or(Seen::Nothing, Seen::List),
        }
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
    fn of(
        stage: &'a mut NodeStage,
        asked: Pending<Created>,
        unresolved: Option<Unresolved>,
    ) -> Self {
        *stage = NodeStage::Requested(unresolved);
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
