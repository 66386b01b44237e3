//! What the client asks of the session.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{
    AuthPacket, ChildrenReply, CloseSession, Decode, Delete, GetChildren2, Multi, OpCode, Request,
    Sync,
};

use super::chores::{Chore, Task};
use super::deadlines::{Due, Place, Ticket};
use super::handles::{Handle, Owner, Sent, Waiter, WatchOf};
use super::link::Link;
use super::outbound::Queued;
use super::watches::{PendingWatch, Watcher, rearm_len};
use super::{Failure, Handles, Output, Reply, Session, WatchKind};
use crate::error::{ErrorKind, Outcome, PASSING_CODES};
use crate::limits::{CHORES_MAX, CREDENTIALS_MAX, QUEUED_BYTES_MAX, REQUESTS_MAX, WATCHES_MAX};
use crate::planted::Planted;
use crate::{SessionEnd, SessionEvent};

/// A transaction of nothing. It needs no permission and leaves no trace but its
/// zxid; servers log refusals, and there is nothing in it to refuse.
pub(crate) const HEARTBEAT: Multi<'static> = Multi::new(&[]);

/// Credentials, replayed on every connection before anything else.
#[derive(Debug)]
pub(super) struct Credential<R> {
    scheme: String,
    auth: Auth,
    /// Who waits for the first answer.
    pub(super) waiter: Option<R>,
    pub(super) due: Option<Due>,
}

