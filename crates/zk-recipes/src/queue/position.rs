//! The position of a waiter, for callers that request it.

use zk_session::ChildList;

use super::kind::Kind;

/// Position of a waiter in a lock's queue, as of its last list of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePosition {
    /// Number of contenders that block the waiter: all contenders ahead, or the writers ahead of a
    /// reader. At 0 it is the waiter's turn.
    pub ahead: usize,
    /// Path of the node at the head of the queue. Its contender holds the lock or is about to
    /// acquire it. If readers hold the lock, this is the node of the first reader. `None` if no
    /// contender blocks the waiter.
    pub holder: Option<String>,
}

impl QueuePosition {
    /// Returns the position of a contender that is in the list.
    pub(super) fn of(kind: &Kind, names: &ChildList, own: &str) -> Self {
        let rule = kind.rule();
        let sorted = rule.sort(names);
        let before = || sorted.iter().take_while(|name| *name != own.as_bytes());
        match before().filter(|name| kind.admission.counts(name, rule)).count() {
            0 => Self::default(),
            ahead => {
                let holder = before().find(|name| rule.is_contender(name));
                Self { ahead, holder: holder.map(|name| kind.node(name)) }
            }
        }
    }
}
