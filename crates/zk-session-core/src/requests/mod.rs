//! Requests, from their submission to their reply.
//!
//! * [`queue`]: requests that wait for a connection.
//! * [`outbound`]: bytes on their way to the server.
//! * [`inflight`]: requests in flight, by xid, and the recipients of their replies.
//! * [`deadlines`]: deadlines of callers.
//! * [`stand_in`]: requests that are sent in place of others.
//! * [`liveness`]: send and receive times, and the deadlines that follow from them.

mod deadlines;
mod inflight;
mod liveness;
mod outbound;
mod queue;
mod stand_in;

use std::time::{Duration, Instant};

use bytes::BytesMut;
use proto::{Ping, ReplyHeader, Request, xid};

pub(crate) use self::deadlines::{DeadlineOwner, Due};
pub(crate) use self::inflight::{Recipient, Sent, WatchOf};
pub(crate) use self::liveness::Liveness;
pub(crate) use self::queue::Queued;
pub(crate) use self::stand_in::StandIn;

use self::deadlines::Deadlines;
use self::inflight::Inflight;
use self::outbound::Outbound;
use self::queue::Queue;
use crate::lease::is_quorum_reply;
use crate::limits::{QUEUED_BYTES_MAX, REQUESTS_MAX};
use crate::{
    ErrorKind, Failure, Handle, Handles, HistogramSnapshot, Limit, Outcome, ReplyTo, Stats,
};

/// Identifier of a request of a caller. Identifiers grow in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// Identifier behind that of every request.
    pub(crate) const LAST: Self = Self(u64::MAX);

    #[cfg(test)]
    pub(crate) fn of(number: u64) -> Self {
        Self(number)
    }
}

/// Requests of one session. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Requests<H: Handles> {
    /// Time limit of requests whose caller sets no deadline.
    timeout: Option<Duration>,
    last_id: u64,
    queue: Queue<H>,
    outbound: Outbound,
    inflight: Inflight<Sent<H>>,
    deadlines: Deadlines,
    liveness: Liveness,
    /// Bytes that connections have accepted.
    bytes_sent: u64,
    /// See [`Stats::request_latency`].
    latency: HistogramSnapshot,
}

/// Submission.
impl<H: Handles> Requests<H> {
    pub(crate) fn new(timeout: Option<Duration>, first_xid: i32, now: Instant) -> Self {
        Self {
            timeout,
            last_id: 0,
            queue: Queue::new(),
            outbound: Outbound::default(),
            inflight: Inflight::new(first_xid),
            deadlines: Deadlines::default(),
            liveness: Liveness::new(now),
            bytes_sent: 0,
            latency: HistogramSnapshot::default(),
        }
    }

    /// Returns the time limit of requests whose caller sets no deadline.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Rejects a request beyond the limits of memory.
    pub(crate) fn admit(&self, frame_len: usize) -> Result<(), Failure> {
        let waiting = self.queue.bytes() + self.outbound.unwritten();
        let limit = if self.inflight.len() + self.queue.len() >= REQUESTS_MAX {
            Limit::Requests
        } else if waiting + frame_len > QUEUED_BYTES_MAX {
            Limit::QueuedBytes
        } else {
            return Ok(());
        };
        Err((ErrorKind::LimitReached(limit), Outcome::NotApplied))
    }

    /// Returns the identifier of the next request.
    pub(crate) fn next_id(&mut self) -> RequestId {
        self.last_id += 1;
        RequestId(self.last_id)
    }

    /// Returns the deadline of a reply, if there is one.
    pub(crate) fn due(&self, now: Instant, id: RequestId, to: &ReplyTo<H::Reply>) -> Option<Due> {
        let at = to.deadline.or_else(|| Some(now + self.timeout?))?;
        Some((at, id))
    }

    /// Sets the deadline of a request that waits with its owner. Requests that are
    /// [sent](Self::send) or [queued](Self::enqueue) need no call.
    pub(crate) fn set_deadline(&mut self, due: Option<Due>, owner: DeadlineOwner) {
        self.deadlines.put(due, owner);
    }

