//! Statistics of the session.

use std::time::Instant;

use super::Session;
use crate::{Handles, LeaseStats, Stats};

impl<H: Handles> Session<H> {
    /// Returns the number of established connections that were lost.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.connection.lost_count()
    }

    /// Returns a snapshot of the session's statistics at `now`.
    #[must_use]
    pub fn stats(&self, now: Instant) -> Stats {
        let [one_shot_watches, recursive_watches, persistent_watches] = self.watches.counts();
        let mut stats = Stats {
            session_id: self.identity.session_id(),
            connected_to: self.connection.host().cloned(),
            clean_up_pending: self.clean_up.pending(),
            connections_lost: self.connection.lost_count(),
            one_shot_watches,
            recursive_watches,
            persistent_watches,
            lease_left: self
                .lease_promised_until(now)
                .map(|until| until.saturating_duration_since(now)),
            lease: self.lease_stats(now),
            ..self.counters.clone()
        };
        self.requests.describe(&mut stats);
        stats
    }

    fn lease_stats(&self, now: Instant) -> LeaseStats {
        let age = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        LeaseStats {
            proven: age(self.lease.proven_at()),
            leader_answered: age(self.lease.answered_leader()),
            quorum_answered: age(self.lease.answered_quorum()),
            oldest_unanswered: age(self.requests.oldest().map(|sent| sent.at)),
        }
    }
}
