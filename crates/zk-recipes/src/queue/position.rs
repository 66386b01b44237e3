//! The position of a waiter, for callers that request it.

use zk_session::ChildList;

use super::spec::QueueSpec;
use crate::child_order::Rank;

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
    /// Returns the position of a contender of this rank in the list.
    pub(super) fn of(spec: &QueueSpec, names: &ChildList, rank: &Rank<'_>) -> Self {
        let rule = spec.rule();
        let holder = match rank.position {
            0 => None,
            _ => rule.sort(names).iter().find(|name| rule.is_contender(name)),
        };
        Self { ahead: rank.position, holder: holder.map(|name| spec.node(name)) }
    }
}
