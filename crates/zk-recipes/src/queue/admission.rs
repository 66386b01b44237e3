//! Which contenders ahead block a waiter.

use zk_session::ChildList;

use super::name::contains;
use crate::child_order::{Rank, SequenceOrder};

/// The condition on which a kind of contender is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is the first of all contenders, and no contender can be placed ahead of it: mutexes.
    FirstForGood,
    /// It is the first of all contenders: writers. A downgrade may place a read node ahead of others
    /// (CURATOR-621).
    First,
    /// No contender ahead has a name that contains this text: readers, which wait for writers. Like
    /// Curator, this matches the text anywhere in the name.
    Behind(&'static str),
    /// It is among the first contenders, up to the limit: leases of semaphores.
    Counted,
}

impl Admission {
    /// Returns true if a contender that is first holds the lock alone, as long as its node exists.
    /// Then its release can be [marked](super::contender::Contender::mark_release).
    pub(crate) fn is_alone_when_first(self) -> bool {
        matches!(self, Self::FirstForGood | Self::First)
    }

    /// Returns the position of `own` among the contenders that matter to it. Returns `None` if `own`
    /// is not in the list.
    pub(super) fn rank<'l>(
        self,
        rule: SequenceOrder<'_>,
        names: &'l ChildList,
        own: &[u8],
    ) -> Option<Rank<'l>> {
        match self {
            Self::Behind(text) => rule.rank_among(names, own, |name| contains(name, text)),
            Self::FirstForGood | Self::First | Self::Counted => rule.rank(names, own),
        }
    }
}
