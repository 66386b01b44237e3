//! End of the session: `close`, `detach`, and the answers to all callers that still wait.

use std::time::{Duration, Instant};

use proto::CloseSession;

use super::Session;
use crate::limits::{CLEAN_UPS_MAX, CLOSE_CLEAN_UP_PART};
use crate::requests::Recipient;
use crate::{ErrorKind, Handles, Outcome, Output, SessionEnd, SessionEvent};

/// End that has begun.
#[derive(Debug)]
pub(super) struct Closing {
    end: SessionEnd,
    /// Time at which the session ends, with or without a reply to closeSession.
    until: Instant,
    /// Time until which clean-up that needs more than one request may continue.
    clean_up_until: Instant,
    /// True once closeSession was sent, the last request on a connection.
    is_sent: bool,
}

impl Closing {
    /// Notes that the connection was lost, and closeSession with it.
    pub(super) fn disconnected(&mut self) {
        self.is_sent = false;
    }
}

impl<H: Handles> Session<H> {
    /// Ends the session. Requests submitted before are sent first, and later requests are rejected.
    /// Clean-up that needs a reply before it can continue gets half of the time limit.
    ///
    /// Without a connection, the session keeps trying to connect until `Settings::close_timeout`
    /// has passed, so that the server receives the request to close.
    pub fn close(&mut self, now: Instant) {
        // A `SessionManager` opens the next session after an overflow, but not after `close`.
        if let Some(closing) = &mut self.closing {
            if closing.end == SessionEnd::CleanUpOverflow {
                closing.end = SessionEnd::Closed;
            }
        }
        self.close_as(now, SessionEnd::Closed);
    }

    pub(super) fn close_as(&mut self, now: Instant, end: SessionEnd) {
        if self.end_begun().is_some() {
            return;
        }
        let timeout = self.settings.close_timeout;
        self.begin_to_close(end, now, CLOSE_CLEAN_UP_PART.of(timeout), timeout);
        if !self.identity.exists() && self.connection.is_waiting() {
            self.end(end); // no server has the session
        } else {
            self.send_close(now);
        }
    }

    /// Closes the session like [`close`](Self::close), but sends the request to close without
    /// waiting for clean-up. For a driver that is dropped; the server removes the ephemeral nodes.
    pub fn close_at_once(&mut self, now: Instant) {
        self.close(now);
        if let Some(closing) = &mut self.closing {
            closing.clean_up_until = now;
        }
        self.send_close(now);
    }

    /// Ends the session for this client and leaves it alive for the holder of its
    /// [`credentials`](Self::credentials).
    ///
    /// The end takes effect at the next [`handle_timeout`](Self::handle_timeout), after the driver
    /// has reported what the socket accepted. Requests without a reply by then fail, including
    /// clean-up.
    pub fn detach(&mut self, now: Instant) {
        if self.end_begun().is_none() {
            self.begin_to_close(SessionEnd::Detached, now, Duration::ZERO, Duration::ZERO);
        }
    }

    /// Ends the session without informing the server, for a driver that is going away. The server
    /// expires the session after its timeout.
    pub fn abort(&mut self) {
        self.end(SessionEnd::Closed);
    }

    /// As [`abort`](Self::abort), for a driver in which code of the application has panicked.
    pub fn abort_after_panic(&mut self) {
        self.end(SessionEnd::DriverPanicked);
    }

    /// Ends a session before any attempt to open it.
    pub fn never_open(&mut self) {
        self.end(SessionEnd::NotOpened);
    }

    /// Begins the end, and ends the lease at once. A server grants the session's locks to others
    /// when it receives the request to close, which may be long before its reply arrives.
    fn begin_to_close(
        &mut self,
        end: SessionEnd,
        now: Instant,
        clean_up: Duration,
        timeout: Duration,
    ) {
        let (clean_up_until, until) = (now + clean_up, now + timeout);
        self.closing = Some(Closing { end, until, clean_up_until, is_sent: false });
        if self.lease.lapse() {
            self.report_lease_state();
        }
    }

    /// Returns the reason of the end that has begun.
    pub(super) fn closing_as(&self) -> Option<SessionEnd> {
        self.closing.as_ref().map(|closing| closing.end)
    }

    /// Returns the reason of the end that has begun, if it includes closing the session at the
    /// server.
    pub(super) fn closing_with_server(&self) -> Option<SessionEnd> {
        self.closing_as().filter(|end| *end != SessionEnd::Detached)
    }

    /// Returns the reason of the end, also if the end has only begun.
    #[must_use]
    pub fn end_begun(&self) -> Option<SessionEnd> {
        self.end_reason().or_else(|| self.closing_as())
    }

    /// Sends closeSession while connected, unless clean-up has to continue first.
    pub(super) fn send_close(&mut self, now: Instant) {
        let is_up = self.is_connected();
        let waits = self.clean_up.needs_replies() && !self.is_read_only();
        let tells_server = self.closing_with_server().is_some();
        let Some(closing) = &mut self.closing else { return };
        let is_time = !waits || closing.clean_up_until <= now;
        if is_up && is_time && tells_server && !closing.is_sent {
            closing.is_sent = true;
            self.requests.send(now, &CloseSession, Recipient::Close, None, None);
        }
    }

    pub(super) fn is_close_sent(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.is_sent)
    }

    /// Returns when closeSession is due, even if clean-up is left.
    pub(super) fn close_due(&self) -> Option<Instant> {
        let waiting =
            self.closing.as_ref().filter(|closing| !closing.is_sent && self.is_connected());
        waiting.map(|closing| closing.clean_up_until)
    }

    /// Returns when the session ends, with or without a reply to closeSession.
    pub(super) fn closing_until(&self) -> Option<Instant> {
        self.closing.as_ref().map(|closing| closing.until)
    }

    /// Ends the session permanently. The outputs are the replies first, then the watches, then the
    /// one terminal event.
    pub(super) fn end(&mut self, end: SessionEnd) {
        if self.end_reason().is_some() {
            return;
        }
        if !self.connection.is_waiting() {
            self.outputs.push(Output::Disconnect);
        }
        let kind = ErrorKind::SessionEnded(end);
        self.fail_inflight(&kind);
        while let Some(queued) = self.requests.next_queued() {
            self.outputs.fail(queued.to, kind.clone(), Outcome::NotApplied);
        }
        for to in self.credentials.end() {
            self.outputs.fail(to, kind.clone(), Outcome::NotApplied);
        }
        let tasks = self.clean_up.end(&kind, &mut self.outputs);
        if end.leaves_nodes() {
            self.left_behind = tasks.take(CLEAN_UPS_MAX).collect();
        }
        let (one_shots, streams) = self.watches.drain();
        for to in one_shots {
            self.outputs.push(Output::Watch { to, result: Err(end) });
        }
        for to in streams {
            self.outputs.push(Output::Stream { to, item: Err(end) });
        }
        self.requests.end();
        self.sasl.end();
        self.closing = None;
        self.connection.end(end);
        self.report_end(end);
        self.report_lease_state();
    }

    fn report_end(&mut self, end: SessionEnd) {
        let session_id = self.identity.session_id();
        self.outputs.event(match end {
            SessionEnd::NotOpened => return,
            SessionEnd::AuthFailed | SessionEnd::AuthRequired => {
                SessionEvent::AuthFailed { session_id, cause: end }
            }
            SessionEnd::Closed => SessionEvent::Closed { session_id },
            SessionEnd::Detached => SessionEvent::Detached { session_id },
            cause => SessionEvent::Expired { session_id, cause },
        });
    }
}
