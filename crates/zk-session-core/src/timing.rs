//! What is due when. Every deadline follows from the state, so none can be left
//! armed by mistake.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proto::{OpCode, Ping, xid};

use super::lease::LeaseRequest;
use super::link::Link;
use super::{Handles, Output, Session};
use crate::LossCause;
use crate::SessionEnd;
use crate::limits::{PATIENCE_MAX, PING_INTERVAL_MAX, PINGS_MAX};
use crate::planted::Planted;

/// When something was last sent and heard.
#[derive(Debug)]
pub(super) struct Pulse {
    sent: Instant,
    heard: Instant,
    /// The first thing sent since anything was heard.
    unheard: Option<Instant>,
    up: Instant,
    /// When anything was last acknowledged, pings and handshakes included.
    acked: Option<Instant>,
    /// When the oldest request of those in flight was last answered.
    moved_on: Instant,
    /// How long answers take, of the slow ones among the last: it falls by an eighth with each.
    round_trip: Option<Duration>,
    /// The pings that are not answered, oldest first. Each answer is taken for the oldest.
    pings: VecDeque<Instant>,
    /// When more of a reply last came that was not the whole of it, and whether the rest
    /// is still owed.
    part: Option<Instant>,
    is_in_reply: bool,
}

impl Pulse {
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

    /// Everything that has come was looked at; whether the beginning of a reply is left. That
    /// of an event proves nothing: a server that sends events without end, and nothing
    /// else, always ends in a part.
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

    /// When the oldest ping was sent that is not answered.
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

    /// The time that answers to pings take of late, at the most; zero before the first.
    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or_default()
    }

    /// A request was answered that was sent at that time, and whether it was the oldest.
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

    /// A ping was answered; how long that took.
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

    /// For how long the connection has been up.
    pub(super) fn up_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.up)
    }

    pub(super) fn link_lost(&mut self) {
        self.pings.clear();
        self.is_in_reply = false;
    }
}

