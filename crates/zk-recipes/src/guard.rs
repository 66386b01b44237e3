//! What a holder holds: proof of the lock, news of its loss, the way to give it up.

use std::fmt;
use std::future::Future;
use std::pin::pin;

use futures::FutureExt;
use futures::future::{Either, select};
use zk_session::{Belief, Client, Error, EventType};

use crate::error::{LockError, LossReason};
use crate::queue::contender::{Contender, Node};
use crate::queue::passes;

/// A number that only ever grows from one holder of a lock to the next, over the
/// life of the whole ensemble: the czxid of the holder's node.
///
/// Give it along with every write to the resource that the lock protects, and let
/// the resource refuse a number below the largest it has seen. Nothing else helps
/// against a holder that was paused, for example by its virtual machine, between
/// looking at the lock and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A lock that is held.
///
/// The guard is bound to its session: when that is over, or may be about to be
/// over, the guard is lost for good, and says so before the server can give the
/// lock to anybody else. What it cannot do is to stop a holder that does not ask;
/// see [`FencingToken`].
///
/// Dropping the guard gives the lock up without waiting. The node is deleted even
/// if the connection is down at the moment, as soon as it is back.
#[derive(Debug)]
#[must_use = "the lock is given up when the guard is dropped"]
pub struct Guard {
    contender: Contender,
    node: Node,
    belief: Belief,
}

impl Guard {
    /// `contender` must be first in its queue.
    pub(crate) fn new(contender: Contender, node: Node, belief: Belief) -> Self {
        Self { contender, node, belief }
    }

    /// The path of the holder's node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node.path
    }

    /// The fencing token, if the lock is held for certain at this moment, which is
    /// decided by the clock and not by the connection.
    ///
    /// # Errors
    /// [`LockError::Lost`] once the lock may be lost.
    pub fn token(&self) -> Result<FencingToken, LockError> {
        #[cfg(zk_planted)] // a token that starts again when the parent is reaped
        if zk_session::planted::active(zk_session::planted::Planted::TokenIsSequence)
            && self.is_held()
        {
            let digits = self.node.path.rsplit('-').next().unwrap_or_default();
            return Ok(FencingToken(1 + digits.parse().unwrap_or(0)));
        }
        match self.is_held() {
            true => Ok(FencingToken(self.node.czxid)),
            false => Err(LockError::Lost(self.loss())),
        }
    }

    /// True if the lock is held for certain at this moment. Asks no server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        #[cfg(zk_planted)] // CURATOR-206: a holder that ignores the end of its session
        if zk_session::planted::active(zk_session::planted::Planted::HolderIgnoresExpiry) {
            return true;
        }
        self.contender.claim().holds(self.belief)
    }

    /// Asks the leader: true proof, at the price of a round trip, that the lock was
    /// held at some moment between the call and its return.
    ///
    /// # Errors
    /// [`LockError::Lost`], or a failed request.
    ///
    /// # Cancel safety
    /// Nothing is changed when the future is dropped.
    pub async fn check(&self) -> Result<FencingToken, LockError> {
        loop {
            self.token()?;
            let client = self.contender.client();
            let (synced, own) = {
                let _one_write = client.batch();
                (client.sync(&self.node.path), client.exists(&self.node.path))
            };
            match (synced.await, own.await) {
                (Ok(()), Ok(Some(stat))) if stat.czxid == self.node.czxid => {
                    return self.token();
                }
                (Ok(()), Ok(_)) => return Err(LockError::Lost(LossReason::NodeDeleted)),
                (Err(error), _) | (_, Err(error)) if passes(&error) => {}
                (Err(error), _) | (_, Err(error)) => {
                    return Err(if self.is_held() { error.into() } else { self.lost_error() });
                }
            }
        }
    }

    /// Waits until the lock is lost, and tells why. Of a guard that was released or
    /// dropped in the meantime it may say that its node was deleted.
    ///
    /// The first poll sets a watch on the holder's node; whoever does not call this
    /// does not pay for it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    ///
    /// ```no_run
    /// # use zk_recipes::{LockError, Mutex};
    /// # async fn example(lock: Mutex, work: impl Future<Output = ()>) -> Result<(), LockError> {
    /// let guard = lock.acquire().await?;
    /// tokio::select! {
    ///     () = work => guard.release().await,
    ///     reason = guard.lost() => Err(LockError::Lost(reason)),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lease = self.contender.claim().lost(self.belief);
        let (client, node) = (self.contender.client().clone(), self.node.clone());
        async move {
            match select(pin!(lease), pin!(deleted(client, node))).await {
                Either::Left((loss, _)) => loss.into(),
                Either::Right(((), lease)) => match lease.now_or_never() {
                    Some(loss) => loss.into(),
                    None => LossReason::NodeDeleted,
                },
            }
        }
    }

    /// Gives the lock up and waits until the server has said so.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was no longer held for certain when this was
    /// called: what was done under it may have been done by two. The node is
    /// deleted all the same. Otherwise a failed request: the node goes with the
    /// session then.
    ///
    /// # Cancel safety
    /// The lock is given up by the call; dropping the future only stops the waiting.
    pub async fn release(self) -> Result<(), LockError> {
        let held = self.token();
        let left = self.contender.leave().await;
        held?;
        Ok(left?)
    }

    fn loss(&self) -> LossReason {
        self.contender.claim().loss().into()
    }

    fn lost_error(&self) -> LockError {
        LockError::Lost(self.loss())
    }
}

/// Waits until the node is gone. Trouble with the session is not this one's to
/// tell: it is waited out.
async fn deleted(client: Client, node: Node) {
    loop {
        let failed: Error = match client.exists_and_watch(&node.path).await {
            Ok((Some(stat), watch)) if stat.czxid == node.czxid => match watch.await {
                Ok(event) if event.event_type == EventType::NODE_DELETED => return,
                Ok(_) => continue,
                Err(error) => error,
            },
            Ok(_) => return,
            Err(error) => error,
        };
        if !passes(&failed) {
            futures::future::pending::<()>().await;
        }
    }
}
