//! Common interface of all guards.

use std::fmt;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, ready};
use zk_recipes::{
    FencingToken, Guard, HeldLock, LockError, LossReason, MultiGuard, MultiLockError,
    SemaphoreGuard, WriteGuard,
};

/// The two numbers of a fencing token: the czxid and the pass.
pub(crate) type Token = (i64, u32);

/// The operations of a guard that the oracle and a holder need.
pub(crate) trait Holding: fmt::Debug + Send + Sync + 'static {
    fn nodes(&self) -> Vec<String>;

    fn is_held(&self) -> bool;

    fn remaining(&self) -> Duration;

    /// Returns one token for each node.
    fn tokens(&self) -> Result<Vec<Token>, LockError>;

    fn lost(&self) -> BoxFuture<'static, LossReason>;

    /// Sends a request to the servers, if the guard has a method for that.
    fn check(&self) -> BoxFuture<'_, Result<(), LockError>>;

    fn release(self) -> BoxFuture<'static, Result<(), Failures>>
    where
        Self: Sized;
}

/// All errors of an acquisition or a release.
#[derive(Debug)]
pub(crate) struct Failures(pub(crate) Vec<LockError>);

impl From<LockError> for Failures {
    fn from(error: LockError) -> Self {
        Self(vec![error])
    }
}

impl From<MultiLockError> for Failures {
    fn from(error: MultiLockError) -> Self {
        Self(error.failures().iter().map(|failure| failure.error.clone()).collect())
    }
}

impl Holding for Guard {
    fn nodes(&self) -> Vec<String> {
        vec![self.node().to_owned()]
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        self.token().map(|token| vec![numbers(token)])
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        Self::lost(self).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        Self::check(self).map(|checked| checked.map(drop)).boxed()
    }

    fn release(self) -> BoxFuture<'static, Result<(), Failures>> {
        Self::release(self).map(|released| released.map_err(Failures::from)).boxed()
    }
}

/// A leadership, which the election holds and releases.
impl Holding for HeldLock {
    fn nodes(&self) -> Vec<String> {
        Self::nodes(self)
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        self.token().map(|token| vec![numbers(token)])
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        Self::lost(self).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        ready(Holding::tokens(self).map(drop)).boxed()
    }

    fn release(self) -> BoxFuture<'static, Result<(), Failures>> {
        ready(Ok(())).boxed()
    }
}

impl Holding for WriteGuard {
    fn nodes(&self) -> Vec<String> {
        vec![self.node().to_owned()]
    }

    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Guard::remaining(self)
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        self.token().map(|token| vec![numbers(token)])
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        Guard::lost(self).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        Guard::check(self).map(|checked| checked.map(drop)).boxed()
    }

    fn release(self) -> BoxFuture<'static, Result<(), Failures>> {
        Self::release(self).map(|released| released.map_err(Failures::from)).boxed()
    }
}

impl Holding for SemaphoreGuard {
    fn nodes(&self) -> Vec<String> {
        Self::nodes(self).map(str::to_owned).collect()
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        Ok(Self::tokens(self)?.into_iter().map(numbers).collect())
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        Self::lost(self).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        Self::check(self).map(|checked| checked.map(drop)).boxed()
    }

    fn release(self) -> BoxFuture<'static, Result<(), Failures>> {
        Self::release(self).map(|released| released.map_err(Failures::from)).boxed()
    }
}

impl Holding for MultiGuard {
    fn nodes(&self) -> Vec<String> {
        Self::nodes(self).into_iter().map(str::to_owned).collect()
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        Ok(Self::tokens(self)?.into_iter().map(numbers).collect())
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        Self::lost(self).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        ready(Holding::tokens(self).map(drop)).boxed()
    }

    fn release(self) -> BoxFuture<'static, Result<(), Failures>> {
        Self::release(self).map(|released| released.map_err(Failures::from)).boxed()
    }
}

fn numbers(token: FencingToken) -> Token {
    (token.czxid(), token.pass())
}
