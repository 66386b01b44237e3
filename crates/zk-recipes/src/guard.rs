//! What a holder holds: proof of the lock, news of its loss, the way to give it up.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::FutureExt;
use futures::future::{Either, select};
use zk_session::{Belief, Client, Error, ErrorCode, EventType, Multi, Outcome};

use crate::error::{LockError, LossReason};
use crate::planted::{self, Planted};
use crate::queue::contender::{Contender, Node};
use crate::queue::{passes, pause};
use crate::revocation::revocation;

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
    token: FencingToken,
    /// What the clock cannot tell of the node, shared with those who wait for its loss.
    fate: Arc<Fate>,
}

impl Guard {
    /// `contender` must be first in its queue.
    pub(crate) fn new(contender: Contender, node: Node, belief: Belief) -> Self {
        let token = FencingToken(node.czxid);
        Self { contender, node, belief, token, fate: Arc::default() }
    }

    /// With the token of the guard whose place this one takes.
    pub(crate) fn with_token(mut self, token: FencingToken) -> Self {
        self.token = token;
        self
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
        match self.is_held() {
            true if Planted::TokenIsSequence.is_on() => {
                Ok(FencingToken(planted::sequence_token(&self.node.path)))
            }
            true => Ok(self.token),
            false => Err(LockError::Lost(self.loss())),
        }
    }

