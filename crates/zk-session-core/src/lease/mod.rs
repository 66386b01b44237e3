//! The lease: until when can this client rely on its ephemeral nodes?
//!
//! Only the leader expires sessions, by a clock that a client cannot see. What the client does see
//! proves less than it seems to:
//!
//! * A ping is answered by the follower that the client is connected to. The leader learns of it
//!   with the follower's next flush, or never. A follower that is cut off goes on answering for up to
//!   `syncLimit` ticks, which is longer than most session timeouts.
//! * A `sync`, or a write, that a follower forwards does not touch the session at the leader:
//!   `LeaderZooKeeperServer.submitLearnerRequest` goes straight to the request processors, which
//!   only check that the session exists. A client that was quiet for most of its timeout and then
//!   writes through a follower that hangs before its next flush is expired by the touch from
//!   *before* the silence.
//! * A `sync` is also answered by a leader that has been replaced and has not noticed.
//!
//! [`evidence`] combines them into a bound that holds. While the lease is claimed, three requests
//! keep the bound young: a ping when nothing else was sent for a while, a `sync` for an answer
//! of the leader, and, less often, an empty transaction for the word of a quorum, the only one of
//! the three that the servers log.

mod evidence;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::evidence::Evidence;
use super::Settings;
use crate::planted::Planted;
use crate::{LeaseAssumptions, LeaseImpossible, LeaseTimes, SessionCredentials};

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Lease {
    assumptions: LeaseAssumptions,
    /// The times that follow from the timeout in force, if a lease is possible with it.
    times: Result<LeaseTimes, LeaseImpossible>,
    evidence: Evidence,
    /// When the leader, and when a quorum, was last asked by this module. Other requests do not count
    /// before they are answered: a server may refuse them on the way to the leader, and a row of
    /// such requests must not starve the lease.
    asked_leader: Option<Instant>,
    asked_quorum: Option<Instant>,
    /// The latest send time of a request that only a leader answers, and that was answered.
    answered_leader: Option<Instant>,
    /// Counts the times the lease ran out. A belief is bound to one term, so it
    /// can never come back to life when a later request is answered.
    term: u64,
    lapsed: bool,
    claims: usize,
}

/// What a claimed lease needs sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseRequest {
    /// A `sync`.
    Leader,
    /// An empty transaction.
    Quorum,
}

impl Lease {
    pub(super) fn new(settings: &Settings) -> Self {
        let resumed = settings.resume.as_ref().and_then(SessionCredentials::shortest_timeout);
        Self {
            times: settings.lease_assumptions.times(settings.session_timeout),
            assumptions: settings.lease_assumptions,
            evidence: Evidence::new(resumed),
            asked_leader: None,
            asked_quorum: None,
            answered_leader: None,
            term: 0,
            lapsed: true,
            claims: 0,
        }
    }

    /// The shortest timeout granted so far.
    pub(super) fn shortest_timeout(&self) -> Option<Duration> {
        self.evidence.timeout()
    }

    /// Why there can be no lease with the timeout in force, if so.
    pub(super) fn impossible(&self) -> Option<LeaseImpossible> {
        self.times.err()
    }

    /// A connect request leaves.
    pub(super) fn handshake_sent(&mut self, now: Instant) {
        self.evidence.handshake_sent(now);
    }

    /// The server has accepted the session, and grants this timeout.
    pub(super) fn handshake_accepted(&mut self, timeout: Duration, now: Instant) {
        self.evidence.handshake_accepted(timeout);
        self.times = self.assumptions.times(self.evidence.timeout().unwrap_or(timeout));
        if let Ok(times) = self.times {
            self.evidence.set_flush_bound(times.flush_bound);
        }
        // Nothing of what was asked on the last connection will be answered.
        self.asked_leader = self.answered_leader;
        self.asked_quorum = self.answered_quorum();
        self.revive(now);
    }

    /// A packet sent at `sent` was answered that touches the session.
    pub(super) fn touch_answered(&mut self, sent: Instant, now: Instant) {
        self.evidence.touch_answered(sent, now);
    }

    /// A request sent at `sent` was answered, and only a leader answers it.
    pub(super) fn leader_answered(&mut self, sent: Instant, now: Instant) {
        if Planted::SyncIsQuorum.is_on() {
            return self.quorum_agreed(sent, now);
        }
        self.lapse_if_due(now);
        self.answered_leader = self.answered_leader.max(Some(sent));
        self.evidence.leader_answered(sent);
        self.revive(now);
    }

    /// A request sent at `sent` was answered, and a quorum had to agree to the answer.
    pub(super) fn quorum_agreed(&mut self, sent: Instant, now: Instant) {
        self.lapse_if_due(now);
        self.answered_leader = self.answered_leader.max(Some(sent));
        self.evidence.quorum_agreed(sent);
        self.revive(now);
    }

