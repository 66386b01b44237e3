//! Traits that all locks and their guards implement.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use zk_session::Client;

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::guard::Guard;
use crate::lock_kind::LockKind;
use crate::mutex::Mutex;
use crate::rwlock::{ReadLock, WriteGuard, WriteLock};
use crate::sealed::Sealed;
use crate::semaphore::{Semaphore, SemaphoreGuard};
use crate::semaphore_mutex::SemaphoreMutex;

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

/// A guard of any lock. Dropping it releases the lock in the background.
pub trait LockGuard: fmt::Debug + Send + Sync + Sealed {
    /// Returns the paths of the holder's nodes.
    #[must_use]
    fn nodes(&self) -> Vec<&str>;

    /// Returns the fencing tokens, one for each node.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] once the lock may be lost.
    fn tokens(&self) -> Result<Vec<FencingToken>, LockError>;

    /// Returns true if the lock is provably held now.
    #[must_use]
    fn is_held(&self) -> bool;

    /// Returns how long the lock stays provably held if no more replies arrive from the ensemble;
    /// zero if it is lost. See [`Guard::remaining`].
    #[must_use]
    fn remaining(&self) -> Duration;

    /// Confirms with a quorum of the ensemble that the holder's nodes exist; see [`Guard::check`].
    /// Returns the fencing tokens.
    fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>>;

    /// Waits until the lock is lost and returns the reason; see [`Guard::lost`].
    fn lost_boxed(&self) -> BoxFuture<'static, LossReason>;

    /// Waits until another client requests the revocation of the lock; see [`Guard::revocation_requested`].
    fn revocation_requested_boxed(&self) -> BoxFuture<'static, Result<(), LockError>>;

    /// Releases the lock and waits until the server has confirmed it; see [`Guard::release`]. A
    /// [`MultiGuard`](crate::MultiGuard) returns the error of its first failure.
    fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>>;
}

/// Implements [`LockGuard`] for a guard that has, or dereferences to one that has, the methods of
/// `$inherent`.
macro_rules! lock_guard {
    ($guard:ty, $inherent:ty, $nodes:expr, $tokens:expr) => {
        impl Sealed for $guard {}

        impl LockGuard for $guard {
            fn nodes(&self) -> Vec<&str> {
                $nodes(self)
            }

            fn tokens(&self) -> Result<Vec<FencingToken>, LockError> {
                $tokens(self)
            }

            fn is_held(&self) -> bool {
                <$inherent>::is_held(self)
            }

            fn remaining(&self) -> Duration {
                <$inherent>::remaining(self)
            }

            fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>> {
                Box::pin(async {
                    self.check().await?;
                    $tokens(self)
                })
            }

            fn lost_boxed(&self) -> BoxFuture<'static, LossReason> {
                Box::pin(self.lost())
            }

            fn revocation_requested_boxed(&self) -> BoxFuture<'static, Result<(), LockError>> {
                Box::pin(self.revocation_requested())
            }

            fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
                Box::pin((*self).release())
            }
        }
    };
}

fn node(guard: &Guard) -> Vec<&str> {
    vec![guard.node()]
}

fn nodes(guard: &SemaphoreGuard) -> Vec<&str> {
    guard.nodes().collect()
}

fn token(guard: &Guard) -> Result<Vec<FencingToken>, LockError> {
    guard.token().map(|token| vec![token])
}

lock_guard!(Guard, Guard, node, token);
lock_guard!(WriteGuard, Guard, node, token);
lock_guard!(SemaphoreGuard, SemaphoreGuard, nodes, SemaphoreGuard::tokens);

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