    /// Removes a deadline, because its request was answered or dropped.
    pub(crate) fn met(&mut self, due: Option<Due>) {
        self.deadlines.met(due);
    }

    /// Queues a request until there is a connection. A request without a time limit waits until
    /// `opened_by` for the first one.
    pub(crate) fn enqueue(&mut self, request: Queued<H>, opened_by: Option<Instant>) {
        let Queued { id, due, .. } = request;
        let opened_by = if due.is_none() { opened_by.map(|at| (at, id)) } else { None };
        self.deadlines.put(due.or(opened_by), DeadlineOwner::Queued);
        self.queue.push(Queued { opened_by, ..request });
    }

    /// Removes the oldest queued request that a caller still waits for.
    pub(crate) fn next_queued(&mut self) -> Option<Queued<H>> {
        loop {
            let queued = self.queue.pop()?;
            self.deadlines.met(queued.due.or(queued.opened_by));
            if !queued.to.is_abandoned() {
                return Some(queued);
            }
        }
    }

    /// Cancels a request that still waits for a connection.
    pub(crate) fn cancel(&mut self, id: RequestId) -> Option<Queued<H>> {
        let queued = self.queue.remove(id)?;
        self.deadlines.met(queued.due.or(queued.opened_by));
        Some(queued)
    }
}

/// Sending.
impl<H: Handles> Requests<H> {
    /// Begins a connection with the connect request. Its answer has no xid.
    pub(crate) fn begin(&mut self, connect: &proto::ConnectRequest) {
        self.outbound.append(|out| proto::encode_record(connect, out));
    }

    /// Sends a request that is alone on the connection, before it is established. Returns its xid.
    pub(crate) fn send_alone<R: Request>(&mut self, request: &R) -> i32 {
        let xid = self.inflight.use_up_xid();
        self.outbound.append(|out| proto::encode_request(xid, request, out));
        xid
    }

    /// Sends a request behind all others.
    #[inline]
    pub(crate) fn send<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        recipient: Recipient<H>,
        watch: Option<WatchOf<H>>,
        due: Option<Due>,
    ) {
        let xid = self.inflight.next_xid();
        let offset = self.outbound.append(|out| proto::encode_request(xid, request, out));
        let stand_in = None;
        self.sent(now, Sent { op: R::OP, at: now, offset, recipient, watch, due, stand_in });
    }

    /// Sends an encoded request of a caller, which may [stand in](StandIn) for another one.
    pub(crate) fn send_queued(
        &mut self,
        now: Instant,
        queued: Queued<H>,
        stand_in: Option<StandIn>,
    ) {
        let Queued { op, mut frame, to, watch, due, .. } = queued;
        proto::patch_xid(&mut frame, self.inflight.next_xid());
        let offset = self.outbound.append(|out| out.extend_from_slice(&frame));
        let (recipient, stand_in) = (Recipient::Caller(to), stand_in.map(Box::new));
        self.sent(now, Sent { op, at: now, offset, recipient, watch, due, stand_in });
    }

    /// Sends a request that completes an answered one. It has the same recipient and deadline.
    pub(crate) fn send_after<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        answered: Sent<H>,
        stand_in: StandIn,
    ) {
        let xid = self.inflight.next_xid();
        let offset = self.outbound.append(|out| proto::encode_request(xid, request, out));
        let stand_in = Some(Box::new(stand_in));
        self.sent(now, Sent { op: R::OP, at: now, offset, stand_in, ..answered });
    }

    pub(crate) fn next_xid(&self) -> i32 {
        self.inflight.next_xid()
    }

    /// Sends a ping in front of all waiting requests.
    pub(crate) fn ping(&mut self, now: Instant) {
        self.outbound.overtake(|out| proto::encode_request(xid::PING, &Ping, out));
        self.liveness.pinged(now);
    }

    /// Sends a request that renews the lease in front of all waiting requests, and the ping in front
    /// of it.
    pub(crate) fn send_heartbeat<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        ping: Option<Ping>,
    ) {
        let xid = self.inflight.next_xid();
        // Both in one call: a frame that overtakes later would go in front of the ping.
        let offset = self.outbound.overtake(|out| {
            if let Some(ping) = &ping {
                proto::encode_request(xid::PING, ping, out);
            }
            proto::encode_request(xid, request, out);
        });
        if ping.is_some() {
            self.liveness.pinged(now);
        }
        let (recipient, stand_in) = (Recipient::Heartbeat, None);
        let (op, at, watch, due) = (R::OP, now, None, None);
        self.sent(now, Sent { op, at, offset, recipient, watch, due, stand_in });
    }

    fn sent(&mut self, now: Instant, sent: Sent<H>) {
        if let Some(watch) = sent.watch.as_ref().filter(|watch| watch.is_covered) {
            self.outbound.set_last_byte(watch.covered_byte());
        }
        self.deadlines.put(sent.due, DeadlineOwner::Sent(self.inflight.next_xid()));
        self.inflight.push(sent);
        self.liveness.sent(now);
    }

    /// Marks all requests sent so far as those that begin the connection. Any amount of them may be
    /// on its way.
    pub(crate) fn has_begun(&mut self) {
        self.outbound.has_begun();
    }

    /// Moves bytes for the connection behind those in `into`: only the next part, if there are
    /// many. Returns true if there are more once these are written.
    pub(crate) fn take_bytes(&mut self, into: &mut BytesMut) -> bool {
        let oldest = self.inflight.oldest();
        self.outbound.take(oldest.map(|oldest| oldest.offset), into)
    }

    /// As [`take_bytes`](Self::take_bytes), if nothing follows that these bytes could delay.
    pub(crate) fn take_last_bytes(&mut self, into: &mut BytesMut) -> bool {
        self.outbound.take(None, into)
    }

    pub(crate) fn wrote(&mut self, len: usize) {
        self.outbound.wrote(len);
        self.bytes_sent += u64::try_from(len).unwrap_or(u64::MAX);
    }
}

