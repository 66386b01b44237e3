//! What a lock rests on: the belief that this session's nodes still exist.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{Either, select};

use super::Client;
use crate::SessionEnd;
use crate::driver::{Shared, now, observe, timer};
use crate::limits::RENEWAL_PAUSE_MIN;
use zk_session_core::Standing;
use zk_session_core::{Error, ErrorKind, NotRunning};

/// Why the ephemeral nodes of a session can no longer be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The session is over.
    SessionEnded(SessionEnd),
    /// The ensemble has not answered for so long that it may be about to expire the
    /// session. The session may turn out to live on; the belief does not.
    DeadlinePassed,
    /// As [`DeadlinePassed`](Self::DeadlinePassed), because this process did not run for so long: it
    /// was stopped, its machine was suspended, or a task blocked its runtime.
    ProcessPaused(Duration),
}

impl fmt::Display for LeaseLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionEnded(end) => write!(f, "{end}"),
            Self::DeadlinePassed => f.write_str("the ensemble did not answer within the lease"),
            Self::ProcessPaused(paused) => {
                write!(f, "{}, and the lease ended meanwhile", NotRunning(*paused))
            }
        }
    }
}

/// A claim on the lease of a session: as long as one exists, the session keeps its lease renewed.
///
/// The lease is valid for as long as no leader can have expired the session, by what the answers
/// of the ensemble prove under [`LeaseAssumptions`](crate::LeaseAssumptions). Neither an open
/// connection nor an answered ping proves that; see ARCHITECTURE.md, "The lease".
///
/// # What it costs
/// In each session timeout a claimed lease takes at most three writes, which servers log, a `sync`
/// every eighth and a ping every sixteenth of the timeout. Other requests take the place of these.
/// A lease that is not claimed costs nothing.
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

    /// Binds a belief to the lease as it stands; `None` if it is not valid now, or ends before it can be
    /// renewed: [`renew`](Self::renew) it then.
    #[must_use]
    pub fn bind(&self) -> Option<Belief> {
        observe();
        let session = self.client.shared().number();
        let term = self.client.shared().lock().term_to_bind(now())?;
        Some(Belief { session, term })
    }

    /// Renews the lease, unless it is valid, and binds a belief to it.
    ///
    /// One empty transaction is enough for a session that has sent its pings. One that was silent for
    /// most of its timeout needs a second one, after the
    /// [flush bound](crate::LeaseAssumptions::flush_bound).
    ///
    /// # Errors
    /// [`ErrorKind::LeaseImpossible`] if the lease can never be valid with the session timeout in
    /// force; those common to all operations, see [`Client`](Client#operations).
    ///
    /// # Cancel safety
    /// Dropping the future only stops the waiting.
    pub async fn renew(&self) -> Result<Belief, Error> {
        let shared = self.client.shared();
        let timeout = self.client.session_timeout();
        loop {
            if let Some(belief) = self.bind() {
                return Ok(belief);
            }
            self.client.prove().await?;
            if let Some(belief) = self.bind() {
                return Ok(belief);
            }
            let (impossible, proof) = {
                let session = shared.lock();
                (session.lease_impossible(), session.lease_proof_due())
            };
            if let Some(why) = impossible {
                let kind = ErrorKind::LeaseImpossible(why);
                return Err(Error::not_applied(kind).on("renew the lease of", "/"));
            }
            // The answer above is a touch that another request proves later. Where answers take too
            // long for any lease this goes on, at the pace of a lease that is kept renewed.
            let soonest = now() + RENEWAL_PAUSE_MIN.max(timeout * 3 / 8);
            let due = proof.map_or(soonest, |due| due.max(soonest));
            shared.sleep_until(timer(due)).await;
        }
    }

    /// Returns until when the belief holds if nothing more is heard; `None` if it is lost, or was
    /// bound to another session than this claim is on.
    #[must_use]
    pub fn valid_until(&self, belief: Belief) -> Option<Instant> {
        self.term(belief).map(|term| term.until)
    }

    /// Returns how long the belief holds if nothing more is heard; zero if it is lost.
    #[must_use]
    pub fn remaining(&self, belief: Belief) -> Duration {
        self.term(belief).map_or(Duration::ZERO, |term| term.until - term.now)
    }

    /// Returns the latest time at which the ensemble is proven to have counted the session as
    /// alive: the session timeout counts from then. `None` if the belief is lost.
    #[must_use]
    pub fn proven_at(&self, belief: Belief) -> Option<Instant> {
        self.term(belief)?.proven_at
    }

    /// The term that the belief is bound to, if it goes on.
    fn term(&self, belief: Belief) -> Option<Term> {
        observe();
        let shared = self.client.shared();
        let session = shared.lock();
        let now = now();
        let (term, until) = session.lease(now)?;
        let is_same = belief == Belief { session: shared.number(), term };
        is_same.then(|| Term { now, until, proven_at: session.lease_proven_at() })
    }

    /// Looks at the clock: true if the belief holds this very moment.
    #[must_use]
    pub fn holds(&self, belief: Belief) -> bool {
        self.valid_until(belief).is_some()
    }

    /// Why a belief that does not hold any more does not.
    #[must_use]
    pub fn loss(&self) -> LeaseLoss {
        why(self.client.shared().lock().standing_at(now()))
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

/// A term of the lease that goes on.
struct Term {
    now: Instant,
    until: Instant,
    proven_at: Option<Instant>,
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
        observe();
        let lease = shared.lock().lease(now());
        let Some((_, until)) = lease.filter(|(term, _)| *term == belief.term) else {
            return why(shared.lock().standing_at(now()));
        };
        // Looked at again now and then: a reconnect to a server that grants less moves it forward.
        let look = now() + shared.lock().session_timeout() / 16;
        let deadline = shared.sleep_until(timer(until.min(look)));
        match select(pin!(standing.changed()), pin!(deadline)).await {
            Either::Left((Ok(()), _)) | Either::Right(_) => {}
            Either::Left((Err(_), _)) => return LeaseLoss::SessionEnded(SessionEnd::Closed),
        }
    }
}

fn why(standing: Standing) -> LeaseLoss {
    match standing.ended.or(standing.closing) {
        Some(end) => LeaseLoss::SessionEnded(end),
        None => standing.paused.map_or(LeaseLoss::DeadlinePassed, LeaseLoss::ProcessPaused),
    }
}
