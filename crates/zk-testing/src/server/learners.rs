//! Touch tables: how followers report their live sessions to the leader.
//!
//! A follower records every session that sends it a packet, with the timeout that this follower has
//! granted (`LearnerSessionTracker.touchSession`). The leader pings its followers every half tick
//! (`Leader.lead`). A follower answers a ping with its touch table and empties it (`Learner.ping`).
//! When the answer arrives, the leader resets the clock of each session in the table
//! (`LearnerHandler.run`). A request that a follower forwards resets no clock:
//! `LeaderZooKeeperServer.submitLearnerRequest` passes it to `PrepRequestProcessor`, which only
//! checks that the session exists.
//!
//! A follower handles the packets of its leader in order, in one thread (`Follower.processPacket`).
//! [`Ensemble::lag_flushes`] delays that thread, and with it pings, commits, answers to `sync` and
//! answers to revalidations. The other direction is ordered too: a touch table sent before a
//! forwarded request reaches the leader first.

use std::time::{Duration, Instant};

use proto::SessionId;

use super::Ensemble;
use super::connection_id::ConnectionId;
use super::link::Link;
use super::observer::SessionStep;
use super::sessions::duration;

/// Schedule of the leader's pings to its followers.
#[derive(Debug)]
pub(crate) struct Pings {
    start: Instant,
    interval: Duration,
}

/// Answer of the leader on its way to a connection of a follower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) sent: Instant,
    /// Position in the log that the follower must have applied first.
    pub(crate) place: u64,
    pub(crate) connection: ConnectionId,
}

impl Pings {
    /// Creates the schedule of a new leader: it sends its first ping after half a tick.
    pub(crate) fn new(start: Instant, tick: Duration) -> Self {
        Self { start, interval: (tick / 2).max(Duration::from_millis(1)) }
    }

    /// Creates the schedule of a leader that was stopped: it sends the overdue ping at once.
    pub(super) fn overdue(now: Instant, tick: Duration) -> Self {
        let pings = Self::new(now, tick);
        Self { start: now.checked_sub(pings.interval).unwrap_or(now), ..pings }
    }

    /// Returns the number of pings sent up to a time.
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
    /// Records that a packet of a session has arrived at a server. Returns false if the server does
    /// not accept the session and drops the packet.
    pub(super) fn touch(&mut self, at: usize, session_id: SessionId, timeout_ms: i32) -> bool {
        let server = &mut self.servers[at];
        if server.read_only {
            return !self.settings.local_sessions
                || server.local_sessions.contains_key(&session_id);
        }
        if at == self.leader {
            let is_alive = self.sessions.touch(self.now, &self.clock, session_id, timeout_ms);
            if is_alive {
                self.tell_step(SessionStep::Touched(session_id, duration(timeout_ms)));
            }
            return is_alive;
        }
        if let Some(own) = &mut server.isolated {
            return own.touch_unexpired(self.now, &self.clock, session_id, timeout_ms);
        }
        self.note_touch(at, session_id, timeout_ms);
        true
    }

    /// Adds a session to the touch table of a follower.
    pub(super) fn note_touch(&mut self, at: usize, session_id: SessionId, timeout_ms: i32) {
        if self.servers[at].touched.is_empty() {
            // The follower has answered earlier pings with an empty table, so they carry no later
            // touch.
            self.handle_pings(at);
        }
        self.servers[at].touched.insert(session_id, timeout_ms);
        self.tell_step(SessionStep::Noted(session_id, duration(timeout_ms), at));
    }

    /// Makes a follower answer the pings that have reached it.
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
            if self.sessions.touch(self.now, &self.clock, session_id, timeout_ms) {
                self.tell_step(SessionStep::Flushed(session_id, duration(timeout_ms), at));
            }
        }
    }

    /// Makes every follower answer the pings that have reached it.
    pub(super) fn handle_all_pings(&mut self) {
        if self.servers.len() > 1 {
            (0..self.servers.len()).for_each(|at| self.handle_pings(at));
        }
    }

    /// Returns the time at which a follower sends a touch table that is not empty.
    pub(super) fn next_flush(&self, at: usize) -> Option<Instant> {
        let server = &self.servers[at];
        if server.touched.is_empty() || !self.is_following(at) {
            return None;
        }
        Some(self.pings.time_of(server.pings_handled + 1) + server.learner_lag)
    }

    /// Returns whether a follower is connected to a working leader and processes its packets.
    pub(super) fn is_following(&self, at: usize) -> bool {
        let server = &self.servers[at];
        let works = server.link == Link::Up && !server.stalled && !server.killed;
        works && at != self.leader && server.epoch == self.epoch && self.leader_works()
    }

    /// Returns the time at which the next usable answer of the leader reaches a follower. An answer
    /// is usable once the follower has applied the log up to its position.
    pub(super) fn next_answer(&self, at: usize) -> Option<Instant> {
        if !self.is_following(at) {
            return None;
        }
        let server = &self.servers[at];
        let next = server.expected.iter().find(|next| next.place <= server.applied)?;
        Some(next.sent + server.learner_lag)
    }

    /// Resumes the connections for which the leader's answer has reached the follower.
    pub(super) fn take_answers(&mut self, at: usize) {
        if self.servers[at].expected.is_empty() || !self.is_following(at) {
            return;
        }
        let (now, server) = (self.now, &mut self.servers[at]);
        let (lag, applied) = (server.learner_lag, server.applied);
        let is_here = |expected: &Expected| expected.place <= applied && expected.sent + lag <= now;
        let here = server
            .expected
            .iter()
            .filter(|expected| is_here(expected))
            .map(|expected| expected.connection);
        self.resumable.extend(here);
        server.expected.retain(|expected| !is_here(expected));
    }

    /// Returns whether an answer that the leader sent at `sent` has reached a follower.
    pub(super) fn has_reached(&self, at: usize, sent: Instant) -> bool {
        sent + self.servers[at].learner_lag <= self.now
    }
}