    /// True if the lock is held for certain at this moment. Asks no server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let is_held = self.fate.known().is_none() && self.contender.claim().holds(self.belief);
        is_held || Planted::HolderIgnoresExpiry.is_on()
    }

    /// Asks a quorum of the ensemble: true proof, at the price of a transaction, that
    /// the lock was held at some moment between the call and its return.
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
            // The read comes behind the transaction, so it sees at least as much. It is
            // there for a node that somebody made again under the very name.
            let (checked, own) = {
                let _one_write = client.batch();
                (client.check(&self.node.path, None), client.exists(&self.node.path))
            };
            let error = match (checked.await, own.await) {
                (Ok(()), Ok(Some(stat))) if stat.czxid == self.node.czxid => {
                    return self.token();
                }
                (Ok(()), Ok(_)) => {
                    self.fate.set(Fate::DELETED);
                    return Err(self.lost_error());
                }
                (Err(error), _) | (_, Err(error)) => error,
            };
            if error.code() == Some(ErrorCode::NO_NODE) {
                self.fate.set(Fate::DELETED);
            }
            // A transaction without a change may be repeated, whatever became of it.
            if !passes(&error) && error.outcome() != Outcome::Unknown {
                return Err(if self.is_held() { error.into() } else { self.lost_error() });
            }
            pause(&error).await;
        }
    }

    /// Waits until the lock is lost, and tells why. Of a guard that is released or
    /// dropped in the meantime it says [`LossReason::Released`].
    ///
    /// Once this or [`check`](Self::check) has told that the node was deleted, the
    /// guard knows it too, for good.
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
        let fate = self.fate.clone();
        async move {
            if let Some(reason) = fate.known() {
                return reason;
            }
            match select(pin!(lease), pin!(deleted(client, node))).await {
                Either::Left((loss, _)) => fate.known().unwrap_or_else(|| loss.into()),
                Either::Right(((), lease)) => match lease.now_or_never() {
                    // The server removes the node when it expires the session.
                    Some(loss) => loss.into(),
                    None => fate.set(Fate::DELETED),
                },
            }
        }
    }

    /// Runs `work` for as long as the lock is held: when it is lost, the work is
    /// dropped where it stands, which is at an await.
    ///
    /// # Errors
    /// [`LockError::Lost`], also if the lock is lost by the time the work has ended.
    ///
    /// # Cancel safety
    /// That of `work`.
    ///
    /// ```no_run
    /// # use zk_recipes::{LockError, Mutex};
    /// # async fn example(lock: Mutex, copy: impl Future<Output = u64>) -> Result<(), LockError> {
    /// let guard = lock.acquire().await?;
    /// let copied = guard.run(copy).await?;
    /// println!("{copied} files were copied under the lock");
    /// guard.release().await
    /// # }
    /// ```
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        match select(pin!(self.lost()), pin!(work)).await {
            Either::Left((reason, _)) => Err(LockError::Lost(reason)),
            Either::Right((done, _)) => self.token().map(|_| done),
        }
    }

    /// As [`run`](Self::run), and the work is dropped, too, when somebody asks for the
    /// lock. The guard is still held then: release it.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`LossReason::Revoked`]; why nobody could ask.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub async fn run_until_revoked<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        let revoked = async {
            match self.revocation().await {
                Ok(()) => LockError::Lost(LossReason::Revoked),
                // The guard tells that better, and will.
                Err(LockError::Vanished { .. }) => std::future::pending().await,
                Err(error) => error,
            }
        };
        match select(pin!(revoked), pin!(self.run(work))).await {
            Either::Left((error, _)) => Err(if self.is_held() { error } else { self.lost_error() }),
            Either::Right((done, _)) => done,
        }
    }

    /// Waits until somebody asks for the lock with [`revoke`](crate::revoke), or with
    /// Curator's `Revoker`; also if that was before the call. Whether the lock is given
    /// up for it is the holder's decision.
    ///
    /// # Errors
    /// The node or the session has gone; a request fails.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn revocation(&self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        revocation(self.contender.client(), &self.node.path)
    }

    /// Begins a transaction that is applied only if the lock's node is there: a write
    /// inside ZooKeeper that nobody can make who has lost the lock, however long it was
    /// paused. It needs no token.
    ///
    /// When the lock is gone the transaction is refused with `NoNode`, for its first
    /// operation, which is that check: operations added here are counted from 1.
    ///
    /// ```no_run
    /// # use zk_recipes::{LockError, Mutex};
    /// # async fn example(lock: Mutex) -> Result<(), LockError> {
    /// let guard = lock.acquire().await?;
    /// guard.multi().set_data("/stock/book", b"99", None).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi<'a>(&self) -> Multi<'a> {
        self.contender.client().multi().check(&self.node.path, None)
    }

    /// Gives the lock up and waits until the server has said so.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was no longer held for certain when this was
    /// called, or if the server finds the node gone: what was done under the lock may
    /// have been done by two. The node is deleted all the same. Otherwise a
    /// failed request: the node goes with the session then.
    ///
    /// # Cancel safety
    /// The lock is given up by the call; dropping the future only stops the waiting.
    pub async fn release(mut self) -> Result<(), LockError> {
        let held = self.token();
        self.fate.set(Fate::RELEASED);
        let was_there = self.contender.leave().await;
        held?;
        match was_there? {
            true => Ok(()),
            false => Err(LockError::Lost(LossReason::NodeDeleted)),
        }
    }

    /// Tells those who wait for the loss that the lock is given up, ahead of the node's
    /// end, which another transaction than a release is to bring.
    pub(crate) fn retire(&self) {
        self.fate.set(Fate::RELEASED);
    }

    /// The node has gone with that transaction.
    pub(crate) fn forget_node(&mut self) {
        self.contender.forget_node();
    }

    /// The node was found to be gone: the lock is lost.
    pub(crate) fn found_deleted(&self) -> LockError {
        self.fate.set(Fate::DELETED);
        LockError::Lost(LossReason::NodeDeleted)
    }

    pub(crate) fn contender(&self) -> &Contender {
        &self.contender
    }

    pub(crate) fn belief(&self) -> Belief {
        self.belief
    }

    fn loss(&self) -> LossReason {
        self.fate.known().unwrap_or_else(|| self.contender.claim().loss().into())
    }

    fn lost_error(&self) -> LockError {
        LockError::Lost(self.loss())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.fate.set(Fate::RELEASED);
    }
}

/// What became of a guard's node. The first word is the last.
#[derive(Debug, Default)]
struct Fate(AtomicU8);

impl Fate {
    const DELETED: u8 = 1;
    const RELEASED: u8 = 2;

    /// Remembers it, unless something is known already; what is known then.
    fn set(&self, fate: u8) -> LossReason {
        // An error says that there was a word before.
        let _ = self.0.compare_exchange(0, fate, Ordering::AcqRel, Ordering::Acquire);
        self.known().unwrap_or(LossReason::Released)
    }

    fn known(&self) -> Option<LossReason> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            Self::DELETED => Some(LossReason::NodeDeleted),
            _ => Some(LossReason::Released),
        }
    }
}

/// Waits until the node is gone. Trouble with the session is not this one's to
/// tell: it is waited out.
pub(crate) async fn deleted(client: Client, node: Node) {
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
        pause(&failed).await;
    }
}
