//! The lease of a session: the time until which no leader can have removed its ephemeral nodes.
//! Locks depend on it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use zk_session_core::{Error, ErrorKind, LeaseState, NotRunning, Operation, SessionEnd};

use super::Client;
use crate::clock::{instant, now, observe, timer};
use crate::driver::Shared;
use crate::limits::{QUORUM_PART, RENEWAL_PAUSE_MIN, TERM_CHECK_PART};

/// Why the caller can no longer rely on the ephemeral nodes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The session has ended.
    SessionEnded(SessionEnd),
    /// The ensemble has not answered for so long that it may be about to expire the session. The
    /// session may live on, but its lease term stays lost.
    DeadlinePassed,
    /// As [`DeadlinePassed`](Self::DeadlinePassed), because this process did not run for so long:
    /// it was stopped, its machine was suspended, or a task blocked its runtime.
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

impl std::error::Error for LeaseLoss {}

/// # The lease
///
/// A lease is for owners of ephemeral nodes that must know when the ensemble may have deleted them. Locks
/// depend on it.
impl Client {
    /// Claims the session's lease: from now on, requests to the leader keep it renewed.
    ///
    /// Claim it while an ephemeral node of the session stands for something, as the node of a held lock
    /// does. Create the node, [`renew`](SessionLease::renew) the lease, and rely on the node while the term
    /// [`holds`](SessionLease::holds).
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use zk_session::CreateMode;
    ///
    /// let claim = client.claim_lease();
    /// client.create("/shard-7", "host-7", CreateMode::Ephemeral).await?;
    /// let term = claim.renew().await?;
    /// while claim.holds(term) {
    ///     // No leader can have deleted the node so far.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim_lease(&self) -> SessionLease {
        SessionLease::claim(self)
    }
}

/// A claim to the lease of a session. While a claim exists, the session keeps its lease renewed.
///
/// The lease is valid while no leader can have expired the session. The session derives this from
/// the answers of the ensemble, under [`LeaseAssumptions`](crate::LeaseAssumptions). Neither an
/// open connection nor an answered ping proves it; see ARCHITECTURE.md of the
/// repository, "The lease".
///
/// # Cost
/// In each session timeout, a claimed lease takes at most three writes, which the servers log. It
/// also takes a `sync` every eighth of the timeout and a ping every sixteenth. Other requests
/// replace these. An unclaimed lease takes two or three `sync`s, which replace pings.
#[derive(Debug)]
#[must_use = "dropping a claim releases the lease"]
pub struct SessionLease {
    client: Client,
}

impl SessionLease {
    pub(super) fn claim(client: &Client) -> Self {
        client.shared.lock().claim_lease();
        client.shared.wake();
        Self { client: client.clone() }
    }

    /// Returns the client that has claimed the lease.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the current term of the lease. A lock stores it and checks it later.
    ///
    /// Returns `None` if the lease is not valid, or ends before it can be renewed:
    /// [`renew`](Self::renew) it then.
    #[must_use]
    pub fn bind(&self) -> Option<LeaseTerm> {
        observe();
        let session = self.client.shared.number;
        let number = self.client.shared.lock().term_to_bind(now())?;
        Some(LeaseTerm { session, number })
    }

    /// Renews the lease unless it is valid, and returns its term like [`bind`](Self::bind).
    ///
    /// If the evidence has no gap, one empty transaction is enough. After a gap, the lease waits for
    /// the [longest expiry pass](crate::LeaseAssumptions::expiry_pass) of a leader. A gap arises from a
    /// disconnect, a pause of this process, or silence of the servers for most of the session timeout.
    ///
    /// # Errors
    /// * [`ErrorKind::LeaseImpossible`] if the lease can never be valid with the session timeout in
    ///   force.
    /// * The errors common to all operations; see [`Client`](Client#operations).
    ///
    /// # Cancel safety
    /// Dropping the future only stops the wait.
    pub async fn renew(&self) -> Result<LeaseTerm, Error> {
        let shared = &self.client.shared;
        let timeout = self.client.session_timeout();
        loop {
            if let Some(term) = self.bind() {
                return Ok(term);
            }
            self.client.prove().await?;
            if let Some(term) = self.bind() {
                return Ok(term);
            }
            let (impossible, second, proof) = {
                let session = shared.lock();
                (
                    session.lease_impossible(),
                    session.lease_second_proof_due(),
                    session.lease_proof_due(),
                )
            };
            if let Some(why) = impossible {
                let kind = ErrorKind::LeaseImpossible(why);
                return Err(Error::not_applied(kind).on(Operation::RenewLease, "/"));
            }
            // The reply above counts as a touch, and a later request proves it. If replies take too
            // long for any lease, this loop continues at the pace at which a claimed lease is
            // renewed.
            let soonest = now() + RENEWAL_PAUSE_MIN.max(QUORUM_PART.of(timeout));
            let due = match second {
                Some(due) => due.max(now() + RENEWAL_PAUSE_MIN),
                None => proof.map_or(soonest, |due| due.max(soonest)),
            };
            shared.runtime.sleep_until(timer(due)).await;
        }
    }