/// What proves the identity; never printed.
struct Auth(Bytes);

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth(hidden)")
    }
}

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

    /// Deletes a node for certain: as long as the session lives the delete is
    /// sent again on every connection until the server has answered it. `NoNode` is
    /// told only if the node was gone before the first attempt; one that is found
    /// gone by a repetition counts as deleted by an attempt before. Without a handle,
    /// any other refusal by the server is told as [`SessionEvent::CleanUpFailed`].
    /// A deadline ends the waiting only.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn delete_for_certain(
        &mut self,
        now: Instant,
        path: &str,
        to: Option<Waiter<H::Reply>>,
    ) -> Result<(), Failure> {
        self.add_chore(now, Chore::Delete { path: path.to_owned() }, to)
    }

    /// Deletes for certain every child of `parent` whose name starts with
    /// `prefix`: what a create may have made whose answer nobody waits for. Call
    /// it after that create was submitted.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn sweep_for_certain(
        &mut self,
        now: Instant,
        parent: &str,
        prefix: &str,
    ) -> Result<(), Failure> {
        let chore = Chore::Sweep { parent: parent.to_owned(), prefix: prefix.to_owned() };
        self.add_chore(now, chore, None)
    }

    /// Adds credentials, which are sent now and again on every connection. The
    /// answer to the first time goes to `to`. Credentials that the server does
    /// not accept end the session: it closes the connection over them, so going
    /// on would never work.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn add_credential(
        &mut self,
        now: Instant,
        scheme: &str,
        auth: Bytes,
        to: impl Into<Waiter<H::Reply>>,
    ) -> Result<(), Failure> {
        self.admit(scheme.len() + auth.len() + 32, false)?;
        // Presented again they are the same; a service may do so for every request.
        let known = self
            .credentials
            .iter()
            .position(|it| it.scheme == scheme && it.auth.0 == auth && it.waiter.is_none());
        if known.is_none() && self.credentials.len() >= CREDENTIALS_MAX {
            return Err((ErrorKind::LimitReached("CREDENTIALS_MAX"), Outcome::NotApplied));
        }
        let to = to.into();
        let ticket = self.deadlines.ticket();
        let due = self.due(now, ticket, &to);
        let index = known.unwrap_or(self.credentials.len());
        self.deadlines.put(due, Place::Credential(index));
        let scheme = scheme.to_owned();
        let credential = Credential { scheme, auth: Auth(auth), waiter: Some(to.to), due };
        match self.credentials.get_mut(index) {
            Some(known) => *known = credential,
            None => self.credentials.push(credential),
        }
        if self.is_connected() {
            self.send_credential(now, index);
        }
        Ok(())
    }

    /// Ends the session. Requests made before are sent first; later ones are
    /// refused. Without a connection it goes on trying to get one, so that the
    /// server learns of the end, until `Settings::close_timeout` is over.
    pub fn close(&mut self, now: Instant) {
        if self.closing.is_some() || self.ended().is_some() {
            return;
        }
        self.begin_to_close(now + self.settings.close_timeout);
        if self.is_connected() {
            self.transmit(now, &CloseSession, Owner::Close, None);
        } else if self.identity.session_id == 0 && matches!(self.link, Link::Waiting { .. }) {
            self.end(SessionEnd::Closed); // there is nothing to tell a server
        }
    }

    /// Ends this end of the session and leaves the session itself to whoever has its
    /// [`credentials`](Self::credentials). It happens when the driver next tells the
    /// time, after it has told what the socket has taken; requests that have no answer
    /// by then fail, clean-up included.
    pub fn detach(&mut self, now: Instant) {
        if self.closing.is_none() && self.ended().is_none() {
            self.detaching = true;
            self.begin_to_close(now);
        }
    }

    /// Whoever still holds a lock is told at once: a server gives it away when it has
    /// the request to close, which may be long before the answer is here.
    fn begin_to_close(&mut self, until: Instant) {
        self.closing = Some(until);
        if self.lease.lapse() {
            let standing = self.standing();
            self.outputs.push_back(Output::Standing(standing));
        }
    }

    /// Ends the session without telling the server, for a driver that is going
    /// away. The server expires the session in its own time.
    pub fn abort(&mut self) {
        self.end(SessionEnd::Closed);
    }

    /// Moves bytes for the connection behind those in `into`: the next part of them if
    /// they are many. True if there are more, for when these were written.
    pub fn poll_transmit(&mut self, into: &mut BytesMut) -> bool {
        self.outbound.take(into)
    }

    /// The connection has taken so many of the bytes it was given.
    pub fn handle_written(&mut self, len: usize) {
        self.outbound.wrote(len);
        self.counters.bytes_sent += u64::try_from(len).unwrap_or(u64::MAX);
    }

    fn admit_frame(&self, frame_len: usize) -> Result<(), Failure> {
        let refused = if let Some(end) = self.ended() {
            ErrorKind::SessionEnded(end)
        } else if self.closing.is_some() {
            // closeSession is the last word, and takes the ephemerals along.
            ErrorKind::SessionEnded(SessionEnd::Closed)
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
        } else if watching && self.watches.len() >= WATCHES_MAX {
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

    fn sent(
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
        // A transaction that is answered before them would move the zxid past events
        // that they still have to bring.
        if matches!(owner, Owner::Rearm | Owner::Credential(_)) {
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
        if !Planted::RearmAfterRequests.is_on() {
            self.send_rearming(now);
        }
        if self.lease.is_claimed() && !self.is_read_only() {
            self.send_heartbeat(now);
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
        if self.closing.is_some() && !self.detaching {
            self.transmit(now, &CloseSession, Owner::Close, None);
        }
    }

    fn send_credential(&mut self, now: Instant, index: usize) {
        let Some(Credential { scheme, auth, .. }) = self.credentials.get(index) else {
            return;
        };
        let packet = AuthPacket {
            auth_type: 0,
            scheme: scheme.as_str().into(),
            auth: Some(auth.0.as_ref().into()),
        };
        // An ordinary xid: the server echoes it, and its answer may overtake others.
        let xid = self.inflight.next_xid();
        let offset = self.outbound.append(|out| proto::encode_request(xid, &packet, out));
        self.sent(now, OpCode::Auth, offset, Owner::Credential(index), None, None);
    }

    /// Asks a quorum for a sign of life: see [`super::lease`].
    pub(super) fn send_heartbeat(&mut self, now: Instant) {
        let xid = self.inflight.next_xid();
        let (op, offset) = match Planted::LeaseFedBySync.is_on() {
            true => {
                let sync = Sync { path: "/".into() };
                let encode = |out: &mut _| proto::encode_request(xid, &sync, out);
                (OpCode::Sync, self.outbound.overtake(encode))
            }
            false => {
                let encode = |out: &mut _| proto::encode_request(xid, &HEARTBEAT, out);
                (OpCode::Multi, self.outbound.overtake(encode))
            }
        };
        self.sent(now, op, offset, Owner::Heartbeat, None, None);
        self.pulse.asked_quorum(now);
    }

    fn add_chore(
        &mut self,
        now: Instant,
        chore: Chore,
        to: Option<Waiter<H::Reply>>,
    ) -> Result<(), Failure> {
        // A frame the server refuses would cost every connection from now on.
        let (Chore::Delete { path } | Chore::Sweep { parent: path, .. }) = &chore;
        let path = path.as_str().into();
        self.admit_frame(proto::request_frame_len(&Delete { path, version: -1 }))?;
        if self.chores.len() >= CHORES_MAX {
            return Err((ErrorKind::LimitReached("CHORES_MAX"), Outcome::NotApplied));
        }
        let number = self.deadlines.ticket();
        let due = to.as_ref().and_then(|to| self.due(now, number, to));
        self.deadlines.put(due, Place::Chore);
        self.chores.add(number, chore, to.map(|to| to.to), due);
        if self.is_connected() {
            self.send_all_chores(now);
        }
        Ok(())
    }

    pub(super) fn send_all_chores(&mut self, now: Instant) {
        self.send_chores(now, Ticket(u64::MAX));
    }

    /// Sends what is older than the request with that ticket.
    fn send_chores(&mut self, now: Instant, before: Ticket) {
        if self.is_read_only() {
            return; // they wait for a server that takes writes
        }
        while let Some((number, chore)) = self.chores.start_next(before) {
            let owner = Owner::Chore(number);
            match chore {
                Chore::Delete { path } => {
                    let request = Delete { path: path.as_str().into(), version: -1 };
                    self.transmit(now, &request, owner, None);
                }
                Chore::Sweep { parent, .. } => {
                    // The server may be behind the one that took the create.
                    let sync = Sync { path: parent.as_str().into() };
                    self.transmit(now, &sync, Owner::CatchUp(number), None);
                    let list = GetChildren2 { path: parent.as_str().into(), watch: false };
                    self.transmit(now, &list, owner, None);
                }
            }
        }
    }

    /// The server has answered a chore.
    pub(super) fn chore_answered(
        &mut self,
        now: Instant,
        number: Ticket,
        code: proto::ErrorCode,
        reply: Reply,
    ) {
        use proto::ErrorCode as Code;
        if PASSING_CODES.contains(&code) || self.chores.is_behind(number) {
            // Not all who were told so at the same moment, at the same moment again.
            let pause = self.identity.timeout / 10;
            let jitter = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
            let jitter = Duration::from_micros(self.rng.below(jitter));
            self.chores.postpone(number, now + pause + jitter);
            return;
        }
        let Some(Task { chore, waiter, due, repeated, .. }) = self.chores.finish(number) else {
            return;
        };
        self.deadlines.met(due);
        let gone = code == Code::NO_NODE;
        let told = if gone && repeated { Code::OK } else { code };
        if let (true, Chore::Sweep { parent, prefix }) = (code.is_ok(), &chore) {
            self.sweep(parent, prefix, &reply.body);
            self.send_all_chores(now);
        }
        match waiter.filter(|to| !to.is_abandoned()) {
            Some(to) => {
                let result = match told.is_ok() {
                    true => Ok(reply),
                    false => Err((ErrorKind::Server(told), Outcome::NotApplied)),
                };
                self.outputs.push_back(Output::Reply { to, result });
            }
            None if code.is_ok() || gone => {}
            None => {
                let (Chore::Delete { path } | Chore::Sweep { parent: path, .. }) = chore;
                self.event(SessionEvent::CleanUpFailed { path, code });
            }
        }
    }

    /// The answer to a chore can never be taken: sent again it would cost the next
    /// connection, too.
    pub(super) fn give_up_chore(&mut self, number: Ticket) {
        let Some(Task { chore, waiter, due, .. }) = self.chores.finish(number) else { return };
        self.deadlines.met(due);
        let code = proto::ErrorCode::MARSHALLING_ERROR;
        match waiter {
            Some(to) => {
                let result = Err((ErrorKind::Server(code), Outcome::Unknown));
                self.outputs.push_back(Output::Reply { to, result });
            }
            None => {
                let (Chore::Delete { path } | Chore::Sweep { parent: path, .. }) = chore;
                self.event(SessionEvent::CleanUpFailed { path, code });
            }
        }
    }

    fn sweep(&mut self, parent: &str, prefix: &str, list: &Bytes) {
        // A list that cannot be read names nothing that could be deleted.
        let Ok(ChildrenReply { children, .. }) = ChildrenReply::from_frame(list) else {
            return;
        };
        let parent = parent.trim_end_matches('/');
        for name in children.names().filter(|name| name.starts_with(prefix)) {
            let number = self.deadlines.ticket();
            let chore = Chore::Delete { path: format!("{parent}/{name}") };
            self.chores.add(number, chore, None, None);
        }
    }
}

/// True for what a read-only server refuses.
fn needs_quorum(op: OpCode) -> bool {
    op.is_write() && op != OpCode::CloseSession || op == OpCode::Sync
}
