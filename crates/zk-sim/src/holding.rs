//! Common interface of guards and of the handle that an election gives to its work.

use std::fmt;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, ready};
use zk_recipes::{FencingToken, Held, HeldLock, LockError, LockGuard, LossReason, MultiLockError};

/// The two numbers of a fencing token: the czxid and the pass.
pub(crate) type Token = (i64, u32);

/// The operations that the oracle and a holder need.
pub(crate) trait Holding: fmt::Debug + Send + Sync + 'static {
    fn nodes(&self) -> Vec<String>;

    fn is_held(&self) -> bool;

    fn remaining(&self) -> Duration;

    /// Returns one token for each node.
    fn tokens(&self) -> Result<Vec<Token>, LockError>;

    fn lost(&self) -> BoxFuture<'static, LossReason>;

    /// Sends a request to the servers, if there is a method for that.
    fn check(&self) -> BoxFuture<'_, Result<(), LockError>>;
}

impl<G: LockGuard + 'static> Holding for G {
    fn nodes(&self) -> Vec<String> {
        Held::nodes(self).into_iter().map(str::to_owned).collect()
    }

    fn is_held(&self) -> bool {
        Held::is_held(self)
    }

    fn remaining(&self) -> Duration {
        Held::remaining(self)
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        Ok(Held::tokens(self)?.into_iter().map(numbers).collect())
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        self.lost_boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        self.check_boxed().map(|checked| checked.map(drop)).boxed()
    }
}

/// A leadership, which the election releases.
#[derive(Debug)]
pub(crate) struct Led(pub(crate) HeldLock);

impl Holding for Led {
    fn nodes(&self) -> Vec<String> {
        self.0.nodes()
    }

    fn is_held(&self) -> bool {
        self.0.is_held()
    }

    fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    fn tokens(&self) -> Result<Vec<Token>, LockError> {
        self.0.token().map(|token| vec![numbers(token)])
    }

    fn lost(&self) -> BoxFuture<'static, LossReason> {
        self.0.lost().boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LockError>> {
        ready(self.0.token().map(drop)).boxed()
    }
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

pub(crate) fn numbers(token: FencingToken) -> Token {
    (token.czxid(), token.pass())
}
