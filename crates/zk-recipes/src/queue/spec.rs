//! Specification of one queue of a lock: its path, and the properties of its nodes.

use std::borrow::Cow;
use std::sync::Arc;

use zk_session::path::child;
use zk_session::{Acl, ChildList, OPEN_ACL_UNSAFE};

use super::admission::Admission;
use super::name::contains;
use crate::child_order::{Rank, SequenceOrder};
use crate::metrics::LockMetrics;
use crate::recipe::{LATCH, LEASE, LOCK, READ, Recipe, WRITE};

/// Order of readers and writers: by the number, not by the text before it.
const READ_WRITE: SequenceOrder<'static> = SequenceOrder::new(&[READ, WRITE]);

#[derive(Clone, Debug)]
pub(crate) struct QueueSpec {
    /// Parent of the lock's nodes.
    pub(crate) path: String,
    /// Text before the sequence number in the names of these nodes.
    pub(crate) lock_name: Cow<'static, str>,
    /// Order of the queue, if the queue has contenders with other lock names.
    rule: Option<SequenceOrder<'static>>,
    /// The contenders that these nodes wait for.
    pub(crate) admission: Admission,
    /// Data of the nodes; `None` for the default, which identifies the contender.
    pub(crate) data: Option<Arc<[u8]>>,
    /// ACL of the nodes, and of the missing nodes of the path.
    pub(crate) acl: Option<Arc<[Acl]>>,
    /// The recipe; `None` if nodes of other recipes are accepted in the queue.
    pub(crate) exclusive: Option<Recipe>,
    pub(crate) metrics: Option<LockMetrics>,
}

impl QueueSpec {
    /// Nodes of a mutex at `path`.
    pub(crate) fn mutex(path: String) -> Self {
        Self::new(path, LOCK, Admission::FirstInFinalOrder, Recipe::Mutex)
    }

    /// Nodes of the candidates of an election.
    pub(crate) fn candidate(path: String) -> Self {
        Self::new(path, LATCH, Admission::FirstInFinalOrder, Recipe::Election)
    }

    /// Nodes of the readers of a read-write lock.
    pub(crate) fn reader(path: String) -> Self {
        let spec = Self::new(path, READ, Admission::Behind(WRITE), Recipe::ReadWriteLock);
        Self { rule: Some(READ_WRITE), ..spec }
    }

    /// Nodes of the writers of a read-write lock.
    pub(crate) fn writer(path: String) -> Self {
        let spec = Self::new(path, WRITE, Admission::First, Recipe::ReadWriteLock);
        Self { rule: Some(READ_WRITE), ..spec }
    }

    /// Nodes of a semaphore's permits; `path` is their parent.
    pub(crate) fn permit(path: String) -> Self {
        Self::new(path, LEASE, Admission::Counted, Recipe::Semaphore)
    }

    fn new(path: String, lock_name: &'static str, admission: Admission, recipe: Recipe) -> Self {
        let (data, acl, exclusive) = (None, None, Some(recipe));
        let (rule, lock_name, metrics) = (None, lock_name.into(), None);
        Self { path, lock_name, rule, admission, data, acl, exclusive, metrics }
    }

    /// Returns the specification of the reader that a writer becomes.
    pub(crate) fn downgraded(&self) -> Self {
        let reader = Self::reader(self.path.clone());
        Self { lock_name: reader.lock_name, admission: reader.admission, ..self.clone() }
    }

    /// Returns true if a release may change the data of its node; see
    /// [`mark_release`](super::contender::Contender::mark_release). A contender that is first must hold
    /// the lock alone, as long as its node exists.
    ///
    /// Curator's `LeaderLatch` watches the data of the node ahead, once, and ignores a change
    /// (`LeaderLatch.checkLeadership`): after it, the candidate would miss the deletion and wait for
    /// ever. Curator's locks list the queue after any event.
    pub(crate) fn may_mark_release(&self) -> bool {
        matches!(self.admission, Admission::FirstInFinalOrder | Admission::First)
            && self.lock_name != LATCH
    }

    pub(crate) fn rule(&self) -> SequenceOrder<'_> {
        self.rule.unwrap_or_else(|| SequenceOrder::named(&self.lock_name))
    }

    /// Returns the position of the contender `own` among those that matter to it. Returns `None` if
    /// it is not in the list.
    pub(crate) fn rank<'l>(&self, names: &'l ChildList, own: &str) -> Option<Rank<'l>> {
        let (rule, own) = (self.rule(), own.as_bytes());
        match self.admission {
            Admission::Behind(text) => rule.rank_among(names, own, |name| contains(name, text)),
            Admission::FirstInFinalOrder | Admission::First | Admission::Counted => {
                rule.rank(names, own)
            }
        }
    }

    /// Returns the path of the node with this name.
    pub(crate) fn node(&self, name: &[u8]) -> String {
        child(&self.path, &String::from_utf8_lossy(name))
    }

    pub(crate) fn has_default_acl(&self) -> bool {
        self.acl.is_none()
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        self.acl.as_deref().unwrap_or(OPEN_ACL_UNSAFE)
    }
}
