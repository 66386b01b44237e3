//! Which contenders ahead block a waiter.

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
