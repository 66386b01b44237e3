//! The guard of a lock in a program without async.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use tokio::runtime::Handle;
use zk_session::limits::CLOSE_ON_DROP_WAIT;

use super::client::Client;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::multi_lock::MultiGuard;
use crate::multi_lock_error::MultiLockError;
use crate::rwlock::WriteGuard;
use crate::sealed::Sealed;
use crate::semaphore::SemaphoreGuard;

/// A lock that is held. It dereferences to the async guard, for `token()`, `is_held()`,
/// `remaining()` and `node()`, which send no request.
///
/// Dropping the guard releases the lock, and waits for the release for at most [a tenth of a
/// second](zk_session::limits::CLOSE_ON_DROP_WAIT). The drop does not wait in a task of a runtime,
/// or without a connection.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard<G: Release> {
    /// `None` once the lock is released.
    guard: Option<G>,
    client: Client,
}

impl<G: Release> Guard<G> {
    pub(super) fn new(client: &Client, guard: G) -> Self {
        Self { guard: Some(guard), client: client.clone() }
    }

    /// Releases the lock and waits until the server has confirmed it; see
    /// [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    /// The same as the async method.
    ///
    /// # Panics
    /// Panics in a task of a runtime, as all blocking calls do.
    pub fn release(self) -> Result<(), G::Error> {
        let (guard, client) = self.into_parts();
        client.block_on(guard.release())
    }

    /// Blocks until the lock is lost and returns the reason; returns `None` if it is still held
    /// after `timeout`.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    #[must_use]
    pub fn wait_for_loss(&self, timeout: Duration) -> Option<LossReason> {
        let lost = self.lost();
        self.client.block_on(async { tokio::time::timeout(timeout, lost).await.ok() })
    }

    #[allow(
        clippy::expect_used,
        reason = "only `into_parts` and `drop` take it, and both consume the guard"
    )]
    fn into_parts(mut self) -> (G, Client) {
        (self.guard.take().expect("the guard is there until it is consumed"), self.client.clone())
    }
}

impl<G: Release> Drop for Guard<G> {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        let may_block = Handle::try_current().is_err() && self.client.as_async().is_connected();
        if may_block {
            let released =
                async { tokio::time::timeout(CLOSE_ON_DROP_WAIT, guard.release()).await };
            drop(self.client.block_on(released));
        }
    }
}

impl Guard<crate::Guard> {
    /// Confirms with a quorum of the ensemble that the lock's node exists; see
    /// [`Guard::check`](crate::Guard::check).
    ///
    /// # Errors
    /// The same as the async method.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn check(&self) -> Result<FencingToken, LockError> {
        self.client.block_on((**self).check())
    }
}

impl Guard<WriteGuard> {
    /// Confirms with a quorum of the ensemble that the lock's node exists; see
    /// [`Guard::check`](crate::Guard::check).
    ///
    /// # Errors
    /// The same as the async method.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn check(&self) -> Result<FencingToken, LockError> {
        self.client.block_on((**self).check())
    }

    /// Turns the write lock into a read lock; see [`WriteGuard::downgrade`].
    ///
    /// # Errors
    /// The same as the async method.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn downgrade(self) -> Result<Guard<crate::Guard>, LockError> {
        let (guard, client) = self.into_parts();
        let guard = client.block_on(guard.downgrade())?;
        Ok(Guard::new(&client, guard))
    }
}

impl<G: Release> Deref for Guard<G> {
    type Target = G;

    #[allow(clippy::expect_used, reason = "a guard that can be seen was not consumed")]
    fn deref(&self) -> &G {
        self.guard.as_ref().expect("the guard is there until it is consumed")
    }
}

impl<G: Release + fmt::Debug> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.guard).finish()
    }
}

/// An async guard that a blocking [`Guard`] can wrap: every guard of this crate.
pub trait Release: Sealed {
    /// Error of a release.
    type Error;

    /// Releases the lock.
    fn release(self) -> impl Future<Output = Result<(), Self::Error>>;

    /// Waits until the lock is lost and returns the reason.
    fn lost(&self) -> impl Future<Output = LossReason> + 'static;
}

macro_rules! release {
    ($guard:ty, $error:ty, $tells:ty) => {
        impl Release for $guard {
            type Error = $error;

            fn release(self) -> impl Future<Output = Result<(), $error>> {
                Self::release(self)
            }

            fn lost(&self) -> impl Future<Output = LossReason> + 'static {
                <$tells>::lost(self)
            }
        }
    };
}

release!(crate::Guard, LockError, Self);
release!(WriteGuard, LockError, crate::Guard);
release!(SemaphoreGuard, LockError, Self);
release!(MultiGuard, MultiLockError, Self);
