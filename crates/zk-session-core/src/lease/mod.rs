//! The lease: how long this client can rely on its ephemeral nodes.
//!
//! Only the leader expires sessions, by a clock that a client cannot see. The replies that a client
//! receives prove less than they seem to:
//!
//! * A ping is answered by the follower that the client is connected to. The leader receives the
//!   touch with the follower's next flush, or never. A follower that is cut off continues to answer
//!   for up to `syncLimit` ticks, which is longer than most session timeouts.
//! * A `sync`, or a write, that a follower forwards does not touch the session at the leader.
//!   `LeaderZooKeeperServer.submitLearnerRequest` passes it straight to the request processors,
//!   which only check that the session exists. A client may be silent for most of its timeout, and
//!   then write through a follower that hangs before its next flush. The leader expires it by the
//!   touch from *before* the silence.
//! * A `sync` is also answered by a leader that was replaced and has not noticed.
//! * All of them are answered while a leader works through the sessions that it expires, until it is
//!   the turn of this one.
//!
//! [`evidence`] combines them into a bound that holds. A `sync` now and then keeps the evidence of an
//! idle session without a gap. While the lease is claimed, three requests keep the bound recent:
//!
//! * A ping, when nothing else was sent for a while.
//! * A `sync`, for a reply of the leader.
//! * Less often, an empty transaction, for the agreement of a quorum. It is the only one of the
//!   three that the servers log.

mod evidence;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use proto::{ErrorCode, OpCode, ReplyHeader, Zxid};

use self::evidence::{Evidence, OwnerCheck};
use crate::connection::GrantedTimeouts;
use crate::{LeaseAssumptions, LeaseImpossible, LeaseTimes, SessionCredentials, Settings};

/// State of the lease. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Lease {
    assumptions: LeaseAssumptions,
    /// Times that follow from the timeout in force, if a lease is possible with it.
    times: Result<LeaseTimes, LeaseImpossible>,
    /// Time by which the lease ends before the proven bound. A lease that has become impossible ends with
    /// its last bound, because it was promised.
    ends_early: Option<Duration>,
    evidence: Evidence,
    /// Times at which the session last sent a request to the leader, and to a quorum. Other
    /// requests count only once they are answered. A server may reject them on the way to the
    /// leader, and a row of such requests must not starve the lease.
    asked_leader: Option<Instant>,
    asked_quorum: Option<Instant>,
    /// Send time of the latest answered request that only a leader answers, and of the latest request
    /// that a quorum agreed to.
    answered_leader: Option<Instant>,
    answered_quorum: Option<Instant>,
    /// Number of times the lease has ended. A guard is bound to one term, so a later reply can
    /// never make it valid again.
    term: u64,
    lapsed: bool,
    /// Length of the process pause in which the last term ended, if it ended in one.
    lapsed_in: Option<Duration>,
    claims: usize,
}

/// Request that a claimed lease needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseRequest {
    /// A `sync`.
    Leader,
    /// An empty transaction.
    Quorum,
    /// A write of which the leader checks the owner.
    CheckedQuorum,
}

impl Lease {
    pub(crate) fn new(settings: &Settings) -> Self {
        let resumed = settings.resume.as_ref().map(SessionCredentials::granted);
        let is_unknown = resumed == Some(None);
        let times = settings.lease_assumptions.times(settings.session_timeout);
        Self {
            times: if is_unknown { Err(LeaseImpossible::UnknownTimeouts) } else { times },
            assumptions: settings.lease_assumptions,
            ends_early: None,
            evidence: resumed.map_or_else(Evidence::new, Evidence::resumed),
            asked_leader: None,
            asked_quorum: None,
            answered_leader: None,
            answered_quorum: None,
            term: 0,
            lapsed: true,
            lapsed_in: None,
            claims: 0,
        }
    }

    pub(crate) fn granted(&self) -> Option<GrantedTimeouts> {
        self.evidence.granted()
    }

    pub(crate) fn impossible(&self) -> Option<LeaseImpossible> {
        self.times.err()
    }

    pub(crate) fn handshake_sent(&mut self, now: Instant) {
        self.evidence.handshake_sent(now);
    }

    /// Notes that the server has accepted the session and granted this timeout.
    pub(crate) fn handshake_accepted(&mut self, timeout: Duration, now: Instant) {
        self.evidence.handshake_accepted(timeout, now);
        if let Some(shortest) = self.evidence.shortest_timeout() {
            self.times = self.assumptions.times(shortest);
        }
        if let Ok(times) = self.times {
            self.ends_early = Some(times.ends_early);
            self.evidence.set_bounds(times.flush_bound, times.expiry_pass, times.clock_drift);
        }
        // Requests of the last connection will not be answered.
        self.asked_leader = self.answered_leader;
        self.asked_quorum = self.answered_quorum;
        self.revive(now);
    }

    /// Notes that a ping sent at `sent` was answered.
    pub(crate) fn ponged(&mut self, sent: Instant, now: Instant) {
        self.evidence.touch_answered(sent, now);
    }

