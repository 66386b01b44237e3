//! Deadlines of the session. Each follows from the state, so none can stay armed by mistake.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proto::{OpCode, Ping, xid};

use super::lease::LeaseRequest;
use super::link::Link;
use super::{Handles, Output, Session};
use crate::DisconnectReason;
use crate::SessionEnd;
use crate::limits::{IDLE_LIMIT_MAX, PING_INTERVAL_MAX, PINGS_MAX};
use crate::planted::Planted;

/// Times at which something was last sent and received.
#[derive(Debug)]
pub(super) struct Liveness {
    sent: Instant,
    heard: Instant,
    /// Send time of the first packet since anything was received.
    unheard: Option<Instant>,
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

impl Liveness {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sent: now,
            heard: now,
            unheard: None,
            up: now,
            acked: None,
            moved_on: now,
            round_trip: None,
            pings: VecDeque::new(),
            part: None,
            is_in_reply: false,
        }
    }

    /// Notes that all received bytes were processed, and whether the beginning of a reply is left.
    /// The beginning of an event proves nothing: the input of a server that sends endless events,
    /// and nothing else, always ends in a part.
    pub(super) fn heard_rest(&mut self, now: Instant, is_reply: bool) {
        self.is_in_reply = is_reply;
        if is_reply {
            self.part = Some(now);
        }
    }

    pub(super) fn pinged(&mut self, now: Instant) {
        self.pings.push_back(now);
        self.sent(now);
    }

    /// Returns when the oldest unanswered ping was sent.
    pub(super) fn unanswered_ping(&self) -> Option<Instant> {
        self.pings.front().copied()
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.sent = now;
        self.unheard.get_or_insert(now);
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.unheard = None;
    }

    /// Returns the round-trip time of the slower recent replies; zero before the first reply.
    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or_default()
    }

    /// Notes that a request was answered that was sent at `sent`, and whether it was the oldest.
    pub(super) fn answered(&mut self, now: Instant, sent: Instant, was_oldest: bool) {
        self.acked = Some(now);
        if was_oldest {
            self.moved_on = now;
        }
        self.took(now.saturating_duration_since(sent));
    }

    fn took(&mut self, time: Duration) {
        self.round_trip = self.round_trip.map(|usual| usual - usual / 8).max(Some(time));
    }

    /// Notes that a ping was answered, and returns its round-trip time.
    pub(super) fn ponged(&mut self, now: Instant) -> Option<Duration> {
        (self.heard, self.acked) = (now, Some(now));
        let time = now.saturating_duration_since(self.pings.pop_front()?);
        self.took(time);
        Some(time)
    }

    pub(super) fn link_up(&mut self, now: Instant) {
        (self.sent, self.heard, self.up, self.acked) = (now, now, now, Some(now));
        self.unheard = None;
        self.is_in_reply = false;
    }

    pub(super) fn is_acked(&self) -> bool {
        self.acked.is_some()
    }

    /// Returns how long the connection has been up.
    pub(super) fn up_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.up)
    }

    pub(super) fn link_lost(&mut self) {
        self.pings.clear();
        self.is_in_reply = false;
    }
}

impl<H: Handles> Session<H> {
    /// Begins a turn of the driver. A turn that is [much later](crate::limits::PAUSE_NOTICED) than
    /// [`poll_timeout`](Self::poll_timeout) requested means that this process did not run
    /// meanwhile. Errors and events that result from the pause report it.
    pub fn handle_turn(&mut self, now: Instant) {
        self.pauses.turn(now);
    }

