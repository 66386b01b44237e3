//! The lease: until when may this client believe that its ephemeral nodes exist?
//!
//! A follower answers pings by itself, and goes on doing so for up to
//! `syncLimit` ticks after the leader has expired the session. Whoever counts
//! pings, or a connection that is up, holds a lock for seconds after somebody
//! else got it. A `sync` is not enough either: a leader that has lost its
//! followers answers it alone, for as long as it takes it to notice, while
//! another leader has begun to count the session's timeout.
//!
//! So the lease is fed by one thing only: the *send* time of a request that a
//! quorum has agreed to, which is a write. While the lease is claimed and nothing
//! else is written, an empty transaction is the heartbeat.

use std::time::{Duration, Instant};

use crate::planted::Planted;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Lease {
    timeout: Duration,
    margin: Duration,
    margin_override: Option<Duration>,
    acked_send: Option<Instant>,
    /// How long that lasts: by the shortest timeout that was in force since.
    reach: Duration,
    /// Counts the times the lease ran out. A belief is bound to one term, so it
    /// can never come back to life when a later request is answered.
    term: u64,
    lapsed: bool,
    claims: usize,
}

impl Lease {
    pub(super) fn new(margin_override: Option<Duration>) -> Self {
        Self {
            timeout: Duration::ZERO,
            margin: Duration::ZERO,
            margin_override,
            acked_send: None,
            reach: Duration::ZERO,
            term: 0,
            lapsed: true,
            claims: 0,
        }
    }

    /// Takes over the session timeout the server decided on.
    ///
    /// The margin, a quarter by default, covers that a follower tells the leader
    /// of the sessions it has seen only every half tick (a session timeout is at
    /// least two ticks), and clocks that do not run at the same rate.
    pub(super) fn negotiated(&mut self, timeout: Duration) {
        self.timeout = timeout;
        // A heartbeat is due every sixth of the timeout: a lease that ended before
        // the second one is answered would be lost all the time.
        self.margin = self.margin_override.unwrap_or(timeout / 4).min(timeout / 2);
        // What a quorum has agreed to is older than a longer timeout that one server grants.
        self.reach = self.reach.min(self.timeout - self.margin);
    }

    /// A request sent at `sent` was answered, and the answer had to be agreed to.
    pub(super) fn quorum_answered(&mut self, sent: Instant, now: Instant) {
        self.lapse_if_due(now);
        let sent = if Planted::LeaseFromAnswer.is_on() { now + self.margin } else { sent };
        if self.acked_send.is_none_or(|before| sent > before) {
            self.acked_send = Some(sent);
            self.reach = self.timeout - self.margin;
        }
        if self.valid_until().is_some_and(|until| now < until) {
            self.lapsed = false;
        }
    }

    /// The latest send time that feeds the lease.
    pub(super) fn fed(&self) -> Option<Instant> {
        self.acked_send
    }

    /// Until when the lease holds, if it does hold.
    pub(super) fn valid_until(&self) -> Option<Instant> {
        self.acked_send.map(|sent| sent + self.reach)
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        !self.lapsed && self.valid_until().is_some_and(|until| now < until)
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

    /// True while something depends on the lease, so that it must be kept fed.
    pub(super) fn is_claimed(&self) -> bool {
        self.claims > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn runs_from_the_send_time_and_never_revives_a_term() {
        let start = Instant::now();
        let at = |ms: u32| start + MS * ms;
        let mut lease = Lease::new(None);
        assert!(!lease.is_valid(at(0)));
        assert!(!lease.lapse_if_due(at(0)), "what never began cannot end");

        lease.negotiated(4000 * MS);
        lease.quorum_answered(at(100), at(900));
        assert_eq!(lease.valid_until(), Some(at(3100)));
        assert!(lease.is_valid(at(3099)) && !lease.is_valid(at(3100)));

        // An answer to an older request changes nothing.
        lease.quorum_answered(at(50), at(950));
        assert_eq!(lease.valid_until(), Some(at(3100)));

        // An answer that comes after the end starts a new term, even though it
        // answers a request that was sent within the old one.
        let term = lease.term();
        lease.quorum_answered(at(3000), at(3200));
        assert_eq!(lease.term(), term + 1);
        assert!(lease.is_valid(at(3200)));
        assert!(lease.lapse_if_due(at(6000)));
        assert!(!lease.lapse_if_due(at(6001)), "a term ends once");

        // An answer so late that its own lease is over gives no lease at all.
        lease.quorum_answered(at(6100), at(9200));
        assert!(!lease.is_valid(at(9200)));
        assert_eq!(lease.deadline(), None);
    }
}
