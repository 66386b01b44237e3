//! The lease, as callers see it.

use std::time::{Duration, Instant};

use proto::{Multi, Ping, Sync};

use super::Session;
use crate::lease::LeaseRequest;
use crate::vocabulary::DELETE_NOTHING;
use crate::{Failure, Handles, LeaseImpossible, LeaseState, Output, ReplyTo, RequestId};

/// Empty transaction. It needs no permission and leaves no trace but its zxid. Servers log
/// rejections, and an empty transaction contains nothing to reject.
const HEARTBEAT: Multi<'static> = Multi::new(&[]);

impl<H: Handles> Session<H> {
    /// Claims the lease. Requests keep it renewed until [`unclaim_lease`](Self::unclaim_lease) was
    /// called as often.
    pub fn claim_lease(&mut self) {
        self.lease.claim();
    }

    /// Releases one claim.
    pub fn unclaim_lease(&mut self) {
        self.lease.unclaim();
    }

    /// Requests the agreement of a quorum, which renews the lease, on behalf of a caller. The
    /// session postpones its own request of that kind.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn renew_lease(
        &mut self,
        now: Instant,
        to: impl Into<ReplyTo<H::Reply>>,
    ) -> Result<RequestId, Failure> {
        let request = self.lease.quorum_request();
        let is_open = self.is_connected() && self.closing.is_none();
        if is_open && request == LeaseRequest::CheckedQuorum {
            self.send_lease_request(now, None, request);
        }
        let id = self.submit(now, &HEARTBEAT, to, None)?;
        if self.is_connected() {
            self.lease.request_sent(request, now);
        }
        Ok(id)
    }

    /// Returns the term and the end of the lease, if the lease is valid at `now`. Until that end no
    /// leader can have removed the ephemeral nodes of this session. A guard is bound to the term.
    #[must_use]
    pub fn lease(&self, now: Instant) -> Option<(u64, Instant)> {
        // Once closeSession is sent, the server may delete the nodes at any moment, however late
        // its reply arrives.
        if self.end_begun().is_some() || !self.lease.is_valid(now) {
            return None;
        }
        self.lease.valid_until().map(|until| (self.lease.term(), until))
    }

    /// Returns how much of the lease after `now` nothing can take back, if the lease is valid: neither
    /// a reconnect of this session, nor a shorter timeout that a server grants.
    #[must_use]
    pub fn lease_promised_until(&self, now: Instant) -> Option<Instant> {
        self.lease(now).and_then(|_| self.lease.promised_until(now))
    }

    /// Returns the term to which a new guard can be bound. The lease must be valid, and renewable
    /// before it ends.
    #[must_use]
    pub fn term_to_bind(&self, now: Instant) -> Option<u64> {
        let round_trip = self.requests.liveness().round_trip();
        let (term, _) = self.lease(now)?;
        if self.lease.is_renewable(round_trip) { Some(term) } else { None }
    }

    /// Returns the earliest time from which the session timeout counts, whichever server leads, by
    /// the evidence so far.
    #[must_use]
    pub fn lease_proven_at(&self) -> Option<Instant> {
        self.lease.proven_at()
    }

    /// Returns the earliest time at which a request ends the doubt of a gap in the evidence, if there
    /// is one.
    #[must_use]
    pub fn lease_second_proof_due(&self) -> Option<Instant> {
        self.lease.second_proof()
    }

    /// Returns the earliest time at which a request can renew a lease that has ended.
    #[must_use]
    pub fn lease_proof_due(&self) -> Option<Instant> {
        self.lease.next_proof()
    }

    /// Returns why the session timeout in force makes a lease impossible, if it does.
    #[must_use]
    pub fn lease_impossible(&self) -> Option<LeaseImpossible> {
        self.lease.impossible()
    }

    /// Returns true if the holder of a lock, or the next contender in line, claims the lease.
    #[must_use]
    pub fn is_lease_claimed(&self) -> bool {
        self.lease.is_claimed()
    }

    /// Returns the state on which the validity of a guard depends.
    #[must_use]
    pub fn lease_state(&self) -> LeaseState {
        LeaseState {
            term: self.lease.term(),
            closing: self.closing_as(),
            ended: self.end_reason(),
            paused: self.lease.lapsed_in(),
        }
    }

    /// Returns the same as [`lease_state`](Self::lease_state), and also covers a lease that ended
    /// after the driver's last turn.
    #[must_use]
    pub fn lease_state_at(&self, now: Instant) -> LeaseState {
        let is_over = self.lease.deadline().is_some_and(|until| until <= now);
        if is_over {
            LeaseState { paused: self.paused_since_proof(now), ..self.lease_state() }
        } else {
            self.lease_state()
        }
    }

    fn paused_since_proof(&self, now: Instant) -> Option<Duration> {
        self.pauses.since(self.lease.proven_at()?, now)
    }

    /// Ends the term of the lease if the lease is over. Methods that receive the time call this
    /// first, so that no late input can prolong the lease.
    pub(super) fn check_lease(&mut self, now: Instant) {
        if self.lease.lapse_if_due(now) {
            self.lease.set_lapsed_in(self.paused_since_proof(now));
            self.report_lease_state();
        }
    }

    pub(super) fn report_lease_state(&mut self) {
        let state = self.lease_state();
        self.outputs.push(Output::LeaseState(state));
    }

    /// Returns the next request that the lease needs, and when it is due.
    pub(super) fn lease_request_due(&self) -> Option<(Instant, LeaseRequest)> {
        let up = self.requests.liveness().up();
        let (due, request) = self.lease.request_due(up)?;
        // A read-only server has no leader.
        let is_wanted = self.is_connected() && self.closing.is_none() && !self.is_read_only();
        is_wanted.then_some((due, request))
    }

    /// Sends a request that the lease needs, with an optional ping in front of it; see
    /// [`crate::lease`].
    pub(super) fn send_lease_request(
        &mut self,
        now: Instant,
        ping: Option<Ping>,
        request: LeaseRequest,
    ) {
        match request {
            LeaseRequest::Leader => {
                self.requests.send_heartbeat(now, &Sync { path: "/".into() }, ping)
            }
            LeaseRequest::Quorum if self.vocabulary.has_empty_multi() => {
                self.requests.send_heartbeat(now, &HEARTBEAT, ping)
            }
            LeaseRequest::Quorum | LeaseRequest::CheckedQuorum => {
                self.requests.send_heartbeat(now, &DELETE_NOTHING, ping)
            }
        }
        self.lease.request_sent(request, now);
    }
}
