//! What all locks have in common, and their kinds.

use std::fmt;

use futures::future::BoxFuture;
use zk_session::Client;

use crate::error::LockError;
use crate::hold::LockGuard;
use crate::mutex::Mutex;
use crate::rwlock::{ReadLock, WriteLock};
use crate::sealed::Sealed;
use crate::semaphore::{Semaphore, SemaphoreMutex};

/// A lock of any kind in this crate. A [`MultiLock`](crate::MultiLock) consists of such locks. A
/// [`Semaphore`] counts as the lock of one of its permits.
pub trait Lock: fmt::Debug + Send + Sync + Sealed {
    /// Returns the client with which the lock was created.
    fn client(&self) -> &Client;

    /// Returns the path of the lock, below the chroot of its [client](Self::client).
    fn path(&self) -> &str;

    /// Returns the kind of the lock, which distinguishes locks on the same path.
    fn kind(&self) -> LockKind;

    /// Waits until the lock is acquired, without a time limit. Dropping the future removes the
    /// contender from the queue.
    fn acquire_boxed(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>>;

    /// Acquires the lock if it is free.
    fn try_acquire_boxed(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>>;
}

/// Implements [`Lock`] for a handle with the methods of a lock. Its kind has the same name.
macro_rules! lock {
    ($kind:ident) => {
        impl Sealed for $kind {}

        impl Lock for $kind {
            fn client(&self) -> &Client {
                Self::client(self)
            }

            fn path(&self) -> &str {
                Self::path(self)
            }

            fn kind(&self) -> LockKind {
                LockKind::$kind
            }

            fn acquire_boxed(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                Box::pin(async { Ok(Box::new(self.acquire().await?) as Box<dyn LockGuard>) })
            }

            fn try_acquire_boxed(
                &self,
            ) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
                Box::pin(async {
                    Ok(self.try_acquire().await?.map(|held| Box::new(held) as Box<dyn LockGuard>))
                })
            }
        }
    };
}

lock!(Mutex);
lock!(ReadLock);
lock!(WriteLock);
lock!(Semaphore);
lock!(SemaphoreMutex);

/// Kind of a [`Lock`]. `Display` prints it in words.
///
/// The order is that of locks on the same path in
/// [`MultiLock::in_canonical_order`](crate::MultiLock::in_canonical_order).
// The order never changes: a program of this version and one of the next may acquire the same locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`WriteLock`].
    WriteLock,
    /// A [`SemaphoreMutex`].
    SemaphoreMutex,
    /// A [`Semaphore`].
    Semaphore,
    /// A [`ReadLock`].
    ReadLock,
    /// A [`Mutex`].
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