    /// Returns when the term ends, unless further answers of the ensemble extend it.
    ///
    /// It is a time of [`Instant::now`], which stops while the machine is suspended. If it may be suspended
    /// before that time, call this again, or [`holds`](Self::holds).
    ///
    /// Returns `None` if the term has ended, or belongs to another session than this claim.
    #[must_use]
    pub fn valid_until(&self, term: LeaseTerm) -> Option<Instant> {
        self.term(term).map(|term| instant(term.until))
    }

    /// Returns how long the term is certain to last, and zero if it has ended.
    ///
    /// By default this is at most 0.41 of the longest timeout granted, although the term may last longer:
    /// a reconnect may reach a server that grants half of the timeout, and that shortens the term.
    #[must_use]
    pub fn remaining(&self, term: LeaseTerm) -> Duration {
        let term = self.term(term);
        term.map_or(Duration::ZERO, |term| term.promised.saturating_duration_since(term.now))
    }

    /// Returns the latest time at which the ensemble is proven to have counted the session as
    /// alive.
    ///
    /// The session timeout counts from that time at the earliest. Returns `None` if the term has
    /// ended.
    #[must_use]
    pub fn proven_at(&self, term: LeaseTerm) -> Option<Instant> {
        self.term(term)?.proven_at.map(instant)
    }

    /// Returns the term, if it has not ended.
    fn term(&self, term: LeaseTerm) -> Option<TermState> {
        observe();
        let shared = &self.client.shared;
        let session = shared.lock();
        let now = now();
        let (number, until) = session.lease(now)?;
        let is_same = term == LeaseTerm { session: shared.number, number };
        let promised = session.lease_promised_until(now).unwrap_or(now);
        is_same.then(|| TermState { now, until, promised, proven_at: session.lease_proven_at() })
    }

    /// Reads the clock, and returns true if the term is valid now.
    #[must_use]
    pub fn holds(&self, term: LeaseTerm) -> bool {
        self.valid_until(term).is_some()
    }

    /// Returns why the term has ended. Call it only after [`holds`](Self::holds) has returned
    /// false.
    #[must_use]
    pub fn loss(&self) -> LeaseLoss {
        why(self.client.shared.lock().lease_state_at(now()))
    }

    /// Waits until the term has ended. A term that has ended never becomes valid again.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future has no effect.
    pub fn lost(&self, term: LeaseTerm) -> impl Future<Output = LeaseLoss> + Send + use<> {
        lost(self.client.shared.clone(), term)
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.client.shared.lock().unclaim_lease();
    }
}

/// A term of the lease that has not ended.
struct TermState {
    now: Instant,
    until: Instant,
    promised: Instant,
    proven_at: Option<Instant>,
}

/// One unbroken term of the lease of one session, for a lock to depend on.
///
/// While the term is valid, no leader can have expired the session. Once the term has ended, no
/// later term and no other session makes it valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    /// Number of the client, which has one session in its life.
    session: u64,
    number: u64,
}

/// The driver reports a lease that has ended. A caller must not depend on the report: the driver's
/// task may be stuck behind a task that blocks its thread, because tokio wakes a task on the thread
/// that woke it. So this function also watches the clock.
async fn lost(shared: Arc<Shared>, term: LeaseTerm) -> LeaseLoss {
    let mut lease_state = shared.lease_state();
    if term.session != shared.number {
        return LeaseLoss::DeadlinePassed; // this session has no other information
    }
    loop {
        let told = *lease_state.borrow_and_update();
        if told.ended.or(told.closing).is_some() || told.term != term.number {
            return why(told);
        }
        observe();
        let lease = shared.lock().lease(now());
        let Some((_, until)) = lease.filter(|(number, _)| *number == term.number) else {
            return why(shared.lock().lease_state_at(now()));
        };
        // Check now and then: a reconnect to a server that grants a shorter timeout ends the term
        // earlier.
        let check = now() + TERM_CHECK_PART.of(shared.lock().session_timeout());
        let deadline = shared.runtime.sleep_until(timer(until.min(check)));
        match select(pin!(lease_state.changed()), pin!(deadline)).await {
            Either::Left((Ok(()), _)) | Either::Right(_) => {}
            Either::Left((Err(_), _)) => return LeaseLoss::SessionEnded(SessionEnd::Closed),
        }
    }
}

fn why(lease_state: LeaseState) -> LeaseLoss {
    match lease_state.ended.or(lease_state.closing) {
        Some(end) => LeaseLoss::SessionEnded(end),
        None => lease_state.paused.map_or(LeaseLoss::DeadlinePassed, LeaseLoss::ProcessPaused),
    }
}