    fn revive(&mut self, now: Instant) {
        if self.valid_until().is_some_and(|until| now < until) {
            self.lapsed = false;
        }
    }

    /// Until when the lease holds, if it does hold.
    pub(super) fn valid_until(&self) -> Option<Instant> {
        self.evidence.expires_after()?.checked_sub(self.times.ok()?.ends_early)
    }

    /// The time from which the session timeout counts, whoever leads.
    pub(super) fn proven_at(&self) -> Option<Instant> {
        self.evidence.counts_from()
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        !self.lapsed && self.valid_until().is_some_and(|until| now < until)
    }

    /// True if the lease can be renewed before it ends. A guard that began with one that cannot would be
    /// lost though all is well: after a handshake that took most of the timeout, or a long silence.
    ///
    /// The request that proves the next touch takes a round trip. Of a longer one than requests to the
    /// leader are apart only that much counts: then a lease that is kept renewed may end as well, and
    /// nobody would get a lock.
    pub(super) fn is_renewable(&self, round_trip: Duration) -> bool {
        let Ok(times) = self.times else { return false };
        let takes = round_trip.clamp(times.touch_every, times.leader_every);
        let proof = self.evidence.next_proof().map(|proof| proof + takes);
        proof.is_some() && proof < self.valid_until()
    }

    pub(super) fn term(&self) -> u64 {
        self.term
    }

    /// Ends the current term if its time is over; true if it ended just now.
    pub(super) fn lapse_if_due(&mut self, now: Instant) -> bool {
        if self.lapsed || self.is_valid(now) {
            return false;
        }
        self.lapse()
    }

    /// Ends the current term, whatever the time; true if there was one to end.
    pub(super) fn lapse(&mut self) -> bool {
        let ended = !self.lapsed;
        self.lapsed = true;
        self.term += u64::from(ended && !Planted::LeaseRevives.is_on());
        ended
    }

    /// When [`lapse_if_due`](Self::lapse_if_due) has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.valid_until().filter(|_| !self.lapsed)
    }

    pub(super) fn claim(&mut self) {
        self.claims += 1;
    }

    pub(super) fn unclaim(&mut self) {
        self.claims = self.claims.saturating_sub(1);
    }

    /// True while something depends on the lease, so that it must be kept renewed.
    pub(super) fn is_claimed(&self) -> bool {
        self.claims > 0
    }

    /// How long nothing may be sent while the lease is claimed.
    pub(super) fn touch_every(&self) -> Option<Duration> {
        self.times.ok().filter(|_| self.is_claimed()).map(|times| times.touch_every)
    }

    /// The next request that a claimed lease needs, and when it is due. `up` is when the connection
    /// came up.
    pub(super) fn request_due(&self, up: Instant) -> Option<(Instant, LeaseRequest)> {
        let times = self.times.ok().filter(|_| self.is_claimed())?;
        if Planted::LeaseFedByPings.is_on() {
            return None;
        }
        let after = |last: Option<Instant>, every| last.map_or(up, |at| at + every);
        let quorum = after(self.asked_quorum.max(self.answered_quorum()), times.quorum_every);
        let asked = self.asked_leader.max(self.asked_quorum);
        let mut leader = after(asked.max(self.answered_leader), times.leader_every);
        // A lease that is to begin, or ends soon, is renewed as soon as anything more can be proven.
        let soon = times.leader_every * 2;
        let ends_soon = self.lapsed || self.valid_until() < Some(leader + soon);
        if let Some(proof) = self.evidence.next_proof().filter(|_| ends_soon) {
            leader = leader.min(proof.max(after(asked, times.touch_every)));
        }
        Some(match quorum <= leader && !Planted::NewLeaderIgnored.is_on() {
            true => (quorum, LeaseRequest::Quorum),
            false => (leader, LeaseRequest::Leader),
        })
    }

    /// A request of this module leaves.
    pub(super) fn asked(&mut self, request: LeaseRequest, now: Instant) {
        match request {
            LeaseRequest::Leader => self.asked_leader = Some(now),
            LeaseRequest::Quorum => self.asked_quorum = Some(now),
        }
    }

    /// The earliest time at which a request to the leader can prove another touch.
    pub(super) fn next_proof(&self) -> Option<Instant> {
        self.evidence.next_proof()
    }

    /// When the last request was sent that only a leader answers, and that was answered.
    pub(super) fn answered_leader(&self) -> Option<Instant> {
        self.answered_leader
    }

    /// When the last request was sent that a quorum agreed to.
    pub(super) fn answered_quorum(&self) -> Option<Instant> {
        self.evidence.agreed()
    }

    /// True if the leader has answered anything that was sent since `up`.
    pub(super) fn is_renewed_since(&self, up: Instant) -> bool {
        self.answered_leader >= Some(up)
    }
}
