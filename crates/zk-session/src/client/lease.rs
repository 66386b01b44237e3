//! What a lock rests on: the belief that this session's nodes still exist.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use futures::future::{Either, select};

use super::{Client, Pending};
use crate::SessionEnd;
use crate::core::Standing;
use crate::driver::{Shared, now};

/// Why the ephemeral nodes of a session can no longer be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The session is over.
    SessionEnded(SessionEnd),
    /// The ensemble has not answered for so long that it may be about to expire the
    /// session. The session may turn out to live on; the belief does not.
    DeadlinePassed,
}

impl fmt::Display for LeaseLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionEnded(end) => write!(f, "{end}"),
            Self::DeadlinePassed => f.write_str("the ensemble did not answer within the lease"),
        }
    }
}

/// A claim on the lease of a session: as long as one exists, a quorum of the
/// ensemble is asked for signs of life. Pings are not enough, because a follower
/// answers them long after the leader has expired the session; nor is `sync`,
/// because a leader answers it that has been replaced and does not know it yet.
#[derive(Debug)]
pub struct LeaseClaim {
    client: Client,
}

impl LeaseClaim {
    pub(super) fn new(client: Client) -> Self {
        client.shared().lock().claim_lease();
        client.shared().wake();
        Self { client }
    }

    /// Binds a belief to the lease as it stands; `None` if it does not hold now:
    /// [`renew`](Self::renew) it then.
    #[must_use]
    pub fn bind(&self) -> Option<Belief> {
        let session = self.client.shared().number();
        let (term, _) = self.client.shared().lock().lease(now())?;
        Some(Belief { session, term })
    }

    /// Asks a quorum of the ensemble for a sign of life, with a transaction of
    /// nothing. When it has answered, this session has not been expired by anybody
    /// up to the time of the call, and the lease is counted from then.
    ///
    /// # Errors
    /// None of its own; see [`Client`](Client#operations).
    pub fn renew(&self) -> Pending<()> {
        self.client.prove()
    }

    /// Until when the belief holds if nothing more is heard; `None` if it is lost, or was
    /// in another session than this claim is on.
    #[must_use]
    pub fn valid_until(&self, belief: Belief) -> Option<Instant> {
        let shared = self.client.shared();
        let (term, until) = shared.lock().lease(now())?;
        (belief == Belief { session: shared.number(), term }).then_some(until)
    }

    /// Looks at the clock: true if the belief holds this very moment.
    #[must_use]
    pub fn holds(&self, belief: Belief) -> bool {
        self.valid_until(belief).is_some()
    }

    /// Why a belief that does not hold any more does not.
    #[must_use]
    pub fn loss(&self) -> LeaseLoss {
        why(self.client.shared().lock().standing())
    }

    /// Waits until the belief is lost. Once it is, it stays so.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn lost(&self, belief: Belief) -> impl Future<Output = LeaseLoss> + Send + use<> {
        lost(self.client.shared().clone(), belief)
    }
}

impl Drop for LeaseClaim {
    fn drop(&mut self) {
        self.client.shared().lock().unclaim_lease();
    }
}

/// A belief in the existence of one session's nodes, bound to one unbroken term of its
/// lease: it does not come back to life with a later term, nor with another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Of the client, which has one session for as long as it lives.
    session: u64,
    term: u64,
}

/// The driver tells of a lease that has ended. That it can tell must not matter:
/// its task may be stuck behind one that blocks its thread (tokio wakes a task onto
/// the thread that woke it), so the clock is watched here as well.
async fn lost(shared: Arc<Shared>, belief: Belief) -> LeaseLoss {
    let mut standing = shared.standing();
    if belief.session != shared.number() {
        return LeaseLoss::DeadlinePassed; // as far as this session knows
    }
    loop {
        let told = *standing.borrow_and_update();
        if told.ended.or(told.closing).is_some() || told.term != belief.term {
            return why(told);
        }
        let lease = shared.lock().lease(now());
        let Some((_, until)) = lease.filter(|(term, _)| *term == belief.term) else {
            return why(shared.lock().standing());
        };
        let deadline = tokio::time::sleep_until(until.into());
        match select(pin!(standing.changed()), pin!(deadline)).await {
            Either::Left((Ok(()), _)) | Either::Right(_) => {}
            Either::Left((Err(_), _)) => return LeaseLoss::SessionEnded(SessionEnd::Closed),
        }
    }
}

fn why(standing: Standing) -> LeaseLoss {
    match standing.ended.or(standing.closing) {
        Some(end) => LeaseLoss::SessionEnded(end),
        None => LeaseLoss::DeadlinePassed,
    }
}