    /// Takes from a reply what it proves about the leader's clock. The request was sent at `sent`.
    pub(crate) fn answered(
        &mut self,
        op: OpCode,
        sent: Instant,
        header: &ReplyHeader,
        now: Instant,
    ) {
        // Credentials are answered ahead of the request processors, and touch nothing.
        if op == OpCode::Auth {
            return;
        }
        if is_quorum_reply(header.err) {
            self.evidence.touch_answered(sent, now);
        }
        if op.is_write() && header.zxid > Zxid::ZERO && is_quorum_reply(header.err) {
            self.quorum_agreed(sent, owner_check(op), now);
        } else if op == OpCode::Sync && header.err.is_ok() {
            self.leader_answered(sent, now);
        }
    }

    /// Notes that a request sent at `sent` was answered, and that only a leader answers it.
    fn leader_answered(&mut self, sent: Instant, now: Instant) {
        self.answered_leader = self.answered_leader.max(Some(sent));
        self.evidence.leader_answered(sent, now);
        self.revive(now);
    }

    /// Notes that a request sent at `sent` was answered, and that a quorum agreed to the answer.
    fn quorum_agreed(&mut self, sent: Instant, owner: OwnerCheck, now: Instant) {
        self.answered_leader = self.answered_leader.max(Some(sent));
        self.answered_quorum = self.answered_quorum.max(Some(sent));
        self.evidence.quorum_agreed(sent, owner, now);
        self.revive(now);
    }

    fn revive(&mut self, now: Instant) {
        if self.times.is_ok() && self.valid_until().is_some_and(|until| now < until) {
            self.lapsed = false;
        }
    }

