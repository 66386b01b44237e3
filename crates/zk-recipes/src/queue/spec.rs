//! The nodes of one queue: their path, names and properties, and the contenders that they wait for.
//!
//! A node's name is `_c_<id>-<lock name><sequence>`. In Curator's names the id is a UUID.

use std::borrow::Cow;
use std::sync::Arc;

use zk_session::path::{child, protection_prefix, random_short_id};
use zk_session::{Acl, ChildList, Client, OPEN_ACL_UNSAFE, SessionId, validate_path};

use crate::child_order::{DIGITS, Rank, SequenceKey, SequenceOrder, is_lock_name};
use crate::contender_info;
use crate::error::LockError;
use crate::fencing_token::FencingToken;
use crate::observe::{self, AcquireObserver, HoldObserver, LockMetrics};
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
    /// The names may have a [common id](super::common_id). All nodes of the session with that id have the
    /// same data and ACL, and all contenders refuse nodes of other recipes.
    pub(crate) may_have_common_id: bool,
    pub(crate) metrics: Option<LockMetrics>,
}

impl QueueSpec {
    /// Nodes of a mutex at `path`.
    pub(crate) fn mutex(path: String) -> Self {
        let spec = Self::new(path, LOCK, Admission::FirstInFinalOrder, Recipe::Mutex);
        Self { may_have_common_id: true, ..spec }
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
        Self { rule: Some(READ_WRITE), may_have_common_id: true, ..spec }
    }

    /// Nodes of a semaphore's permits; `path` is their parent.
    pub(crate) fn permit(path: String) -> Self {
        Self::new(path, LEASE, Admission::Counted, Recipe::Semaphore)
    }

    fn new(path: String, lock_name: &'static str, admission: Admission, recipe: Recipe) -> Self {
        let (data, acl, exclusive) = (None, None, Some(recipe));
        let (rule, lock_name, metrics) = (None, lock_name.into(), None);
        let may_have_common_id = false;
        Self { path, lock_name, rule, admission, data, acl, exclusive, may_have_common_id, metrics }
    }

    /// Returns the specification of the reader that a writer becomes.
    pub(crate) fn downgraded(&self) -> Self {
        let reader = Self::reader(self.path.clone());
        let Self { lock_name, admission, may_have_common_id, .. } = reader;
        Self { lock_name, admission, may_have_common_id, ..self.clone() }
    }

    /// Returns true if a release may change the data of its node; see the
    /// [rules of the queue](super::machine). A contender that is first must hold the lock alone, as long
    /// as its node exists.
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

    /// Returns the data of a new node.
    pub(crate) fn data(&self, client: &Client) -> Arc<[u8]> {
        self.data.clone().unwrap_or_else(|| contender_info::own(client).into())
    }

    /// Begins to observe an acquisition, if somebody wants to see it.
    pub(crate) fn observe(&self) -> Option<Box<AcquireObserver>> {
        self.is_observed().then(|| AcquireObserver::begin(&self.path, self.metrics.as_ref()))
    }

    /// Begins to observe the wait for a turn to acquire these permits, if somebody wants to see it.
    pub(crate) fn observe_turn(&self) -> Option<Box<AcquireObserver>> {
        self.is_observed().then(AcquireObserver::of_turn)
    }

    /// Begins to observe a holder that takes over the node of another one.
    pub(crate) fn observe_hold(
        &self,
        node: &str,
        token: FencingToken,
        session_id: SessionId,
    ) -> Option<Box<HoldObserver>> {
        let metrics = self.metrics.clone();
        let begin = || HoldObserver::begin(&self.path, metrics, node, token, None, session_id);
        self.is_observed().then(begin)
    }

    fn is_observed(&self) -> bool {
        self.metrics.is_some() || observe::IS_TRACED
    }

    // The options of the locks

    pub(crate) fn set_data(&mut self, data: Vec<u8>) {
        self.data = Some(data.into());
        self.may_have_common_id = false;
    }

    pub(crate) fn set_acl(&mut self, acl: Vec<Acl>) {
        self.acl = Some(acl.into());
        self.may_have_common_id = false;
    }

    pub(crate) fn set_metrics(&mut self, metrics: &LockMetrics) {
        self.metrics = Some(metrics.clone());
    }

    pub(crate) fn allow_foreign_nodes(&mut self) {
        self.exclusive = None;
        self.may_have_common_id = false;
    }

