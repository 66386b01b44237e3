//! Invariants of a session between any two calls, for tests only.

use super::link::Link;
use super::{Handles, Session};
use crate::limits::{CLEANUPS_MAX, CREDENTIALS_MAX, REQUESTS_MAX};

impl<H: Handles> Session<H> {
    /// Checks the whole state, after the outputs were drained.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        assert!(self.outputs.is_empty(), "the outputs are drained after each call");
        match self.link {
            Link::Ended(_) => self.check_nothing_is_left(),
            Link::Up => self.check_link_is_up(),
            Link::Waiting { .. } | Link::Connecting { .. } | Link::Handshaking { .. } => {
                assert_eq!(self.inflight.len(), 0, "what was under way is told with the loss");
                assert!(self.search.is_none(), "nothing is probed without a connection");
            }
        }
        assert!(self.queue.len() <= REQUESTS_MAX);
        assert!(self.cleanup_tasks.len() <= CLEANUPS_MAX);
        let is_busy = self.cleanup_tasks.len() > 0;
        assert!(self.cleanup_tasks.backlog() == 0 || is_busy, "nothing waits in line for nothing");
        assert!(self.credentials.len() <= CREDENTIALS_MAX);
        assert_eq!(
            self.next_deadline().is_none(),
            self.end_reason().is_some(),
            "a deadline till the end"
        );
        self.check_lease_is_covered();
    }

    fn check_link_is_up(&self) {
        assert!(
            self.identity.session_id != 0 || self.search.is_some(),
            "no session, and connected"
        );
        assert_eq!(self.queue.len(), 0, "nothing waits for a connection that is there");
        let mut last = None;
        for sent in self.inflight.iter() {
            // A request that overtook others has the position of the request after it.
            assert!(last <= Some(sent.offset), "requests are in the stream in their order");
            last = Some(sent.offset);
        }
    }

    /// Checks that the lease ends within the timeout after a packet that was sent.
    fn check_lease_is_covered(&self) {
        let Some((until, proven)) = self.lease.valid_until().zip(self.lease.proven_at()) else {
            return;
        };
        assert!(until <= proven + self.identity.timeout, "a lease beyond the timeout");
        if self.end_reason().is_some() || self.closing.is_some() {
            assert_eq!(self.lease(proven), None, "no lease is valid once the end has begun");
        }
    }

    fn check_nothing_is_left(&self) {
        assert_eq!((self.inflight.len(), self.queue.len()), (0, 0));
        assert_eq!(
            (self.cleanup_tasks.len(), self.cleanup_tasks.backlog(), self.watches.len()),
            (0, 0, 0)
        );
        assert_eq!((self.queue.bytes(), self.outbound.unwritten()), (0, 0));
        assert!(self.credentials.is_empty() && self.search.is_none());
    }
}
