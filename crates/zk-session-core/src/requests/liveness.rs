//! Send and receive times. They decide when the client sends a ping, drops the connection, and
//! counts the session as expired.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proto::OpCode;

use super::Sent;
use crate::Handles;
use crate::limits::{
    ACK_PART, ANSWER_AFTER_SILENCE_PART, ANSWER_MIN_PART, EXPIRY_PART, FAST_ROUND_TRIP_PART,
    IDLE_LIMIT_MAX, LEASE_RESERVE_PART, PINGS_MAX, ROUND_TRIP_DECAY, SILENCE_PART,
};

/// Times at which something was last sent and received.
#[derive(Debug)]
pub(crate) struct Liveness {
    sent: Instant,
    received_at: Instant,
    /// Send time of the first packet since anything was received.
    unanswered_since: Option<Instant>,
    up: Instant,
    /// Time of the last acknowledgement, including answers to pings and handshakes.
    acked: Option<Instant>,
    /// Time at which the oldest request in flight was last answered.
    moved_on: Instant,
    /// Round-trip time of the slower recent replies: it falls by an eighth with each reply.
    round_trip: Option<Duration>,
    /// Send times of the unanswered pings, oldest first. Each answer counts for the oldest.
    pings: VecDeque<Instant>,
    /// When another part of an incomplete reply last arrived, and whether the rest is still
    /// missing.
    part: Option<Instant>,
    is_in_reply: bool,
}

/// Updates.
impl Liveness {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sent: now,
            received_at: now,
            unanswered_since: None,
            up: now,
            acked: None,
            moved_on: now,
            round_trip: None,
            pings: VecDeque::new(),
            part: None,
            is_in_reply: false,
        }
    }

    pub(super) fn connected(&mut self, now: Instant) {
        (self.sent, self.received_at, self.up, self.acked) = (now, now, now, Some(now));
        self.unanswered_since = None;
        self.is_in_reply = false;
    }

    pub(super) fn disconnected(&mut self) {
        self.pings.clear();
        self.is_in_reply = false;
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.sent = now;
        self.unanswered_since.get_or_insert(now);
    }

    pub(super) fn pinged(&mut self, now: Instant) {
        self.pings.push_back(now);
        self.sent(now);
    }

    pub(super) fn received(&mut self, now: Instant) {
        self.received_at = now;
        self.unanswered_since = None;
    }

    /// Notes that all received bytes were processed, and the beginning of a reply is left. The
    /// beginning of an event proves nothing: the input of a server that sends endless events, and
    /// nothing else, always ends in a part.
    pub(super) fn received_part_of_reply(&mut self, now: Instant) {
        self.is_in_reply = true;
        self.part = Some(now);
    }

    /// Notes that all received bytes were processed, and no beginning of a reply is left.
    pub(super) fn received_whole_replies(&mut self) {
        self.is_in_reply = false;
    }

    /// Notes that a request was answered after this time.
    pub(super) fn answered(&mut self, now: Instant, round_trip: Duration) {
        self.acked = Some(now);
        self.took(round_trip);
    }

    pub(super) fn answered_oldest(&mut self, now: Instant) {
        self.moved_on = now;
    }

    /// Notes that a ping was answered, and returns its round-trip time.
    pub(super) fn ponged(&mut self, now: Instant) -> Option<Duration> {
        (self.received_at, self.acked) = (now, Some(now));
        let time = now.saturating_duration_since(self.pings.pop_front()?);
        self.took(time);
        Some(time)
    }

    fn took(&mut self, time: Duration) {
        self.round_trip =
            self.round_trip.map(|usual| usual - usual / ROUND_TRIP_DECAY).max(Some(time));
    }
}

/// Deadlines. `timeout` is the session timeout, and `oldest` the oldest unanswered request.
impl Liveness {
    pub(crate) fn is_acked(&self) -> bool {
        self.acked.is_some()
    }

    /// Returns the time at which the connection was established. Before the first connection, it is
    /// the time at which the session was created.
    pub(crate) fn up(&self) -> Instant {
        self.up
    }

    /// Returns when the oldest unanswered ping was sent.
    pub(crate) fn unanswered_ping(&self) -> Option<Instant> {
        self.pings.front().copied()
    }

