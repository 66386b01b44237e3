//! Traits of everything that is held.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;

#[cfg(doc)]
use super::Guard;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::sealed::Sealed;

/// Something that is held: a guard of any lock, or a [`HeldLock`](crate::HeldLock).
pub trait Held: fmt::Debug + Send + Sync + Sealed {
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

    /// Waits until the lock is lost and returns the reason; see [`Guard::lost`].
    fn lost_boxed(&self) -> BoxFuture<'static, LossReason>;

    /// Waits until another client requests the revocation of the lock; see [`Guard::revocation_requested`].
    fn revocation_requested_boxed(&self) -> BoxFuture<'static, Result<(), LockError>>;
}

/// A guard of any lock. Dropping it releases the lock in the background.
pub trait LockGuard: Held {
    /// Confirms with a quorum of the ensemble that the holder's nodes exist; see [`Guard::check`].
    /// Returns the fencing tokens.
    fn check_boxed(&self) -> BoxFuture<'_, Result<Vec<FencingToken>, LockError>>;

    /// Releases the lock and waits until the server has confirmed it; see [`Guard::release`]. Of several
    /// locks, the first error is returned.
    fn release_boxed(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>>;
}

/// Implements [`Held`] for a guard by the methods of `$inherent`, and with these nodes and tokens.
macro_rules! impl_held {
    ($held:ty, $inherent:ty, $nodes:expr, $tokens:expr) => {
        impl crate::sealed::Sealed for $held {}

        impl crate::hold::Held for $held {
            fn nodes(&self) -> Vec<&str> {
                $nodes(self)
            }

            fn tokens(&self) -> Result<Vec<crate::FencingToken>, crate::LockError> {
                $tokens(self)
            }

            fn is_held(&self) -> bool {
                <$inherent>::is_held(self)
            }

            fn remaining(&self) -> std::time::Duration {
                <$inherent>::remaining(self)
            }

            fn lost_boxed(&self) -> crate::BoxFuture<'static, crate::LossReason> {
                Box::pin(<$inherent>::lost(self))
            }

            fn revocation_requested_boxed(
                &self,
            ) -> crate::BoxFuture<'static, Result<(), crate::LockError>> {
                Box::pin(<$inherent>::revocation_requested(self))
            }
        }
    };
}

pub(crate) use impl_held;
