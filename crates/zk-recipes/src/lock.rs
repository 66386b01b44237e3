//! What the locks have in common, for code that is handed one without knowing which.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::error::{LockError, LossReason};
use crate::guard::{FencingToken, Guard};
use crate::mutex::Mutex;
use crate::rwlock::{ReadLock, WriteGuard, WriteLock};
use crate::semaphore::{Lease, Semaphore};
use crate::semaphore_mutex::SemaphoreMutex;

/// What the methods of [`Lock`] and [`Held`] give, to be awaited.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A lock of any kind, as a [`MultiLock`](crate::MultiLock) is made of. A [`Semaphore`]
/// is the lock of one of its permits.
pub trait Lock: fmt::Debug + Send + Sync {
    /// The path of the lock.
    fn path(&self) -> &str;

    /// Which kind of lock it is, to tell locks on the same path apart.
    fn kind(&self) -> &'static str;

    /// Waits for the lock, as long as it takes. Dropping the future must give up the
    /// place in the queue.
    fn acquire_boxed(&self) -> Boxed<'_, Result<Box<dyn Held>, LockError>>;

    /// Takes the lock if it is free.
    fn try_acquire_boxed(&self) -> Boxed<'_, Result<Option<Box<dyn Held>>, LockError>>;

    /// Waits for a while, for the timeout of a [`MultiLock`](crate::MultiLock). The default uses the
    /// runtime of the caller. The locks of this crate use that of the session's driver if the caller
    /// has none.
    ///
    /// # Panics
    /// If there is no such runtime, or it has no timers.
    fn sleep_boxed(&self, duration: Duration) -> Boxed<'static, ()> {
        Box::pin(async move { tokio::time::sleep(duration).await })
    }
}

/// What a holder of any lock holds. Dropping it gives the lock up without waiting.
pub trait Held: fmt::Debug + Send + Sync {
    /// The paths of the holder's nodes.
    fn nodes(&self) -> Vec<&str>;

    /// The fencing tokens, one for each node.
    ///
    /// # Errors
    /// [`LockError::Lost`] once the lock may be lost.
    fn tokens(&self) -> Result<Vec<FencingToken>, LockError>;

    /// True if the lock is held for certain at this moment.
    fn is_held(&self) -> bool;

    /// Returns how long the lock is held for certain if nothing more arrives from the ensemble; zero
    /// if it is lost; see [`Guard::remaining`].
    fn remaining(&self) -> Duration;

    /// Waits until the lock is lost; see [`Guard::lost`].
    fn lost_boxed(&self) -> Boxed<'static, LossReason>;

    /// Waits until somebody asks for the lock; see [`Guard::revocation`].
    fn revocation_boxed(&self) -> Boxed<'static, Result<(), LockError>>;

    /// Gives the lock up and waits until the server has said so; see [`Guard::release`].
    fn release_boxed(self: Box<Self>) -> Boxed<'static, Result<(), LockError>>;
}

impl Held for Guard {
    fn nodes(&self) -> Vec<&str> {
        vec![self.node()]
    }

    fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        self.token().map(|token| vec![token])
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn lost_boxed(&self) -> Boxed<'static, LossReason> {
        Box::pin(self.lost())
    }

    fn revocation_boxed(&self) -> Boxed<'static, Result<(), LockError>> {
        Box::pin(self.revocation())
    }

    fn release_boxed(self: Box<Self>) -> Boxed<'static, Result<(), LockError>> {
        Box::pin((*self).release())
    }
}

impl Held for WriteGuard {
    fn nodes(&self) -> Vec<&str> {
        vec![self.node()]
    }

    fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        self.token().map(|token| vec![token])
    }

    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Guard::remaining(self)
    }

    fn lost_boxed(&self) -> Boxed<'static, LossReason> {
        Box::pin(self.lost())
    }

    fn revocation_boxed(&self) -> Boxed<'static, Result<(), LockError>> {
        Box::pin(self.revocation())
    }

    fn release_boxed(self: Box<Self>) -> Boxed<'static, Result<(), LockError>> {
        Box::pin((*self).release())
    }
}

impl Held for Lease {
    fn nodes(&self) -> Vec<&str> {
        Self::nodes(self).collect()
    }

    fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
        Self::tokens(self)
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn lost_boxed(&self) -> Boxed<'static, LossReason> {
        Box::pin(self.lost())
    }

    fn revocation_boxed(&self) -> Boxed<'static, Result<(), LockError>> {
        Box::pin(self.revocation())
    }

    fn release_boxed(self: Box<Self>) -> Boxed<'static, Result<(), LockError>> {
        Box::pin((*self).release())
    }
}

/// The same methods, for whatever has the methods of a lock's handle.
macro_rules! lock {
    ($handle:ty, $kind:literal) => {
        impl Lock for $handle {
            fn path(&self) -> &str {
                Self::path(self)
            }

            fn kind(&self) -> &'static str {
                $kind
            }

            fn acquire_boxed(&self) -> Boxed<'_, Result<Box<dyn Held>, LockError>> {
                Box::pin(async { Ok(Box::new(self.acquire().await?) as Box<dyn Held>) })
            }

            fn try_acquire_boxed(&self) -> Boxed<'_, Result<Option<Box<dyn Held>>, LockError>> {
                Box::pin(async {
                    Ok(self.try_acquire().await?.map(|held| Box::new(held) as Box<dyn Held>))
                })
            }

            fn sleep_boxed(&self, duration: Duration) -> Boxed<'static, ()> {
                Box::pin(self.client().sleep(duration))
            }
        }
    };
}

lock!(Mutex, "mutex");
lock!(ReadLock, "read lock");
lock!(WriteLock, "write lock");
lock!(Semaphore, "semaphore");
lock!(SemaphoreMutex, "semaphore mutex");