/// Answers.
impl<H: Handles> Requests<H> {
    pub(crate) fn connected(&mut self, now: Instant) {
        self.liveness.connected(now);
    }

    /// Notes that bytes arrived. Any byte shows that the server is alive: a large reply on a slow
    /// link takes long.
    pub(crate) fn received(&mut self, now: Instant) {
        self.liveness.received(now);
    }

    /// Notes that `rest` is the beginning of a frame, or empty.
    pub(crate) fn received_rest(&mut self, now: Instant, rest: &[u8]) {
        if xid_at_front(rest).is_some_and(|xid| self.inflight.get(xid).is_some()) {
            self.liveness.received_part_of_reply(now);
        } else {
            self.liveness.received_whole_replies();
        }
    }

    /// Notes that a ping was answered, and returns its round-trip time.
    pub(crate) fn ponged(&mut self, now: Instant) -> Option<Duration> {
        self.liveness.ponged(now)
    }

    /// Returns true if this reply arrived out of order.
    ///
    /// The pipeline of a server answers requests in their order. A reply that is missing before
    /// this one was lost on the way, and will not arrive any more. Only a rejection by the connected
    /// server itself may overtake other replies.
    ///
    /// An out-of-order reply counts as seen by the session and is not delivered, as in the Java
    /// client. Events may be missing as well, so watches do not count from its zxid.
    pub(crate) fn has_overtaken(&self, header: &ReplyHeader) -> bool {
        let is_in_order = |sent: &Sent<H>| sent.recipient.is_answered_in_order();
        !self.inflight.is_oldest(header.xid)
            && (header.err.is_ok() || is_quorum_reply(header.err))
            && self.inflight.get(header.xid).is_some_and(is_in_order)
            && self.inflight.before(header.xid).any(is_in_order)
    }

    pub(crate) fn is_in_flight(&self, xid: i32) -> bool {
        self.inflight.get(xid).is_some()
    }

    /// Removes the request that a reply answers. Replies to credentials and rejections overtake
    /// others, so it may not be the oldest.
    pub(crate) fn answered(&mut self, now: Instant, xid: i32) -> Option<Sent<H>> {
        let was_oldest = self.inflight.is_oldest(xid);
        let sent = self.inflight.take(xid)?;
        self.deadlines.met(sent.due);
        let round_trip = now.saturating_duration_since(sent.at);
        self.liveness.answered(now, round_trip);
        if was_oldest {
            self.liveness.answered_oldest(now);
        }
        if !matches!(sent.recipient, Recipient::Heartbeat) {
            self.latency.record(round_trip);
        }
        Some(sent)
    }

