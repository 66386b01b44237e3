//! Requests of callers, and the order of requests on a new connection.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::{OpCode, Request};

use super::Session;
use crate::requests::{DeadlineOwner, Queued, Recipient, WatchOf};
use crate::watches::{PendingWatch, Watcher, rearm_len};
use crate::{
    ErrorKind, Failure, Forgotten, Handles, Limit, Outcome, ReplyTo, RequestId, WatchKind,
};

impl<H: Handles> Session<H> {
    /// Sends a request, or queues it until there is a connection.
    ///
    /// The reply arrives as one [`Output::Reply`](crate::Output::Reply). With `watch`, the request's
    /// own watch flag must be set. The watch is registered when the server's reply confirms that it
    /// was set. The returned id is for [`forget`](Self::forget).
    ///
    /// # Errors
    /// The request was rejected, was not applied and produces no output. The session is over or
    /// closing, the frame is too large, a limit is reached, or the server is read-only.
    pub fn submit<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        to: impl Into<ReplyTo<H::Reply>>,
        watch: Option<(WatchKind, H::Watch)>,
    ) -> Result<RequestId, Failure> {
        let frame_len = proto::request_frame_len(request);
        match (&watch, request.path()) {
            (Some(_), Some(path)) => self.admit_watch(frame_len.max(rearm_len(path)))?,
            (Some(_), None) => self.admit_watch(frame_len)?,
            (None, _) => self.admit(frame_len)?,
        }
        if self.is_read_only() && needs_quorum(R::OP) {
            return Err((ErrorKind::NotReadOnly, Outcome::NotApplied));
        }
        let watch = watch.map(|(kind, handle)| {
            PendingWatch::new(request.path().unwrap_or_default(), Watcher::OneShot(kind, handle))
        });
        Ok(self.send_or_queue(now, request, to.into(), watch))
    }

    /// Sends an admitted request, or queues it until there is a connection.
    pub(super) fn send_or_queue<R: Request>(
        &mut self,
        now: Instant,
        request: &R,
        to: ReplyTo<H::Reply>,
        mut watch: Option<WatchOf<H>>,
    ) -> RequestId {
        let id = self.requests.next_id();
        let due = self.requests.due(now, id, &to);
        if self.is_connected() && self.vocabulary.is_plain(R::OP) {
            if let Some(watch) = &mut watch {
                self.watches.request_sent(watch);
            }
            self.requests.send(now, request, Recipient::Caller(to.to), watch, due);
            return id;
        }
        let queued = Queued::new(id, request, to.to, watch, due);
        if self.is_connected() {
            self.send_encoded(now, queued);
        } else {
            self.requests.enqueue(queued, self.opened_by(now));
        }
        id
    }

    /// Returns until when requests without a time limit wait for the first connection.
    fn opened_by(&self, now: Instant) -> Option<Instant> {
        if self.is_established() {
            return None;
        }
        Some(now + self.settings.unopened_timeout?)
    }

    /// Limits the wait of a caller whose request goes on without it.
    pub(super) fn limited<R>(&self, now: Instant, to: ReplyTo<R>) -> ReplyTo<R> {
        let has_limit = to.deadline.is_some() || self.request_timeout().is_some();
        let opened_by = if has_limit { None } else { self.opened_by(now) };
        ReplyTo { deadline: to.deadline.or(opened_by), ..to }
    }

    /// Rejects a request that no server would accept.
    pub(super) fn admit_frame(&self, frame_len: usize) -> Result<(), Failure> {
        // closeSession is the last request, and deletes the ephemeral nodes.
        let refused = if let Some(end) = self.end_begun() {
            ErrorKind::SessionEnded(end)
        } else if frame_len > self.settings.max_request_len {
            // The server would close the connection without an answer.
            ErrorKind::TooLarge { len: frame_len, max: self.settings.max_request_len }
        } else {
            return Ok(());
        };
        Err((refused, Outcome::NotApplied))
    }

    /// Rejects a request that no server would accept, or that exceeds a limit.
    pub(super) fn admit(&self, frame_len: usize) -> Result<(), Failure> {
        self.admit_frame(frame_len)?;
        self.requests.admit(frame_len)
    }

    /// As [`admit`](Self::admit), for a request that sets a watch.
    pub(super) fn admit_watch(&self, frame_len: usize) -> Result<(), Failure> {
        self.admit(frame_len)?;
        if self.watches.len() >= self.settings.max_watches {
            Err((ErrorKind::LimitReached(Limit::Watches), Outcome::NotApplied))
        } else {
            Ok(())
        }
    }

    /// Adds a credential, which is sent now and again on every connection. `to` receives the first
    /// reply. A credential that the server rejects ends the session: the server closes the
    /// connection over it, so no later connection would work.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn add_credential(
        &mut self,
        now: Instant,
        scheme: &str,
        auth: Bytes,
        to: impl Into<ReplyTo<H::Reply>>,
    ) -> Result<(), Failure> {
        self.admit(scheme.len() + auth.len() + 32)?;
        let to = self.limited(now, to.into());
        let added = self.credentials.add(now, scheme, auth, to, &mut self.requests)?;
        if let (Some(index), true) = (added, self.is_connected()) {
            self.credentials.send(now, index, &mut self.requests);
        }
        Ok(())
    }

    /// Cancels a request that still waits for a connection, because no caller waits for its reply.
    /// Returns its handles, to be dropped where that does no harm. A request that was sent is not
    /// cancelled.
    #[must_use = "dropping the handles may wake a task, which must not happen under a lock"]
    pub fn forget(&mut self, id: RequestId) -> Option<(H::Reply, Option<Forgotten<H>>)> {
        let Queued { to, watch, .. } = self.requests.cancel(id)?;
        let watch = watch.map(|watch| match watch.watcher {
            Watcher::OneShot(_, handle) => Forgotten::Watch(handle),
            Watcher::Stream(_, stream) => Forgotten::Stream(stream),
        });
        Some((to, watch))
    }

    /// Answers all requests whose deadline has passed. Clean-up tasks and credentials continue.
    /// Only their callers stop waiting.
    pub(super) fn fail_late(&mut self, now: Instant) {
        while let Some((id, owner)) = self.requests.pop_late(now) {
            let late = match owner {
                DeadlineOwner::Queued => {
                    self.requests.cancel(id).map(|queued| (queued.to, Outcome::NotApplied))
                }
                DeadlineOwner::Sent(xid) => self.requests.give_up(xid),
                DeadlineOwner::CleanUpTask => {
                    self.clean_up.stop_waiting(id).map(|to| (to, Outcome::Unknown))
                }
                DeadlineOwner::Credential(index) => {
                    self.credentials.stop_waiting(index, id).map(|to| (to, Outcome::Unknown))
                }
            };
            if let Some((to, outcome)) = late {
                self.outputs.fail(to, ErrorKind::TimedOut, outcome);
            }
        }
    }

    /// Moves bytes for the connection behind those in `into`: only the next part, if there are
    /// many. Returns true if there are more once these are written. Replies may also release more.
    pub fn poll_transmit(&mut self, into: &mut BytesMut) -> bool {
        if self.is_close_sent() {
            // No ping or heartbeat follows closeSession, so there is none to delay.
            self.requests.take_last_bytes(into)
        } else {
            self.requests.take_bytes(into)
        }
    }

    /// Reports that the connection has accepted `len` of its bytes.
    pub fn handle_written(&mut self, len: usize) {
        self.requests.wrote(len);
    }

    /// Sends a request that has waited for a connection.
    pub(super) fn send_queued(&mut self, now: Instant, queued: Queued<H>) {
        if self.is_read_only() && needs_quorum(queued.op) {
            return self.outputs.fail(queued.to, ErrorKind::NotReadOnly, Outcome::NotApplied);
        }
        self.send_clean_up_before(now, queued.id);
        self.send_encoded(now, queued);
    }

    /// Sends a request, or what stands in for it.
    pub(super) fn send_encoded(&mut self, now: Instant, mut queued: Queued<H>) {
        let is_plain = self.vocabulary.is_plain(queued.op);
        let adapted = if is_plain { Ok(None) } else { self.vocabulary.adapt(&mut queued) };
        let stand_in = match adapted {
            Ok(stand_in) => stand_in,
            Err(refused) => {
                return self.outputs.fail(queued.to, refused, Outcome::NotApplied);
            }
        };
        if let Some(watch) = &mut queued.watch {
            self.watches.request_sent(watch);
        }
        self.requests.send_queued(now, queued, stand_in);
    }
}

/// Returns true for requests that a read-only server rejects.
fn needs_quorum(op: OpCode) -> bool {
    op.is_write() && op != OpCode::CloseSession || op == OpCode::Sync
}
