//! Statistics of a session.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Handles, Session};
use crate::Host;

/// Snapshot of the statistics of a session. Counters begin with the client and never decrease.
///
/// `Debug` prints the session's id in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Id of the session; 0 if there is none yet.
    pub session_id: i64,
    /// Server to which requests are sent, while connected.
    pub connected_to: Option<Host>,
    /// Number of requests that were sent and are not answered, including the session's own.
    pub in_flight: usize,
    /// Number of requests that wait for a connection.
    pub queued: usize,
    /// Bytes of the requests that wait for a connection.
    pub queued_bytes: usize,
    /// Bytes of sent requests that the connection has not accepted yet.
    pub unwritten_bytes: usize,
    /// Number of guaranteed deletes that no server has answered yet.
    pub clean_up_pending: usize,
    /// Number of frames encoded for servers, including handshakes and pings.
    pub frames_sent: u64,
    /// Number of bytes that connections have accepted.
    pub bytes_sent: u64,
    /// Number of frames received from servers.
    pub frames_received: u64,
    /// Bytes of the frames received from servers.
    pub bytes_received: u64,
    /// Number of established connections that were lost.
    pub connections_lost: u64,
    /// Round-trip time of the last answered ping, to the server and back.
    pub ping_round_trip: Option<Duration>,
    /// Round-trip time of the last answered lease request, to the leader and back or including a
    /// round of the quorum.
    pub heartbeat_round_trip: Option<Duration>,
    /// Number of one-shot watches that have not fired.
    pub one_shot_watches: usize,
    /// Number of persistent watches of a node and all its descendants.
    pub recursive_watches: usize,
    /// Number of persistent watches of a node and its list of children.
    pub persistent_watches: usize,
    /// Time for which the lease stays valid if nothing more arrives; `None` if it is not valid.
    pub lease_left: Option<Duration>,
    /// Evidence for the lease, which explains why it ended.
    pub lease: LeaseStats,
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stats")
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("connected_to", &self.connected_to)
            .field("in_flight", &self.in_flight)
            .field("queued", &self.queued)
            .field("queued_bytes", &self.queued_bytes)
            .field("unwritten_bytes", &self.unwritten_bytes)
            .field("clean_up_pending", &self.clean_up_pending)
            .field("frames_sent", &self.frames_sent)
            .field("bytes_sent", &self.bytes_sent)
            .field("frames_received", &self.frames_received)
            .field("bytes_received", &self.bytes_received)
            .field("connections_lost", &self.connections_lost)
            .field("ping_round_trip", &self.ping_round_trip)
            .field("heartbeat_round_trip", &self.heartbeat_round_trip)
            .field("one_shot_watches", &self.one_shot_watches)
            .field("recursive_watches", &self.recursive_watches)
            .field("persistent_watches", &self.persistent_watches)
            .field("lease_left", &self.lease_left)
            .field("lease", &self.lease)
            .finish()
    }
}

/// Evidence for a lease. All values are ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// Age of the time from which the session timeout counts, by the evidence so far.
    pub proven: Option<Duration>,
    /// Time since the last answered request that only a leader answers was sent.
    pub leader_answered: Option<Duration>,
    /// Time since the last answered request that a quorum agreed to was sent.
    pub quorum_answered: Option<Duration>,
    /// Time since the oldest unanswered request was sent.
    pub oldest_unanswered: Option<Duration>,
}

/// Counters, updated when something happens.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) bytes_sent: u64,
    pub(super) frames_received: u64,
    pub(super) bytes_received: u64,
    pub(super) connections_lost: u64,
    pub(super) ping_round_trip: Option<Duration>,
    pub(super) heartbeat_round_trip: Option<Duration>,
}

impl<H: Handles> Session<H> {
    /// Returns the number of established connections that were lost.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.counters.connections_lost
    }

    /// Returns a snapshot of the session's statistics at `now`.
    #[must_use]
    pub fn stats(&self, now: Instant) -> Stats {
        let [one_shot_watches, recursive_watches, persistent_watches] = self.watches.counts();
        Stats {
            session_id: self.identity.session_id,
            connected_to: self.is_connected().then(|| self.hosts.serving().clone()),
            in_flight: self.inflight.iter().count(),
            queued: self.queue.len(),
            queued_bytes: self.queue.bytes(),
            unwritten_bytes: self.outbound.unwritten(),
            clean_up_pending: self.cleanup_tasks.len() + self.cleanup_tasks.backlog(),
            frames_sent: self.outbound.frames(),
            bytes_sent: self.counters.bytes_sent,
            frames_received: self.counters.frames_received,
            bytes_received: self.counters.bytes_received,
            connections_lost: self.counters.connections_lost,
            ping_round_trip: self.counters.ping_round_trip,
            heartbeat_round_trip: self.counters.heartbeat_round_trip,
            one_shot_watches,
            recursive_watches,
            persistent_watches,
            lease_left: self.lease(now).map(|(_, until)| until.saturating_duration_since(now)),
            lease: self.lease_stats(now),
        }
    }

    fn lease_stats(&self, now: Instant) -> LeaseStats {
        let age = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        LeaseStats {
            proven: age(self.lease.proven_at()),
            leader_answered: age(self.lease.answered_leader()),
            quorum_answered: age(self.lease.answered_quorum()),
            oldest_unanswered: age(self.inflight.oldest().map(|sent| sent.at)),
        }
    }
}
