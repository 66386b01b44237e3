//! What the client asks of the session.

use std::time::Instant;

use bytes::BytesMut;
use proto::{Multi, OpCode, Ping, Request, Sync, xid};

use super::deadlines::{Due, Place, Ticket};
use super::handles::{Handles, Owner, Sent, Waiter, WatchOf};
use super::lease::LeaseRequest;
use super::outbound::Queued;
use super::watches::{PendingWatch, Watcher, rearm_len};
use super::{Failure, Output, Session, WatchKind};
use crate::error::{ErrorKind, Outcome};
use crate::limits::{QUEUED_BYTES_MAX, REQUESTS_MAX};
use crate::planted::Planted;

/// A transaction of nothing. It needs no permission and leaves no trace but its
/// zxid; servers log refusals, and there is nothing in it to refuse.
const HEARTBEAT: Multi<'static> = Multi::new(&[]);

impl<H: Handles> Session<H> {
    /// Sends a request, or keeps it until there is a connection.
    ///
    /// The answer comes as one [`Output::Reply`]. With `watch`, the request's own
    /// watch flag must be set; the watch is registered when the server's answer
    /// says that it was. The ticket is for [`forget`](Self::forget).
    ///
    /// # Errors
    /// The request was refused, was not applied and gets no output: the session
    /// is over or closing, the frame is too large, or a limit is reached.
    pub fn submit<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        to: impl Into<Waiter<H::Reply>>,
        watch: Option<(WatchKind, H::Watch)>,
    ) -> Result<Ticket, Failure> {
        let frame_len = proto::request_frame_len(request);
        match (&watch, request.path()) {
            (Some(_), Some(path)) => self.admit(frame_len.max(rearm_len(path)), true)?,
            _ => self.admit(frame_len, watch.is_some())?,
        }
        if self.is_read_only() && needs_quorum(R::OP) {
            return Err((ErrorKind::NotReadOnly, Outcome::NotApplied));
        }
        let watch = watch.map(|(kind, handle)| PendingWatch {
            path: request.path().unwrap_or_default().into(),
            watcher: Watcher::OneShot(kind, handle),
            is_given_up: false,
            is_covered: false,
        });
        Ok(self.send_or_queue(now, request, to.into(), watch))
    }

    /// Sends a request, or keeps it until there is a connection.
    pub(super) fn send_or_queue<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        to: Waiter<H::Reply>,
        watch: Option<WatchOf<H>>,
    ) -> Ticket {
        let ticket = self.deadlines.ticket();
        let (due, to) = (self.due(now, ticket, &to), to.to);
        if self.is_connected() {
            let xid = self.inflight.next_xid();
            let offset = self.outbound.append(|out| proto::encode_request(xid, request, out));
            self.sent(now, R::OP, offset, Owner::Caller(to), watch, due);
        } else {
            let mut frame = BytesMut::new();
            proto::encode_request(0, request, &mut frame);
            self.deadlines.put(due, Place::Queued);
            self.queue.push(Queued { ticket, op: R::OP, frame, to, watch, due });
        }
        ticket
    }

    /// Moves bytes for the connection behind those in `into`: the next part of them if
    /// they are many. True if there are more, for when these were written; more may also
    /// come when answers do.
    pub fn poll_transmit(&mut self, into: &mut BytesMut) -> bool {
        // Behind closeSession there are no signs of life that could be held up.
        let oldest = self.inflight.oldest().filter(|_| !self.is_close_said());
        self.outbound.take(oldest.map(|oldest| oldest.offset), into)
    }

    /// The connection has taken so many of the bytes it was given.
    pub fn handle_written(&mut self, len: usize) {
        self.outbound.wrote(len);
        self.counters.bytes_sent += u64::try_from(len).unwrap_or(u64::MAX);
    }

    pub(super) fn admit_frame(&self, frame_len: usize) -> Result<(), Failure> {
        // closeSession is the last word, and takes the ephemerals along.
        let end = self.end_begun();
        let refused = if let Some(end) = end {
            ErrorKind::SessionEnded(end)
        } else if frame_len > proto::FRAME_LEN_MAX_SERVER {
            // The server would close the connection without a word.
            ErrorKind::TooLarge { len: frame_len, max: proto::FRAME_LEN_MAX_SERVER }
        } else {
            return Ok(());
        };
        Err((refused, Outcome::NotApplied))
    }

    pub(super) fn admit(&self, frame_len: usize, watching: bool) -> Result<(), Failure> {
        self.admit_frame(frame_len)?;
        let waiting = self.queue.bytes() + self.outbound.unwritten();
        let refused = if self.inflight.len() + self.queue.len() >= REQUESTS_MAX {
            ErrorKind::LimitReached("REQUESTS_MAX")
        } else if waiting + frame_len > QUEUED_BYTES_MAX {
            ErrorKind::LimitReached("QUEUED_BYTES_MAX")
        } else if watching && self.watches.len() >= self.settings.watches_max {
            ErrorKind::LimitReached("WATCHES_MAX")
        } else {
            return Ok(());
        };
        Err((refused, Outcome::NotApplied))
    }

    pub(super) fn transmit<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        owner: Owner<H>,
        watch: Option<WatchOf<H>>,
    ) {
        let xid = self.inflight.next_xid();
        let offset = self.outbound.append(|out| proto::encode_request(xid, request, out));
        self.sent(now, R::OP, offset, owner, watch, None);
    }

    pub(super) fn sent(
        &mut self,
        now: Instant,
        op: OpCode,
        offset: u64,
        owner: Owner<H>,
        mut watch: Option<WatchOf<H>>,
        due: Option<Due>,
    ) {
        if let Some(watch) = &mut watch {
            self.watches.asks(watch);
            if watch.is_covered {
                self.outbound.set_last_byte(watch.covered_byte());
            }
        }
        // A transaction that is answered before it would move the zxid past events that
        // it still has to bring.
        if matches!(owner, Owner::Rearm) {
            self.outbound.hold();
        }
        self.deadlines.put(due, Place::Sent(self.inflight.next_xid()));
        self.inflight.push(Sent { op, at: now, offset, owner, watch, due });
        self.pulse.sent(now);
    }

    /// Everything a new connection starts with, in this order: credentials, so
    /// that nothing is evaluated without them; watches, so that no request sees
    /// the state behind an event that is still owed (kazoo #218, go #83); the
    /// lease; clean-up and what callers asked for meanwhile, in the order in which
    /// it was asked for: a clean-up is meant for what was made before; the end.
    pub(super) fn transmit_backlog(&mut self, now: Instant) {
        for index in 0..self.credentials.len() {
            self.send_credential(now, index);
        }
        self.chores.retry();
        if !Planted::RearmAfterRequests.is_on() {
            self.send_rearming(now);
        }
        self.outbound.has_begun();
        if self.lease.is_claimed() && !self.is_read_only() {
            self.send_lease_request(now, None, LeaseRequest::Quorum);
        }
        while let Some(Queued { ticket, op, mut frame, to, watch, due }) = self.queue.pop() {
            let is_refused = self.is_read_only() && needs_quorum(op);
            if is_refused && !Planted::QueuedToReadOnly.is_on() {
                self.deadlines.met(due);
                let result = Err((ErrorKind::NotReadOnly, Outcome::NotApplied));
                self.outputs.push_back(Output::Reply { to, result });
                continue;
            }
            self.send_chores(now, ticket);
            proto::patch_xid(&mut frame, self.inflight.next_xid());
            let offset = self.outbound.append(|out| out.extend_from_slice(&frame));
            self.sent(now, op, offset, Owner::Caller(to), watch, due);
        }
        if Planted::RearmAfterRequests.is_on() {
            self.send_rearming(now);
        }
        self.send_all_chores(now);
        self.say_close(now);
    }

    /// Asks a quorum for an answer that renews the lease, on behalf of a caller. The session's own
    /// request of that kind is put off by it.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn renew_lease(
        &mut self,
        now: Instant,
        to: impl Into<Waiter<H::Reply>>,
    ) -> Result<Ticket, Failure> {
        let ticket = self.submit(now, &HEARTBEAT, to, None)?;
        if self.is_connected() {
            self.lease.asked(LeaseRequest::Quorum, now);
        }
        Ok(ticket)
    }

    /// Sends what a claimed lease needs, and a ping in front of it; see [`super::lease`].
    pub(super) fn send_lease_request(
        &mut self,
        now: Instant,
        ping: Option<Ping>,
        request: LeaseRequest,
    ) {
        let xid = self.inflight.next_xid();
        // In one go: what overtakes later would go in front of the ping.
        let offset = self.outbound.overtake(|out| {
            if let Some(ping) = &ping {
                proto::encode_request(xid::PING, ping, out);
            }
            match request {
                LeaseRequest::Leader => proto::encode_request(xid, &Sync { path: "/".into() }, out),
                LeaseRequest::Quorum => proto::encode_request(xid, &HEARTBEAT, out),
            }
        });
        if ping.is_some() {
            self.pulse.pinged(now);
        }
        let op = match request {
            LeaseRequest::Leader => OpCode::Sync,
            LeaseRequest::Quorum => OpCode::Multi,
        };
        self.sent(now, op, offset, Owner::Heartbeat, None, None);
        self.lease.asked(request, now);
    }
}

/// True for what a read-only server refuses.
fn needs_quorum(op: OpCode) -> bool {
    op.is_write() && op != OpCode::CloseSession || op == OpCode::Sync
}
