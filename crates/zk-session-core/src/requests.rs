//! Requests of the client.

use std::time::Instant;

use bytes::BytesMut;
use proto::{Multi, OpCode, Ping, Request, Sync, xid};

use super::deadlines::{DeadlineOwner, Due, RequestId};
use super::handles::{Handles, Recipient, Sent, Waiter, WatchOf};
use super::lease::LeaseRequest;
use super::outbound::Queued;
use super::watches::{PendingWatch, Watcher, rearm_len};
use super::{Failure, Output, Session, WatchKind};
use crate::error::{ErrorKind, Outcome};
use crate::limits::{QUEUED_BYTES_MAX, REQUESTS_MAX};
use crate::planted::Planted;

/// Empty transaction. It needs no permission and leaves no trace but its zxid. Servers log
/// rejections, and an empty transaction contains nothing to reject.
const HEARTBEAT: Multi<'static> = Multi::new(&[]);

impl<H: Handles> Session<H> {
    /// Sends a request, or queues it until there is a connection.
    ///
    /// The reply arrives as one [`Output::Reply`]. With `watch`, the request's own watch flag must
    /// be set. The watch is registered when the server's reply confirms that it was set. The ticket
    /// is for [`forget`](Self::forget).
    ///
    /// # Errors
    /// The request was rejected, was not applied and produces no output. The session is over or
    /// closing, the frame is too large, a limit is reached, or the server is read-only.
    pub fn submit<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        to: impl Into<Waiter<H::Reply>>,
        watch: Option<(WatchKind, H::Watch)>,
    ) -> Result<RequestId, Failure> {
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

    /// Sends a request, or queues it until there is a connection.
    pub(super) fn send_or_queue<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        to: Waiter<H::Reply>,
        watch: Option<WatchOf<H>>,
    ) -> RequestId {
        let ticket = self.deadlines.ticket();
        let (due, to) = (self.due(now, ticket, &to), to.to);
        if self.is_connected() {
            let xid = self.inflight.next_xid();
            let offset = self.outbound.append(|out| proto::encode_request(xid, request, out));
            self.sent(now, R::OP, offset, Recipient::Caller(to), watch, due);
        } else {
            let mut frame = BytesMut::new();
            proto::encode_request(0, request, &mut frame);
            self.deadlines.put(due, DeadlineOwner::Queued);
            self.queue.push(Queued { ticket, op: R::OP, frame, to, watch, due });
        }
        ticket
    }

    /// Moves bytes for the connection behind those in `into`: only the next part, if there are
    /// many. Returns true if there are more once these are written. Replies may also release more.
    pub fn poll_transmit(&mut self, into: &mut BytesMut) -> bool {
        // No ping or heartbeat follows closeSession, so there is none to delay.
        let oldest = self.inflight.oldest().filter(|_| !self.is_close_said());
        self.outbound.take(oldest.map(|oldest| oldest.offset), into)
    }

    /// Reports that the connection has accepted `len` of its bytes.
    pub fn handle_written(&mut self, len: usize) {
        self.outbound.wrote(len);
        self.counters.bytes_sent += u64::try_from(len).unwrap_or(u64::MAX);
    }

    pub(super) fn admit_frame(&self, frame_len: usize) -> Result<(), Failure> {
        // closeSession is the last request, and deletes the ephemeral nodes.
        let end = self.end_begun();
        let refused = if let Some(end) = end {
            ErrorKind::SessionEnded(end)
        } else if frame_len > proto::FRAME_LEN_MAX_SERVER {
            // The server would close the connection without an answer.
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
        owner: Recipient<H>,
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
        owner: Recipient<H>,
        mut watch: Option<WatchOf<H>>,
        due: Option<Due>,
    ) {
        if let Some(watch) = &mut watch {
            self.watches.asks(watch);
            if watch.is_covered {
                self.outbound.set_last_byte(watch.covered_byte());
            }
        }
        // A transaction that is answered before this request would move the zxid past events that
        // this request still has to deliver.
        if matches!(owner, Recipient::Rearm) {
            self.outbound.hold();
        }
        self.deadlines.put(due, DeadlineOwner::Sent(self.inflight.next_xid()));
        self.inflight.push(Sent { op, at: now, offset, owner, watch, due });
        self.liveness.sent(now);
    }

    /// Sends everything that a new connection starts with, in this order:
    ///
    /// 1. Credentials, so that nothing is evaluated without them.
    /// 2. Watches, so that no request reads the state behind an event that is still pending (kazoo
    ///    #218, go #83).
    /// 3. A lease request.
    /// 4. Clean-up tasks and queued requests, in the order of submission. A clean-up task is meant
    ///    for nodes that were created before it.
    /// 5. closeSession.
    pub(super) fn transmit_backlog(&mut self, now: Instant) {
        for index in 0..self.credentials.len() {
            self.send_credential(now, index);
        }
        self.cleanup_tasks.retry();
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
            self.send_cleanup_tasks(now, ticket);
            proto::patch_xid(&mut frame, self.inflight.next_xid());
            let offset = self.outbound.append(|out| out.extend_from_slice(&frame));
            self.sent(now, op, offset, Recipient::Caller(to), watch, due);
        }
        if Planted::RearmAfterRequests.is_on() {
            self.send_rearming(now);
        }
        self.send_all_cleanup_tasks(now);
        self.send_close(now);
    }

    /// Requests the agreement of a quorum, which renews the lease, on behalf of a caller. The
    /// session postpones its own request of that kind.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn renew_lease(
        &mut self,
        now: Instant,
        to: impl Into<Waiter<H::Reply>>,
    ) -> Result<RequestId, Failure> {
        let ticket = self.submit(now, &HEARTBEAT, to, None)?;
        if self.is_connected() {
            self.lease.asked(LeaseRequest::Quorum, now);
        }
        Ok(ticket)
    }

    /// Sends a request that a claimed lease needs, with an optional ping in front of it; see
    /// [`super::lease`].
    pub(super) fn send_lease_request(
        &mut self,
        now: Instant,
        ping: Option<Ping>,
        request: LeaseRequest,
    ) {
        let xid = self.inflight.next_xid();
        // Both in one call: a frame that overtakes later would go in front of the ping.
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
            self.liveness.pinged(now);
        }
        let op = match request {
            LeaseRequest::Leader => OpCode::Sync,
            LeaseRequest::Quorum => OpCode::Multi,
        };
        self.sent(now, op, offset, Recipient::Heartbeat, None, None);
        self.lease.asked(request, now);
    }
}

/// Returns true for requests that a read-only server rejects.
fn needs_quorum(op: OpCode) -> bool {
    op.is_write() && op != OpCode::CloseSession || op == OpCode::Sync
}