    /// Returns the round-trip time of the slower recent replies; zero before the first reply.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or_default()
    }

    /// Returns when a server last showed that it has the session. The arrival of a part of a reply
    /// counts: other replies wait behind it, on a slow line for longer than the timeout.
    pub(crate) fn acknowledged_at(&self) -> Option<Instant> {
        self.acked.max(self.part)
    }

    /// Returns when the next ping is due, if nothing else is sent for this interval.
    ///
    /// One unanswered ping is enough, unless its answer is delayed by a long reply, or by a long
    /// queue of replies. The server does not count what it sends, so it must keep receiving
    /// something.
    pub(crate) fn ping_due(&self, interval: Duration) -> Option<Instant> {
        let is_asked = self.pings.back().copied() > self.acked;
        let is_enough = (is_asked && !self.is_in_reply) || self.pings.len() >= PINGS_MAX;
        (!is_enough).then(|| self.sent + interval)
    }

    pub(crate) fn has_unanswered(&self) -> bool {
        self.unanswered_since.is_some() || !self.pings.is_empty()
    }

    /// Returns when the connection is dropped because the server is silent: after two thirds of the
    /// timeout without a byte. A third is left to find another server.
    ///
    /// If the driver was stopped, the server received nothing to answer. The session then sends a
    /// ping first.
    ///
    /// With `lease_end`, the connection is dropped sooner, because the lease ends earlier than the
    /// session. An eighth of the timeout is left to renew the lease on another connection. There
    /// are two conditions:
    ///
    /// * Replies are fast enough for that.
    /// * The server itself is silent, not only delayed by a commit. A slow commit silences a
    ///   session too: `CommitProcessor` answers nothing behind a write that is not committed. Its
    ///   reply may arrive in time, and on another connection the next write would be as slow.
    pub(crate) fn silence_due<H: Handles>(
        &self,
        timeout: Duration,
        lease_end: impl FnOnce() -> Option<Instant>,
        oldest: Option<&Sent<H>>,
    ) -> Instant {
        let limit = idle_limit(timeout);
        let due = self.received_at + SILENCE_PART.of(limit);
        let since_asked =
            self.unanswered_since.map(|asked| asked + ANSWER_AFTER_SILENCE_PART.of(limit));
        let due = since_asked.map_or(due, |asked| asked.max(due));
        let is_fast =
            self.round_trip.is_some_and(|usual| usual <= FAST_ROUND_TRIP_PART.of(timeout));
        let is_hasty = is_fast && self.is_server_silent(oldest);
        let lease_end = is_hasty.then(lease_end).flatten();
        let Some((end, asked)) = lease_end.zip(self.unanswered_since) else { return due };
        let reserve = LEASE_RESERVE_PART.of(timeout);
        let in_time = end.checked_sub(reserve).unwrap_or(end);
        due.min(in_time.max(asked + ANSWER_MIN_PART.of(timeout)))
    }

    /// Returns true if a packet is unanswered that no commit delays: a ping or a read without an
    /// earlier request to the leader.
    fn is_server_silent<H: Handles>(&self, oldest: Option<&Sent<H>>) -> bool {
        let is_ping_first = |ping: Instant| oldest.is_none_or(|oldest| oldest.at >= ping);
        let is_read =
            oldest.is_some_and(|oldest| !oldest.op.is_write() && oldest.op != OpCode::Sync);
        is_read || self.unanswered_ping().is_some_and(is_ping_first)
    }

    /// Returns when the connection is dropped because the oldest request was unanswered for a whole
    /// session timeout, of which at most a minute counts.
    ///
    /// A server that answers pings and no requests would keep the connection, and all waiting
    /// callers, forever. It has lost its leader without noticing, or its request pipeline has died,
    /// or a reply was lost on the way while others arrive. The connection is dropped even if there
    /// is no other server, because there may be many servers behind one name.
    ///
    /// It is not dropped sooner, unless [nothing at all](Self::silence_due) is received. A slow
    /// commit delays everything behind it, including pings, and a new connection makes the outcome
    /// of all in-flight requests unknown. It is not dropped while the server works through the
    /// queue in front of the request, however long, or while parts of a reply arrive.
    pub(crate) fn stall_due<H: Handles>(
        &self,
        timeout: Duration,
        oldest: Option<&Sent<H>>,
    ) -> Option<Instant> {
        let oldest = oldest?;
        let moved_on = self.part.map_or(self.moved_on, |at| at.max(self.moved_on));
        Some(oldest.at.max(moved_on) + idle_limit(timeout))
    }

    /// Returns when the connection is dropped because the server has acknowledged nothing for two
    /// thirds of the timeout, not even a ping. Events do not count, but a part of a reply does. A
    /// third is left to find another server, or this one again, before the session is over.
    pub(crate) fn ack_due<H: Handles>(
        &self,
        timeout: Duration,
        oldest: Option<&Sent<H>>,
    ) -> Option<Instant> {
        let asked = oldest.map(|oldest| oldest.at);
        let asked = asked.into_iter().chain(self.unanswered_ping()).min()?;
        let since = self.acknowledged_at().max(Some(asked))?;
        Some(since + ACK_PART.of(idle_limit(timeout)))
    }

    /// Returns when a session counts as expired: after 4/3 of its timeout without an
    /// acknowledgement, even if no server ever reports the expiry (ZOOKEEPER-4508). A session that
    /// was never acknowledged cannot expire (ZOOKEEPER-4921).
    ///
    /// The time counts from the arrival of the last acknowledgement, because its request may have
    /// waited in a long queue.
    pub(crate) fn expiry_due(&self, timeout: Duration) -> Option<Instant> {
        self.acknowledged_at().map(|at| at + EXPIRY_PART.of(timeout))
    }
}

/// Returns the part of the session timeout that counts while the session waits for a server. A
/// server may grant a timeout of days, and callers must not wait that long.
fn idle_limit(timeout: Duration) -> Duration {
    timeout.min(IDLE_LIMIT_MAX)
}