    /// Returns the latest time at which [`handle_timeout`](Self::handle_timeout) must be called;
    /// `None` once the session has ended.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let due = self.next_deadline();
        self.pauses.ask_for(due);
        due
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let link = match self.link {
            Link::Waiting { until } => until,
            Link::Connecting { deadline } | Link::Handshaking { deadline } => deadline,
            Link::Up => {
                let up = [
                    self.ping_due(),
                    self.lease_request_due().map(|(due, _)| due),
                    self.cleanup_tasks.retry_at(),
                    self.unwatch_at,
                    self.stall_due(),
                    self.ack_timeout_due(),
                    self.probe_due(),
                ];
                up.into_iter().flatten().fold(self.silence_due(), Instant::min)
            }
            Link::Ended(_) => return None,
        };
        let always = [
            self.closing.as_ref().map(|closing| closing.until),
            self.close_due(),
            self.move_at,
            self.expiry_due(),
            self.lease.deadline(),
            self.deadlines.next(),
        ];
        Some(always.into_iter().flatten().fold(link, Instant::min))
    }

    /// Handles the deadlines that have passed. The call is harmless if there is none.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.check_lease(now);
        if let Some(end) = self.closing.as_ref().filter(|it| it.until <= now).map(|it| it.end) {
            self.end(end);
        } else if self.expiry_due().is_some_and(|due| due <= now) {
            let paused = self.heard_at().and_then(|at| self.pauses.since(at, now));
            self.end(self.closing_as().unwrap_or(SessionEnd::ExpiredLocally { paused }));
        }
        self.expire_requests(now);
        if self.end_reason().is_none() && self.move_at.take_if(|at| *at <= now).is_some() {
            self.drop_link(now, DisconnectReason::Rebalanced);
        }
        match self.link {
            Link::Waiting { until } if until <= now => {
                let host = self.hosts.current().clone();
                self.link = Link::Connecting { deadline: now + self.attempt_timeout() };
                self.outputs.push_back(Output::Connect(host));
            }
            Link::Connecting { deadline } | Link::Handshaking { deadline } if deadline <= now => {
                self.drop_link(now, self.in_time_or(DisconnectReason::IdleTimeout));
            }
            Link::Up if self.is_silent(now) => {
                self.drop_link(now, self.in_time_or(DisconnectReason::IdleTimeout));
            }
            Link::Up
                if [self.stall_due(), self.ack_timeout_due()]
                    .into_iter()
                    .flatten()
                    .any(|due| due <= now) =>
            {
                self.drop_link(now, self.in_time_or(DisconnectReason::RequestTimeout));
            }
            Link::Up => self.keep_alive(now),
            _ => {}
        }
    }

    /// Returns the cause for which the connection is closed: the given one, unless this turn is
    /// late.
    fn in_time_or(&self, cause: DisconnectReason) -> DisconnectReason {
        self.pauses.this_turn().map_or(cause, DisconnectReason::ProcessPaused)
    }

    fn keep_alive(&mut self, now: Instant) {
        if self.close_due().is_some_and(|due| due <= now) {
            self.send_close(now);
        }
        let request = self.lease_request_due().filter(|(due, _)| *due <= now);
        // The commit of a request to the leader may be slow. The ping in front of it shows whether
        // the server is alive.
        let is_due = self.ping_due().is_some_and(|due| due <= now);
        let ping = (is_due || self.liveness.unanswered_ping().is_none()).then_some(Ping);
        match request {
            Some((_, request)) => self.send_lease_request(now, ping, request),
            None if is_due => {
                self.outbound.overtake(|out| proto::encode_request(xid::PING, &Ping, out));
                self.liveness.pinged(now);
            }
            None => {}
        }
        if self.probe_due().is_some_and(|at| at <= now) {
            self.send_probe(now);
        }
        if self.cleanup_tasks.retry_at().is_some_and(|at| at <= now) {
            self.cleanup_tasks.retry();
            self.send_all_cleanup_tasks(now);
        }
        if self.unwatch_at.is_some_and(|at| at <= now) {
            self.send_removals(now);
        }
    }

    /// Returns when the next ping is due.
    ///
    /// A ping is due when nothing was sent for a third of the timeout, so that one lost ping does
    /// not endanger the session. It is due sooner while the lease is claimed: pings are the touches
    /// that the next lease requests prove.
    ///
    /// One unanswered ping is enough, unless its answer is delayed by a long reply, or by a long
    /// queue of replies. The server does not count what it sends, so it must keep receiving
    /// something.
    fn ping_due(&self) -> Option<Instant> {
        // The lease uses the shortest timeout so far, even if a server grants a longer one.
        let shortest = self.lease.shortest_timeout().filter(|_| !self.is_read_only());
        let timeout = shortest.map_or(self.identity.timeout, |it| it.min(self.identity.timeout));
        let interval = self.lease.touch_every().unwrap_or(timeout / 3);
        let interval = interval.min(PING_INTERVAL_MAX);
        // closeSession is the last request on a connection.
        let is_asked = self.liveness.pings.back().copied() > self.liveness.acked;
        let has_many = self.liveness.pings.len() >= PINGS_MAX;
        let silent = (is_asked && !self.liveness.is_in_reply) || has_many || self.is_close_said();
        (!silent).then(|| self.liveness.sent + interval)
    }

    /// Returns the next request that a claimed lease needs, and when it is due.
    fn lease_request_due(&self) -> Option<(Instant, LeaseRequest)> {
        let up = self.liveness.up;
        let (due, request) = self.lease.request_due(up)?;
        if Planted::RenewalStops.is_on() && due > up + self.identity.timeout / 2 {
            return None;
        }
        // A read-only server has no leader.
        let is_wanted = self.closing.is_none() && !self.is_read_only();
        is_wanted.then_some((due, request))
    }

    /// Returns the part of the session timeout that counts while the session waits for a server. A
    /// server may grant a timeout of days, and callers must not wait that long.
    fn idle_limit(&self) -> Duration {
        self.identity.timeout.min(IDLE_LIMIT_MAX)
    }

    /// Returns when the connection is dropped because the server is silent: after two thirds of the
    /// timeout without a byte. A third is left to find another server.
    ///
    /// While the lease is claimed, it is dropped sooner, because the lease ends earlier than the
    /// session. An eighth of the timeout is left to renew the lease on another connection. There
    /// are three conditions:
    ///
    /// * Replies are fast enough for that.
    /// * This connection has renewed the lease. Dropping one connection after the other gains
    ///   nothing.
    /// * The server itself is silent, not only delayed by a commit. A slow commit silences a
    ///   session too: `CommitProcessor` answers nothing behind a write that is not committed. Its
    ///   reply may arrive in time, and on another connection the next write would be as slow.
    fn silence_due(&self) -> Instant {
        let Liveness { heard, unheard, .. } = self.liveness;
        let since_asked = unheard.map_or(heard, |asked| asked + self.idle_limit() / 3);
        let due = (heard + self.idle_limit() * 2 / 3).max(since_asked);
        let timeout = self.identity.timeout;
        let is_hasty = self.liveness.round_trip.is_some_and(|usual| usual <= timeout / 16);
        let is_renewed_here = self.lease.is_renewed_since(self.liveness.up);
        let end_of_lease = self.lease.deadline().filter(|_| self.lease.is_claimed());
        let is_hasty = is_hasty && is_renewed_here && self.is_server_silent();
        let end_of_lease = end_of_lease.filter(|_| is_hasty);
        let Some((end, asked)) = end_of_lease.zip(unheard) else { return due };
        due.min((asked + timeout / 4).max(end.checked_sub(timeout / 8).unwrap_or(end)))
    }

    /// Returns true if a packet is unanswered that no commit delays: a ping or a read without an
    /// earlier request to the leader.
    fn is_server_silent(&self) -> bool {
        let oldest = self.inflight.oldest();
        let is_ping_first = |ping: Instant| oldest.is_none_or(|oldest| oldest.at >= ping);
        let is_read =
            oldest.is_some_and(|oldest| !oldest.op.is_write() && oldest.op != OpCode::Sync);
        is_read || self.liveness.unanswered_ping().is_some_and(is_ping_first)
    }

    /// Returns true if the server is silent although it has something to answer.
    ///
    /// If the driver was stopped, the server received nothing to answer. The session then sends a
    /// ping first. While the session is closing, the server always counts as having something to
    /// answer, because nothing more is sent after closeSession.
    fn is_silent(&self, now: Instant) -> bool {
        let unanswered =
            self.liveness.unheard.is_some() || self.liveness.unanswered_ping().is_some();
        let asked = unanswered || self.closing.is_some();
        asked && self.silence_due() <= now
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
    fn stall_due(&self) -> Option<Instant> {
        let oldest = self.inflight.oldest().filter(|_| !Planted::LostAnswerAwaited.is_on())?;
        let heard_of =
            self.liveness.part.map_or(self.liveness.moved_on, |at| at.max(self.liveness.moved_on));
        Some(oldest.at.max(heard_of) + self.idle_limit())
    }

    /// Returns when the connection is dropped because the server has acknowledged nothing for two
    /// thirds of the timeout, not even a ping. Events do not count, but a part of a reply does. A
    /// third is left to find another server, or this one again, before the session is over.
    fn ack_timeout_due(&self) -> Option<Instant> {
        let asked = self.inflight.oldest().map(|oldest| oldest.at);
        let asked = asked.into_iter().chain(self.liveness.unanswered_ping()).min()?;
        let since = self.liveness.acked.max(self.liveness.part).max(Some(asked))?;
        Some(since + self.idle_limit() * 2 / 3)
    }

    /// Returns when the session counts as expired: after 4/3 of its timeout without an
    /// acknowledgement, even if no server ever reports the expiry (ZOOKEEPER-4508).
    ///
    /// A session that was never acknowledged cannot expire (ZOOKEEPER-4921). The session of a
    /// read-only server cannot expire either, because nothing depends on it.
    ///
    /// The time counts from the arrival of the last acknowledgement, because its request may have
    /// waited in a long queue. The arrival of a part of a reply counts too. Other replies wait
    /// behind it, on a slow line for longer than the timeout.
    fn expiry_due(&self) -> Option<Instant> {
        if self.identity.session_id == 0 {
            return None;
        }
        self.heard_at().map(|at| at + self.identity.timeout * 4 / 3)
    }

    /// Returns when a server last showed that it has the session.
    fn heard_at(&self) -> Option<Instant> {
        self.liveness.acked.max(self.liveness.part)
    }
}
