//! Which contenders ahead block a waiter.

use super::name::contains;
use crate::child_order::SequenceOrder;

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
    /// No names ahead matter, because the leases are counted: semaphores.
    Counted,
}

impl Admission {
    /// Returns true if a contender that is first holds the lock alone, as long as its node exists.
    /// Then its release can be [marked](super::contender::Contender::mark_release).
    pub(crate) fn is_alone_when_first(self) -> bool {
        matches!(self, Self::FirstForGood | Self::First)
    }

    /// Returns true if a contender of this name, when it is ahead, blocks the waiter.
    pub(crate) fn counts(self, name: &[u8], rule: SequenceOrder<'_>) -> bool {
        match self {
            Self::FirstForGood | Self::First => rule.is_contender(name),
            Self::Behind(text) => contains(name, text),
            Self::Counted => false,
        }
    }
}
