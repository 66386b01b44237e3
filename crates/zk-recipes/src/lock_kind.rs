//! Kinds of locks, and their order.

use std::fmt;

/// Kind of a [`Lock`](crate::Lock). `Display` prints it in words.
///
/// The order is that of locks on the same path in
/// [`MultiLock::in_canonical_order`](crate::MultiLock::in_canonical_order).
// The order never changes: a program of this version and one of the next may acquire the same locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`WriteLock`](crate::WriteLock).
    WriteLock,
    /// A [`SemaphoreMutex`](crate::SemaphoreMutex).
    SemaphoreMutex,
    /// A [`Semaphore`](crate::Semaphore).
    Semaphore,
    /// A [`ReadLock`](crate::ReadLock).
    ReadLock,
    /// A [`Mutex`](crate::Mutex).
    Mutex,
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::WriteLock => "write lock",
            Self::SemaphoreMutex => "semaphore mutex",
            Self::Semaphore => "semaphore",
            Self::ReadLock => "read lock",
            Self::Mutex => "mutex",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_kinds_are_in_the_reverse_order_of_their_names() {
        use LockKind::{Mutex, ReadLock, Semaphore, SemaphoreMutex, WriteLock};
        let mut kinds = [Mutex, ReadLock, Semaphore, SemaphoreMutex, WriteLock];
        kinds.sort_unstable();
        let names: Vec<String> = kinds.iter().rev().map(ToString::to_string).collect();
        assert_eq!(format!("{:<6}|{:>6}|", Mutex, Mutex), "mutex | mutex|");
        assert_eq!(names, ["mutex", "read lock", "semaphore", "semaphore mutex", "write lock"]);
    }
}
