//! Which contenders ahead block a waiter.

use super::name::contains;
use crate::child_order::SequenceOrder;

/// The condition on which a kind of contender is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is the first of all contenders, and stays first: mutexes.
    FirstForGood,
    /// It is the first of all contenders: writers.
    First,
    /// No contender ahead has a name that contains this text: readers, which wait for writers. Like
    /// Curator, this matches the text anywhere in the name.
    Behind(&'static str),
    /// No names ahead matter, because the leases are counted: semaphores.
    Counted,
}

impl Admission {
    /// Returns true if no contender can be placed ahead of a waiter any more, so that the waiter
    /// may count the contenders that leave. This is false for readers and writers: a downgrade may
    /// place a read node ahead of others (CURATOR-621).
    pub(crate) fn looks_ahead(self) -> bool {
        self == Self::FirstForGood
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
