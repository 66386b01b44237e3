//! Touch tables: how the leader learns which sessions of its followers are alive.
//!
//! A follower notes every session that sends it a packet, with the timeout that this follower has
//! granted (`LearnerSessionTracker.touchSession`). The leader pings its followers every half tick
//! (`Leader.lead`). A follower answers with its touch table and empties it (`Learner.ping`), and
//! the leader sets the clock of each session in it when the answer arrives (`LearnerHandler.run`).
//! A request that a follower forwards sets no clock: `LeaderZooKeeperServer.submitLearnerRequest`
//! hands it to `PrepRequestProcessor`, which only checks that the session is there.
//!
//! A follower handles the packets of its leader in order, in one thread (`Follower.processPacket`).
//! [`Ensemble::lag_flushes`] delays that thread, so it delays pings, commits, answers to `sync`
//! and answers to revalidations alike. The other direction is ordered, too: a touch table that
//! was sent before a request was forwarded reaches the leader first.

use std::time::{Duration, Instant};

use super::Ensemble;
use super::connection::ConnectionId;
use super::replication::Link;

/// The schedule on which a leader pings its followers.
#[derive(Debug)]
pub(crate) struct Pings {
    start: Instant,
    interval: Duration,
}

/// An answer of the leader that is on its way to a connection of a follower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) sent: Instant,
    /// The place in the log that the follower must have applied before.
    pub(crate) place: u64,
    pub(crate) connection: ConnectionId,
}

impl Pings {
    /// A leader that has just started waits for half a tick before its first ping.
    pub(crate) fn new(start: Instant, tick: Duration) -> Self {
        Self { start, interval: (tick / 2).max(Duration::from_millis(1)) }
    }

    /// A leader whose process was stopped for a while sends the ping that is overdue at once.
    pub(super) fn overdue(now: Instant, tick: Duration) -> Self {
        let pings = Self::new(now, tick);
        Self { start: now.checked_sub(pings.interval).unwrap_or(now), ..pings }
    }

    /// How many pings have been sent up to a time.
    fn sent_by(&self, at: Option<Instant>) -> u64 {
        let passed = at.and_then(|at| at.checked_duration_since(self.start)).unwrap_or_default();
        u64::try_from(passed.as_nanos() / self.interval.as_nanos()).unwrap_or(u64::MAX)
    }

    fn time_of(&self, number: u64) -> Instant {
        let nanos = self.interval.as_nanos().saturating_mul(number.into());
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
    }
}

impl Ensemble {
    /// Notes that a packet of a session has arrived at a server. False if the server does not know
    /// the session and drops the packet.
    pub(super) fn touch(&mut self, at: usize, session_id: i64, timeout_ms: i32) -> bool {
        let server = &mut self.servers[at];
        if server.local_sessions.contains_key(&session_id) {
            return true;
        }
        if at == self.leader {
            return self.sessions.touch(self.now, &self.clock, session_id, timeout_ms);
        }
        if let Some(own) = &mut server.isolated {
            return own.touch_unexpired(self.now, &self.clock, session_id, timeout_ms);
        }
        self.note_touch(at, session_id, timeout_ms);
        true
    }

    /// Puts a session into the touch table of a follower.
    pub(super) fn note_touch(&mut self, at: usize, session_id: i64, timeout_ms: i32) {
        if self.servers[at].touched.is_empty() {
            // Pings that the follower has answered with an empty table carry no later touch.
            self.handle_pings(at);
        }
        self.servers[at].touched.insert(session_id, timeout_ms);
    }

    /// Has a follower answer the pings that have reached it.
    pub(super) fn handle_pings(&mut self, at: usize) {
        if !self.is_following(at) {
            return;
        }
        let server = &mut self.servers[at];
        let sent = self.pings.sent_by(self.now.checked_sub(server.learner_lag));
        if sent <= server.pings_handled {
            return;
        }
        server.pings_handled = sent;
        for (session_id, timeout_ms) in std::mem::take(&mut server.touched) {
            self.sessions.touch(self.now, &self.clock, session_id, timeout_ms);
        }
    }

    /// Has every follower answer the pings that have reached it.
    pub(super) fn handle_all_pings(&mut self) {
        if self.servers.len() > 1 {
            (0..self.servers.len()).for_each(|at| self.handle_pings(at));
        }
    }

    /// When a follower sends a touch table that is not empty.
    pub(super) fn next_flush(&self, at: usize) -> Option<Instant> {
        let server = &self.servers[at];
        if server.touched.is_empty() || !self.is_following(at) {
            return None;
        }
        Some(self.pings.time_of(server.pings_handled + 1) + server.learner_lag)
    }

    /// Whether a follower is connected to a leader that works, and handles its packets.
    pub(super) fn is_following(&self, at: usize) -> bool {
        let server = &self.servers[at];
        let works = server.link == Link::Up && !server.stalled && !server.killed;
        works && at != self.leader && server.epoch == self.epoch && self.leader_works()
    }

    /// When the next answer of the leader reaches a follower that has applied what it needs for it.
    pub(super) fn next_answer(&self, at: usize) -> Option<Instant> {
        let server = &self.servers[at];
        let next = server.expected.iter().find(|next| next.place <= server.applied)?;
        Some(next.sent + server.learner_lag).filter(|_| self.is_following(at))
    }

    /// Lets connections go on whose answer of the leader has reached their follower.
    pub(super) fn take_answers(&mut self, at: usize) {
        if self.servers[at].expected.is_empty() || !self.is_following(at) {
            return;
        }
        let (now, server) = (self.now, &mut self.servers[at]);
        let (lag, applied) = (server.learner_lag, server.applied);
        let is_here = |it: &Expected| it.place <= applied && it.sent + lag <= now;
        let here = server.expected.iter().filter(|it| is_here(it)).map(|it| it.connection);
        self.resumable.extend(here);
        server.expected.retain(|it| !is_here(it));
    }

    /// Whether an answer that the leader sent then has reached a follower by now.
    pub(super) fn has_reached(&self, at: usize, sent: Instant) -> bool {
        sent + self.servers[at].learner_lag <= self.now
    }
}
