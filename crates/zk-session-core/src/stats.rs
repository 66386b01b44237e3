//! A session in numbers.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Handles, Session};
use crate::Host;

/// A snapshot of a session. Counters begin with the client and never go back.
/// `Debug` prints the session's id in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The session's id; 0 if there is none yet.
    pub session_id: i64,
    /// The server that requests flow to, if they do.
    pub connected_to: Option<Host>,
    /// Requests that were sent and are not answered, the session's own included.
    pub in_flight: usize,
    /// Requests that wait for a connection.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Bytes of requests sent that the connection has not taken yet.
    pub unwritten_bytes: usize,
    /// Guaranteed deletes that no server has answered yet.
    pub clean_up_pending: usize,
    /// Frames made for a server, handshakes and pings included.
    pub frames_sent: u64,
    /// Bytes that connections have taken.
    pub bytes_sent: u64,
    /// Frames that came from servers.
    pub frames_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// How often a connection was lost that had been up.
    pub connections_lost: u64,
    /// How long the last answered ping took: the way to the server and back.
    pub ping_round_trip: Option<Duration>,
    /// How long the last answered request of the lease took: to the leader and back, or a round of
    /// the quorum.
    pub heartbeat_round_trip: Option<Duration>,
    /// One-shot watches that have not fired.
    pub one_shot_watches: usize,
    /// Streams of events of a node and all below it.
    pub recursive_watches: usize,
    /// Streams of events of a node and its list of children.
    pub persistent_watches: usize,
    /// How long the lease is still valid if nothing more arrives; `None` if it is not valid.
    pub lease_left: Option<Duration>,
    /// What the lease rests on, to tell why it ended.
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

/// What a lease rests on. All times are ages: how long ago it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// The time from which the session timeout counts, by what is proven.
    pub proven: Option<Duration>,
    /// The last request that only a leader answers was sent, and was answered.
    pub leader_answered: Option<Duration>,
    /// The last request that a quorum agreed to was sent, and was answered.
    pub quorum_answered: Option<Duration>,
    /// The oldest request without an answer was sent.
    pub oldest_unanswered: Option<Duration>,
}

/// What is counted as it happens.
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
    /// How often a connection was lost that had been up.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.counters.connections_lost
    }

    /// The session in numbers, at this moment.
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
            clean_up_pending: self.chores.len() + self.chores.backlog(),
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
