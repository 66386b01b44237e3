//! What a holder holds: proof of the lock, news of its loss, the way to give it up.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{Either, select};
use zk_session::{ErrorCode, Multi};

use crate::error::{LockError, LossReason};
use crate::hold::Hold;
use crate::queue::attempts::Attempts;
use crate::queue::contender::Node;
use crate::revocation::asked_again;

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
    pub(crate) fn of(node: &Node) -> Self {
        Self(node.czxid)
    }

    /// One that is no czxid.
    pub(crate) fn planted(number: i64) -> Self {
        Self(number)
    }

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
///
/// An [`Owner`](crate::Owner) who enters a lock that it holds gets another guard of the
/// same hold: one node, one token, lost together, and given up with the last of them.
#[derive(Debug)]
#[must_use = "the lock is given up when the guard is dropped"]
pub struct Guard {
    /// Shared with the other guards of the same owner.
    hold: Arc<Hold>,
    /// The last request to let go that was told of.
    heard: Arc<AtomicI64>,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self { hold, heard: Arc::default() }
    }

    /// The path of the holder's node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.hold.node().path
    }

    /// The fencing token, if the lock is held for certain at this moment, which is
    /// decided by the clock and not by the connection.
    ///
    /// # Errors
    /// [`LockError::Lost`] once the lock may be lost.
    pub fn token(&self) -> Result<FencingToken, LockError> {
        self.hold.token()
    }

    /// True if the lock is held for certain at this moment. Asks no server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns how long the lock is held for certain if nothing more arrives from the ensemble;
    /// zero if the lock is lost. Asks no server.
    ///
    /// It grows again with the next answers, about every eighth of the session timeout, unless
    /// the guard is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.is_held() {
            true => self.hold.claim().remaining(self.hold.belief()),
            false => Duration::ZERO,
        }
    }

    /// Returns the latest time at which the ensemble is proven to have counted the session as
    /// alive: the session timeout counts from then, at whatever server leads. `None` if the lock
    /// is lost. Asks no server.
    #[must_use]
    pub fn last_proven(&self) -> Option<Instant> {
        self.hold.claim().proven_at(self.hold.belief()).filter(|_| self.is_held())
    }

    /// Asks a quorum of the ensemble for the lock's node, for steps that must not be taken
    /// without the lock.
    ///
    /// On success two things are true: the node was there at some moment between the call and its
    /// return, by the word of a quorum, and the lease was valid at the return. How long the lease
    /// lasts from then is told by [`remaining`](Self::remaining); the check does not prolong it by
    /// itself, because a request that a follower forwards does not touch the session at the leader.
    ///
    /// The servers log the request, like a write.
    ///
    /// # Errors
    /// [`LockError::Lost`], or a failed request.
    ///
    /// # Cancel safety
    /// Nothing is changed when the future is dropped.
    pub async fn check(&self) -> Result<FencingToken, LockError> {
        let mut attempts = Attempts::default();
        loop {
            self.token()?;
            let (client, node) = (self.hold.client(), self.hold.node());
            // The read comes behind the transaction, so it sees at least as much. It is
            // there for a node that somebody made again under the very name.
            let (checked, own) = {
                let _one_write = client.batch();
                (client.check(&node.path, None), client.exists(&node.path))
            };
            let error = match (checked.await, own.await) {
                (Ok(()), Ok(Some(stat))) if stat.czxid == node.czxid => {
                    return self.token();
                }
                (Ok(()), Ok(_)) => return Err(self.hold.found_deleted()),
                (Err(error), _) | (_, Err(error)) => error,
            };
            if error.code() == Some(ErrorCode::NO_NODE) {
                self.hold.found_deleted();
            }
            // A transaction without a change may be repeated, whatever became of it.
            if let Err(error) = attempts.again_if_unknown(client, error).await {
                return Err(if self.is_held() { error.into() } else { self.hold.lost_error() });
            }
        }
    }

    /// Waits until the lock is lost, and tells why. Of a guard that is released or
    /// dropped in the meantime, with all that its owner has of the same hold, it says
    /// [`LossReason::Released`].
    ///
    /// Any number of calls share the one watch that every guard has on its node, from the first
    /// [tenth of a second](crate::limits::NODE_WATCH_DELAY) on. The guard knows of the node's
    /// deletion as soon as the event has arrived, whether or not anybody waits here:
    /// [`token`](Self::token) fails from then on.
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
        let lease = self.hold.claim().lost(self.hold.belief());
        let told = self.hold.fate().told();
        async move {
            match select(pin!(told), pin!(lease)).await {
                Either::Right((loss, _)) => loss.into(),
                // The server removes the node when it expires the session.
                Either::Left((LossReason::NodeDeleted, lease)) => {
                    lease.now_or_never().map_or(LossReason::NodeDeleted, LossReason::from)
                }
                Either::Left((reason, _)) => reason,
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
    /// As [`run`](Self::run); [`LockError::RevocationRequested`]; why nobody could ask.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub async fn run_until_revoked<W: Future>(&self, work: W) -> Result<W::Output, LockError> {
        let revoked = async {
            match self.revocation().await {
                Ok(()) => LockError::RevocationRequested { node: self.node().to_owned() },
                // The guard tells that better, and will.
                Err(LockError::Vanished { .. }) => std::future::pending().await,
                Err(error) => error,
            }
        };
        match select(pin!(revoked), pin!(self.run(work))).await {
            Either::Left((error, _)) => {
                Err(if self.is_held() { error } else { self.hold.lost_error() })
            }
            Either::Right((done, _)) => done,
        }
    }

    /// Waits until somebody asks for the lock with [`revoke`](crate::revoke), or with
    /// Curator's `Revoker`; also if that was before the call. Whether the lock is given
    /// up for it is the holder's decision: who holds on and calls this again waits until
    /// somebody asks again.
    ///
    /// # Errors
    /// The node or the session has gone; a request fails.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn revocation(&self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        asked_again(self.hold.client(), &self.hold.node().path, &self.heard)
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
        self.hold.multi()
    }

    /// Gives the lock up and waits until the server has said so. A guard whose owner has
    /// others of the same hold is just that, one less: it asks no server, and tells
    /// whether the lock is held for certain at this moment.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was no longer held for certain when this was
    /// called, or if the server finds the node gone: what was done under the lock may
    /// have been done by two. The node is deleted all the same. Otherwise a
    /// failed request: the node goes with the session then.
    ///
    /// # Cancel safety
    /// The lock is given up by the call; dropping the future only stops the waiting.
    pub async fn release(self) -> Result<(), LockError> {
        let held = self.token();
        match Arc::into_inner(self.hold) {
            Some(hold) => hold.give_up().await,
            None => held.map(drop), // the others go on holding it
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    pub(crate) fn into_hold(self) -> Arc<Hold> {
        self.hold
    }
}