    /// Returns the end of the lease, if the evidence proves one.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        self.evidence.expires_after()?.checked_sub(self.ends_early?)
    }

    /// Returns the part of the lease after `now` that nothing can take back.
    pub(crate) fn promised_until(&self, now: Instant) -> Option<Instant> {
        self.evidence.promised(now)?.checked_sub(self.ends_early?)
    }

    /// Returns the time from which the session timeout counts, whichever server leads.
    pub(crate) fn proven_at(&self) -> Option<Instant> {
        self.evidence.expires_after()?.checked_sub(self.evidence.shortest_timeout()?)
    }

    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        !self.lapsed && self.valid_until().is_some_and(|until| now < until)
    }

    /// Returns true if the lease can be renewed before it ends. Otherwise a new guard would be lost
    /// although all is well: after a handshake that took most of the timeout, or a long silence.
    ///
    /// The request that proves the next touch takes a round trip. It counts at most as the interval
    /// between requests to the leader. With a longer round trip, even a lease that is kept renewed
    /// may end. If it counted in full, no caller would acquire a lock.
    pub(crate) fn is_renewable(&self, round_trip: Duration) -> bool {
        let Ok(times) = self.times else { return false };
        let takes = round_trip.clamp(times.touch_every, times.leader_every);
        let proof = self.evidence.next_proof().map(|proof| proof + takes);
        // A request of which the leader checks the owner renews the lease at any time, up to the end
        // that the last touch sets.
        let end = if self.evidence.needs_owner_checks() {
            self.evidence.gap_after().and_then(|gap| gap.checked_sub(times.ends_early))
        } else {
            self.valid_until()
        };
        proof.is_some() && proof < end
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// Ends the current term if its time has passed. Returns true if it ended just now.
    pub(crate) fn lapse_if_due(&mut self, now: Instant) -> bool {
        if self.lapsed || self.is_valid(now) {
            return false;
        }
        self.lapse()
    }

    /// Ends the current term, even if its time has not passed. Returns true if there was one to
    /// end.
    pub(crate) fn lapse(&mut self) -> bool {
        let ended = !self.lapsed;
        self.lapsed = true;
        self.term += u64::from(ended);
        if ended {
            self.lapsed_in = None;
        }
        ended
    }

    /// Notes that the process was paused for that long when the term ended, if it was.
    pub(crate) fn set_lapsed_in(&mut self, paused: Option<Duration>) {
        self.lapsed_in = paused;
    }

    /// Returns the length of the process pause in which the last term ended, if it ended in one.
    pub(crate) fn lapsed_in(&self) -> Option<Duration> {
        self.lapsed_in
    }

    /// Returns when [`lapse_if_due`](Self::lapse_if_due) next has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.lapsed { None } else { self.valid_until() }
    }

    pub(crate) fn claim(&mut self) {
        self.claims += 1;
    }

    pub(crate) fn unclaim(&mut self) {
        self.claims = self.claims.saturating_sub(1);
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claims > 0
    }

    /// Returns the longest time for which the lease permits that nothing is sent.
    pub(crate) fn touch_every(&self) -> Option<Duration> {
        let times = self.times.ok()?;
        Some(if self.is_claimed() { times.touch_every } else { times.idle_every })
    }

    /// Returns the next request that the lease needs, and when it is due. `up` is when the
    /// connection was established.
    pub(crate) fn request_due(&self, up: Instant) -> Option<(Instant, LeaseRequest)> {
        let times = self.times.ok()?;
        if self.is_claimed() {
            Some(self.claimed_request_due(&times, up))
        } else {
            self.idle_request_due(&times).map(|due| (due, LeaseRequest::Leader))
        }
    }

    fn claimed_request_due(&self, times: &LeaseTimes, up: Instant) -> (Instant, LeaseRequest) {
        let after = |last: Option<Instant>, every| last.map_or(up, |at| at + every);
        let quorum_every = if self.evidence.needs_owner_checks() {
            times.leader_every
        } else {
            times.quorum_every
        };
        let quorum = after(self.asked_quorum.max(self.answered_quorum), quorum_every);
        let asked = self.asked_leader.max(self.asked_quorum);
        let mut leader = after(asked.max(self.answered_leader), times.leader_every);
        // A lease that is to begin, or ends soon, is renewed as soon as another touch can be
        // proven.
        let soon = times.leader_every * 2;
        let ends_soon = self.lapsed || self.valid_until() < Some(leader + soon);
        if ends_soon {
            if let Some(proof) = self.evidence.next_proof() {
                leader = leader.min(proof.max(after(asked, times.touch_every)));
            }
        }
        leader = self.second_proof_due().map_or(leader, |proof| proof.min(leader));
        if quorum <= leader {
            (quorum, self.quorum_request())
        } else {
            (leader, LeaseRequest::Leader)
        }
    }

    /// Returns when an idle session sends a request to the leader, so that its evidence gets no gap.
    /// Otherwise the next lock would have to wait for the second proof.
    fn idle_request_due(&self, times: &LeaseTimes) -> Option<Instant> {
        let in_time = self.evidence.gap_after()?.checked_sub(times.leader_every)?;
        let proof = self.evidence.next_proof().map(|proof| proof.max(in_time));
        let due = [proof, self.second_proof_due()].into_iter().flatten().min()?;
        // A request that was not answered is not repeated at once.
        let asked = self.asked_leader.max(self.asked_quorum);
        let pause =
            if asked > self.answered_leader { times.idle_every } else { times.leader_every };
        Some(asked.map_or(due, |asked| due.max(asked + pause)))
    }

    /// Returns when a request can end the doubt after a gap, unless it was sent.
    fn second_proof_due(&self) -> Option<Instant> {
        let asked = self.asked_leader.max(self.asked_quorum).max(self.answered_leader);
        self.evidence.second_proof().filter(|proof| asked < Some(*proof))
    }

    /// Returns the request that makes a quorum agree.
    pub(crate) fn quorum_request(&self) -> LeaseRequest {
        if self.evidence.needs_owner_checks() {
            LeaseRequest::CheckedQuorum
        } else {
            LeaseRequest::Quorum
        }
    }

    /// Notes that a request that the lease needs is sent.
    pub(crate) fn request_sent(&mut self, request: LeaseRequest, now: Instant) {
        match request {
            LeaseRequest::Leader => self.asked_leader = Some(now),
            LeaseRequest::Quorum | LeaseRequest::CheckedQuorum => self.asked_quorum = Some(now),
        }
    }

    pub(crate) fn next_proof(&self) -> Option<Instant> {
        self.evidence.next_proof()
    }

    pub(crate) fn second_proof(&self) -> Option<Instant> {
        self.evidence.second_proof()
    }

    /// Returns the send time of the latest answered request that only a leader answers.
    pub(crate) fn answered_leader(&self) -> Option<Instant> {
        self.answered_leader
    }

    /// Returns the send time of the latest request that a quorum agreed to.
    pub(crate) fn answered_quorum(&self) -> Option<Instant> {
        self.answered_quorum
    }

    /// Returns the end of a claimed lease that a new connection could still save. Dropping one
    /// connection after the other gains nothing, so the connection established at `up` must have
    /// renewed the lease.
    pub(crate) fn end_to_prevent(&self, up: Instant) -> Option<Instant> {
        let is_renewed_here = self.answered_leader >= Some(up);
        if self.is_claimed() && is_renewed_here { self.deadline() } else { None }
    }
}

/// Returns whether the leader checks the owner of the session before it proposes such a write. It
/// checks it for each operation of a transaction, and an empty one has none.
fn owner_check(op: OpCode) -> OwnerCheck {
    let is_checked = matches!(
        op,
        OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::SetAcl
    );
    if is_checked { OwnerCheck::Checked } else { OwnerCheck::Unchecked }
}

/// Returns true for replies to a write that only a leader can send. A leader lets its followers
/// agree to a rejection as to a success. A follower may reject a write by itself, for its load, its
/// mode or its view of an ACL.
pub(crate) fn is_quorum_reply(code: ErrorCode) -> bool {
    [
        ErrorCode::OK,
        ErrorCode::NO_NODE,
        ErrorCode::NODE_EXISTS,
        ErrorCode::BAD_VERSION,
        ErrorCode::NOT_EMPTY,
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
    ]
    .contains(&code)
}