    /// Removes the request whose reply cannot be accepted. The xid at the front of the reply
    /// identifies the request. It has almost always arrived with the length.
    pub(crate) fn take_unacceptable(&mut self, reply: &[u8]) -> Option<Sent<H>> {
        let sent = self.inflight.take(xid_at_front(reply)?)?;
        self.deadlines.met(sent.due);
        Some(sent)
    }

    /// Removes the next deadline that has passed. Returns the request and its owner.
    pub(crate) fn pop_late(&mut self, now: Instant) -> Option<(RequestId, DeadlineOwner)> {
        self.deadlines.pop_due(now)
    }

    /// Stops waiting for the reply to a request that was sent. Returns its caller, if one still
    /// waits, and the outcome.
    ///
    /// The request keeps its xid, for the reply that may still arrive, and its position, so that no
    /// reply overtakes it. A watch that a late reply sets at the server is not registered, and is
    /// removed from the server.
    pub(crate) fn give_up(&mut self, xid: i32) -> Option<(H::Reply, Outcome)> {
        let sent = self.inflight.find(xid)?;
        if let Some(watch) = &mut sent.watch {
            watch.is_given_up = true;
        }
        // A read changes nothing.
        let outcome = if sent.is_write() { Outcome::Unknown } else { Outcome::NotApplied };
        match std::mem::replace(&mut sent.recipient, Recipient::Nobody) {
            Recipient::Caller(to) => Some((to, outcome)),
            _ => None,
        }
    }

    /// Removes all deadlines, because the session has ended and every caller is answered.
    pub(crate) fn end(&mut self) {
        self.deadlines = Deadlines::default();
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Removes all requests in flight, oldest first, because the connection is lost. Reads, and
    /// requests of which no byte was written, were not applied. The outcome of all others is
    /// unknown.
    pub(crate) fn disconnected(&mut self) -> Vec<(Recipient<H>, Outcome)> {
        let Self { inflight, outbound, deadlines, liveness, .. } = self;
        let lost = inflight.drain().map(|sent| {
            deadlines.met(sent.due);
            let has_left = outbound.has_left(sent.offset) || sent.completes_create();
            let unknown = sent.is_write() && has_left;
            (sent.recipient, if unknown { Outcome::Unknown } else { Outcome::NotApplied })
        });
        let lost = lost.collect();
        outbound.reset();
        liveness.disconnected();
        lost
    }
}

/// State.
impl<H: Handles> Requests<H> {
    pub(crate) fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    pub(crate) fn oldest(&self) -> Option<&Sent<H>> {
        self.inflight.oldest()
    }

    /// Fills in the figures of the requests.
    pub(crate) fn describe(&self, stats: &mut Stats) {
        stats.in_flight = self.inflight.iter().count();
        stats.queued = self.queue.len();
        stats.queued_bytes = self.queue.bytes();
        stats.unwritten_bytes = self.outbound.unwritten();
        stats.frames_sent = self.outbound.frames();
        stats.bytes_sent = self.bytes_sent;
        stats.request_latency = self.latency.clone();
    }

    /// Checks that each deadline is that of a request which waits. `others` wait with their owners.
    pub(crate) fn check_deadlines(&self, others: usize) {
        let waiting = self.queue.len() + self.inflight.len() + others;
        assert!(self.deadlines.len() <= waiting, "an answered request has no deadline");
    }

    /// Checks that the requests in flight are in the stream in their order.
    pub(crate) fn check_order(&self) {
        let mut last = None;
        for sent in self.inflight.iter() {
            // A request that overtook others has the position of the request after it.
            assert!(last <= Some(sent.offset), "requests are in the stream in their order");
            last = Some(sent.offset);
        }
    }
}

/// Returns the xid in the beginning of a frame, behind its length.
fn xid_at_front(frame: &[u8]) -> Option<i32> {
    frame.get(4..)?.first_chunk().map(|xid| i32::from_be_bytes(*xid))
}