    /// Sets the text before the number. That of Curator's `LeaderLatch` makes the queue an election's.
    pub(crate) fn set_lock_name(&mut self, name: String) -> Result<(), LockError> {
        if !is_valid(&name) {
            return Err(LockError::InvalidLockName { name });
        }
        let recipe = if name == LATCH { Recipe::Election } else { Recipe::Mutex };
        self.exclusive = self.exclusive.map(|_| recipe);
        self.lock_name = name.into();
        self.may_have_common_id = false;
        Ok(())
    }
}

/// The condition on which a kind of contender is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is the first of all contenders, and no contender can be placed ahead of it: mutexes.
    FirstInFinalOrder,
    /// It is the first of all contenders: writers. A downgrade may place a read node ahead of others
    /// (CURATOR-621).
    First,
    /// No contender ahead has a name that contains this text: readers, which wait for writers. Like
    /// Curator, this matches the text anywhere in the name.
    Behind(&'static str),
    /// It is among the first contenders, up to the limit: permits of semaphores.
    Counted,
}

/// Returns the start of the name of a new node with a random id, `_c_<id>-`.
///
/// The id is shorter than Curator's: in a long queue the server's work is mostly its lists, and they
/// consist of names. No contender depends on the id of another one. Curator orders by the text after
/// the lock name, and searches for its own ids only.
pub(crate) fn random_protection(client: &Client) -> Box<str> {
    protection_prefix(&random_short_id(client)).into()
}

/// Length of the name of a reader's or a writer's node.
pub(crate) const READ_WRITE_LEN: usize = "_c_0b7f36dc3cc24b57-".len() + WRITE.len() + DIGITS;

/// Returns true if node names may contain the lock name before the sequence number.
fn is_valid(lock_name: &str) -> bool {
    is_lock_name(lock_name)
        && !lock_name.contains('/')
        && validate_path(&format!("/{lock_name}0")).is_ok()
}

/// Returns the sequence number at the end of a node's name. Returns `None` for the negative numbers
/// that a server writes after it has counted beyond 31 bits.
pub(crate) fn sequence(name: &[u8], rule: SequenceOrder<'_>) -> Option<u32> {
    match rule.key(name) {
        SequenceKey::Number(number) => Some(number),
        SequenceKey::Text(_) => None,
    }
}

/// Returns true if the name contains the text at any position.
pub(crate) fn contains(name: &[u8], text: &str) -> bool {
    // The middle byte of `__WRIT__` occurs in no id and not in `__READ__`. So one fast search
    // rejects most names.
    let middle = text.as_bytes().get(text.len() / 2);
    middle.is_none_or(|middle| name.contains(middle))
        && name.windows(text.len()).any(|part| part == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_name_rejects_digits_slashes_and_control_characters() {
        let mut spec = QueueSpec::mutex("/lock".to_owned());
        for name in ["lock-", "a", "job 7", "__x__", "-", "7a"] {
            assert_eq!(spec.set_lock_name(name.to_owned()), Ok(()));
            assert_eq!(spec.lock_name, name);
        }
        for name in ["", "7", "0000000000", "a/b", "/", "a\u{0}", "\u{f000}"] {
            let refused = Err(LockError::InvalidLockName { name: name.to_owned() });
            assert_eq!(spec.set_lock_name(name.to_owned()), refused);
        }
    }

    #[test]
    fn contains_finds_text_at_any_position() {
        for name in ["__WRIT__", "_c_a-__WRIT__0000000001", "__WRIT__x", "xI__WRIT__"] {
            assert!(contains(name.as_bytes(), "__WRIT__"), "{name}");
        }
        for name in ["", "I", "_WRIT__", "__READ__0000000001", "__WRIT_", "__WR__IT__"] {
            assert!(!contains(name.as_bytes(), "__WRIT__"), "{name}");
        }
    }

    #[test]
    fn sequence_rejects_negative_and_non_numeric_suffixes() {
        let sequence = |name: &str| sequence(name.as_bytes(), SequenceOrder::new(&["lock-"]));
        assert_eq!(sequence("_c_a-lock-0000000042"), Some(42));
        assert_eq!(sequence("lock-2147483647"), Some(2_147_483_647));
        assert_eq!(sequence("lock--2147483648"), None);
        assert_eq!(sequence("lock-x"), None);
    }
}