impl<H: Handles> Session<H> {
    /// Begins a turn of the driver. If it comes [much later](crate::limits::PAUSE_NOTICED) than
    /// [`poll_timeout`](Self::poll_timeout) asked for, this process did not run meanwhile, and what
    /// ends because of that says so.
    pub fn handle_turn(&mut self, now: Instant) {
        self.pauses.turn(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, at the
    /// latest; `None` once the session has ended.
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
                    self.chores.retry_at(),
                    self.unwatch_at,
                    self.stall_due(),
                    self.neglect_due(),
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

    /// A deadline has passed. Harmless when none has.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.check_lease(now);
        if let Some(end) = self.closing.as_ref().filter(|it| it.until <= now).map(|it| it.end) {
            self.end(end);
        } else if self.expiry_due().is_some_and(|due| due <= now) {
            let paused = self.heard_at().and_then(|at| self.pauses.since(at, now));
            self.end(self.closing_as().unwrap_or(SessionEnd::ExpiredLocally { paused }));
        }
        self.expire_requests(now);
        if self.ended().is_none() && self.move_at.take_if(|at| *at <= now).is_some() {
            self.drop_link(now, LossCause::Rebalanced);
        }
        match self.link {
            Link::Waiting { until } if until <= now => {
                let host = self.hosts.current().clone();
                self.link = Link::Connecting { deadline: now + self.attempt_timeout() };
                self.outputs.push_back(Output::Connect(host));
            }
            Link::Connecting { deadline } | Link::Handshaking { deadline } if deadline <= now => {
                self.drop_link(now, self.in_time_or(LossCause::Silent));
            }
            Link::Up if self.is_silent(now) => {
                self.drop_link(now, self.in_time_or(LossCause::Silent));
            }
            Link::Up
                if [self.stall_due(), self.neglect_due()]
                    .into_iter()
                    .flatten()
                    .any(|due| due <= now) =>
            {
                self.drop_link(now, self.in_time_or(LossCause::Stalled));
            }
            Link::Up => self.keep_alive(now),
            _ => {}
        }
    }

    /// Why the connection is closed: the cause, unless this turn is late.
    fn in_time_or(&self, cause: LossCause) -> LossCause {
        self.pauses.this_turn().map_or(cause, LossCause::ProcessPaused)
    }

    fn keep_alive(&mut self, now: Instant) {
        if self.close_due().is_some_and(|due| due <= now) {
            self.say_close(now);
        }
        let request = self.lease_request_due().filter(|(due, _)| *due <= now);
        // In front of a request to the leader, whose commit may be slow, a ping tells whether the
        // server lives.
        let is_due = self.ping_due().is_some_and(|due| due <= now);
        let ping = (is_due || self.pulse.unanswered_ping().is_none()).then_some(Ping);
        match request {
            Some((_, request)) => self.send_lease_request(now, ping, request),
            None if is_due => {
                self.outbound.overtake(|out| proto::encode_request(xid::PING, &Ping, out));
                self.pulse.pinged(now);
            }
            None => {}
        }
        if self.probe_due().is_some_and(|at| at <= now) {
            self.send_probe(now);
        }
        if self.chores.retry_at().is_some_and(|at| at <= now) {
            self.chores.retry();
            self.send_all_chores(now);
        }
        if self.unwatch_at.is_some_and(|at| at <= now) {
            self.send_removals(now);
        }
    }

    /// A ping is due when nothing was sent for a third of the timeout, so that one may be lost
    /// before the session is in danger, and sooner while the lease is claimed: pings are the
    /// touches that the lease's next requests prove. One unanswered ping is enough, unless its answer is held
    /// up by a long reply, or by a long queue of them: the server does not count what it sends, so
    /// it must go on receiving something.
    fn ping_due(&self) -> Option<Instant> {
        // The lease goes by the shortest timeout so far, also when a server grants a longer one.
        let shortest = self.lease.shortest_timeout().filter(|_| !self.is_read_only());
        let timeout = shortest.map_or(self.identity.timeout, |it| it.min(self.identity.timeout));
        let interval = self.lease.touch_every().unwrap_or(timeout / 3);
        let interval = interval.min(PING_INTERVAL_MAX);
        // closeSession is the last word on a connection.
        let is_asked = self.pulse.pings.back().copied() > self.pulse.acked;
        let has_many = self.pulse.pings.len() >= PINGS_MAX;
        let silent = (is_asked && !self.pulse.is_in_reply) || has_many || self.is_close_said();
        (!silent).then(|| self.pulse.sent + interval)
    }

    /// The next request that a claimed lease needs.
    fn lease_request_due(&self) -> Option<(Instant, LeaseRequest)> {
        let up = self.pulse.up;
        let (due, request) = self.lease.request_due(up)?;
        if Planted::RenewalStops.is_on() && due > up + self.identity.timeout / 2 {
            return None;
        }
        // A read-only server has no leader to ask.
        let is_wanted = self.closing.is_none() && !self.is_read_only();
        is_wanted.then_some((due, request))
    }

    /// What of the session timeout a server is waited for: however long it lets a session
    /// live, who waits for an answer must not wait for days.
    fn patience(&self) -> Duration {
        self.identity.timeout.min(PATIENCE_MAX)
    }

    /// After two thirds of the timeout without a byte the connection is given up:
    /// a third is left to find another server.
    ///
    /// Sooner while the lease is claimed, which ends earlier than the session: an eighth of the
    /// timeout is left to renew it on another connection. Not where answers are too slow for that,
    /// not before this connection has renewed the lease, for giving up one after the other wins
    /// nothing, and only if the server itself has fallen silent. A slow commit silences a session
    /// too: `CommitProcessor` answers nothing behind a write that is not committed. Its answer may
    /// come in time, and on another connection the next write would be as slow.
    fn silence_due(&self) -> Instant {
        let Pulse { heard, unheard, .. } = self.pulse;
        let since_asked = unheard.map_or(heard, |asked| asked + self.patience() / 3);
        let due = (heard + self.patience() * 2 / 3).max(since_asked);
        let timeout = self.identity.timeout;
        let is_hasty = self.pulse.round_trip.is_some_and(|usual| usual <= timeout / 16);
        let is_renewed_here = self.lease.is_renewed_since(self.pulse.up);
        let end_of_lease = self.lease.deadline().filter(|_| self.lease.is_claimed());
        let is_hasty = is_hasty && is_renewed_here && self.is_server_silent();
        let end_of_lease = end_of_lease.filter(|_| is_hasty);
        let Some((end, asked)) = end_of_lease.zip(unheard) else { return due };
        due.min((asked + timeout / 4).max(end.checked_sub(timeout / 8).unwrap_or(end)))
    }

    /// True if something is unanswered that no commit holds up: a ping or a read with no request to
    /// the leader before it.
    fn is_server_silent(&self) -> bool {
        let oldest = self.inflight.oldest();
        let is_ping_first = |ping: Instant| oldest.is_none_or(|oldest| oldest.at >= ping);
        let is_read =
            oldest.is_some_and(|oldest| !oldest.op.is_write() && oldest.op != OpCode::Sync);
        is_read || self.pulse.unanswered_ping().is_some_and(is_ping_first)
    }

    /// A server that was asked nothing, because whoever drives this session stood
    /// still, is not silent: it is asked first. One that has closeSession is asked nothing
    /// more, and has been asked, whatever else it has said since.
    fn is_silent(&self, now: Instant) -> bool {
        let unanswered = self.pulse.unheard.is_some() || self.pulse.unanswered_ping().is_some();
        let asked = unanswered || self.closing.is_some();
        asked && self.silence_due() <= now
    }

    /// A server that answers pings and no requests keeps the connection, and with it
    /// everybody who waits, for ever: it has lost its leader without noticing, or its
    /// request pipeline has died, or an answer was lost on the way and others go on. When
    /// the oldest request has had no answer for a whole session timeout the connection is
    /// given up, also if there is no other server: behind one name there may be many.
    ///
    /// Not sooner, unless [nothing at all](Self::silence_due) is heard: a slow commit delays
    /// everything behind it, pings included, and a new connection costs the outcome of
    /// whatever is under way. Not while the queue in front
    /// of the request is worked through, however long, or parts of an answer come.
    fn stall_due(&self) -> Option<Instant> {
        let oldest = self.inflight.oldest().filter(|_| !Planted::LostAnswerAwaited.is_on())?;
        let heard_of =
            self.pulse.part.map_or(self.pulse.moved_on, |at| at.max(self.pulse.moved_on));
        Some(oldest.at.max(heard_of) + self.patience())
    }

    /// A server that sends events, or whatever else, and has acknowledged nothing for two
    /// thirds of the timeout, not even a ping, has as good as fallen silent: a third is
    /// left to find another one, or this one again, before the session is over.
    fn neglect_due(&self) -> Option<Instant> {
        let asked = self.inflight.oldest().map(|oldest| oldest.at);
        let asked = asked.into_iter().chain(self.pulse.unanswered_ping()).min()?;
        let since = self.pulse.acked.max(self.pulse.part).max(Some(asked))?;
        Some(since + self.patience() * 2 / 3)
    }

    /// A session that nobody has acknowledged for 4/3 of its timeout is over,
    /// whether or not a server ever comes back to say so (ZOOKEEPER-4508). A
    /// session that never was cannot expire (ZOOKEEPER-4921), nor can that of a
    /// read-only server, on which nothing rests.
    ///
    /// It counts from the arrival of the last acknowledgement: what it was for may have
    /// waited in a long queue. So does a part of a reply, behind which others wait, for
    /// longer than the timeout if the line is slow.
    fn expiry_due(&self) -> Option<Instant> {
        if self.identity.session_id == 0 {
            return None;
        }
        self.heard_at().map(|at| at + self.identity.timeout * 4 / 3)
    }

    /// When a server last showed that it has the session.
    fn heard_at(&self) -> Option<Instant> {
        self.pulse.acked.max(self.pulse.part)
    }
}
