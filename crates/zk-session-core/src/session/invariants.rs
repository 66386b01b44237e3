//! Invariants of a session between any two calls, for tests only.

use super::Session;
use crate::limits::REQUESTS_MAX;
use crate::{Handles, Stats};

impl<H: Handles> Session<H> {
    /// Checks the whole state, after the outputs were drained.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let mut requests = Stats::default();
        self.requests.describe(&mut requests);
        assert!(self.outputs.is_empty(), "the outputs are drained after each call");
        if self.end_reason().is_some() {
            self.check_nothing_is_left(&requests);
        } else if self.is_connected() {
            let has_session = self.identity.exists() || self.is_read_only();
            assert!(has_session, "no session, and connected");
            assert_eq!(requests.queued, 0, "nothing waits for a connection that is there");
            self.requests.check_order();
        } else {
            assert_eq!(requests.in_flight, 0, "what was under way is told with the loss");
            assert!(!self.is_read_only(), "nothing is probed without a connection");
        }
        assert!(requests.queued <= REQUESTS_MAX);
        self.requests.check_deadlines(self.clean_up.pending() + self.credentials.waiting());
        self.clean_up.check();
        self.credentials.check();
        assert_eq!(
            self.next_deadline().is_none(),
            self.end_reason().is_some(),
            "a deadline till the end"
        );
        self.check_lease_is_covered();
    }

    /// Checks that the lease ends within the timeout after a packet that was sent.
    fn check_lease_is_covered(&self) {
        let Some((until, proven)) = self.lease.valid_until().zip(self.lease.proven_at()) else {
            return;
        };
        assert!(until <= proven + self.identity.timeout(), "a lease beyond the timeout");
        if self.end_begun().is_some() {
            assert_eq!(self.lease(proven), None, "no lease is valid once the end has begun");
        }
    }

    fn check_nothing_is_left(&self, requests: &Stats) {
        assert_eq!((requests.in_flight, requests.queued), (0, 0));
        assert_eq!((requests.queued_bytes, requests.unwritten_bytes), (0, 0));
        assert_eq!(self.requests.next_deadline(), None, "no caller waits");
        assert_eq!((self.clean_up.pending(), self.watches.len()), (0, 0));
        assert!(self.credentials.is_empty() && !self.is_read_only());
    }
}
