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
            frames_received: self.counters.frames_received,
            bytes_received: self.counters.bytes_received,
            connections_lost: self.connection.lost_count(),
            ping_round_trip: self.counters.ping_round_trip,
            heartbeat_round_trip: self.counters.heartbeat_round_trip,
            one_shot_watches,
            recursive_watches,
            persistent_watches,
            lease_left: self.lease(now).map(|(_, until)| until.saturating_duration_since(now)),
            lease: self.lease_stats(now),
            ..Stats::default()
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
            oldest_unanswered: age(self.requests.oldest_sent_at()),
        }
    }
}
