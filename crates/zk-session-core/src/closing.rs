//! The client's own end of the session: closing it, or leaving it to somebody else.

use std::time::Instant;

use proto::CloseSession;

use super::handles::Owner;
use super::link::Link;
use super::{Handles, Output, Session};
use crate::SessionEnd;

/// The end has begun.
#[derive(Debug)]
pub(super) struct Closing {
    /// What it will be called.
    pub(super) end: SessionEnd,
    /// When it is the end, whatever has been heard by then.
    pub(super) until: Instant,
    /// Until when clean-up that takes more than one request may go on.
    patience: Instant,
    /// The request to close is on its way: the last word on a connection.
    is_said: bool,
}

impl<H: Handles> Session<H> {
    /// Ends the session. Requests made before are sent first, and clean-up is seen to
    /// that needs an answer before it can go on, for half of the time there is; later
    /// requests are refused. Without a connection it goes on trying to get one, so that
    /// the server learns of the end, until `Settings::close_timeout` is over.
    pub fn close(&mut self, now: Instant) {
        // Whoever opens the next session after an overflow must not do so after this.
        if let Some(closing) = &mut self.closing
            && closing.end == SessionEnd::CleanUpOverflow
        {
            closing.end = SessionEnd::Closed;
        }
        self.close_as(now, SessionEnd::Closed);
    }

    pub(super) fn close_as(&mut self, now: Instant, end: SessionEnd) {
        if self.closing.is_some() || self.ended().is_some() {
            return;
        }
        let timeout = self.settings.close_timeout;
        self.begin_to_close(end, now + timeout / 2, now + timeout);
        if self.identity.session_id == 0 && matches!(self.link, Link::Waiting { .. }) {
            self.end(end); // there is nothing to tell a server
        } else {
            self.say_close(now);
        }
    }

    /// Closes the session like [`close`](Self::close), but sends the request to close without waiting
    /// for clean-up. For a driver that is dropped; the server removes the ephemeral nodes.
    pub fn close_at_once(&mut self, now: Instant) {
        self.close(now);
        if let Some(closing) = &mut self.closing {
            closing.patience = now;
        }
        self.say_close(now);
    }

    /// Ends this end of the session and leaves the session itself to whoever has its
    /// [`credentials`](Self::credentials). It happens when the driver next tells the
    /// time, after it has told what the socket has taken; requests that have no answer
    /// by then fail, clean-up included.
    pub fn detach(&mut self, now: Instant) {
        if self.closing.is_none() && self.ended().is_none() {
            self.begin_to_close(SessionEnd::Detached, now, now);
        }
    }

    /// Ends the session without telling the server, for a driver that is going
    /// away. The server expires the session in its own time.
    pub fn abort(&mut self) {
        self.end(SessionEnd::Closed);
    }

    /// Whoever still holds a lock is told at once: a server gives it away when it has
    /// the request to close, which may be long before the answer is here.
    fn begin_to_close(&mut self, end: SessionEnd, patience: Instant, until: Instant) {
        self.closing = Some(Closing { end, until, patience, is_said: false });
        if self.lease.lapse() {
            let standing = self.standing();
            self.outputs.push_back(Output::Standing(standing));
        }
    }

    /// The end that has begun.
    pub(super) fn closing_as(&self) -> Option<SessionEnd> {
        self.closing.as_ref().map(|closing| closing.end)
    }

    /// The end that has begun, if the server is told of it.
    pub(super) fn closing_with_server(&self) -> Option<SessionEnd> {
        self.closing_as().filter(|end| *end != SessionEnd::Detached)
    }

    /// The end of the session, also if it has only begun.
    #[must_use]
    pub fn end_begun(&self) -> Option<SessionEnd> {
        self.ended().or_else(|| self.closing_as())
    }

    /// Tells the server, if there is one, unless something has to be done first.
    pub(super) fn say_close(&mut self, now: Instant) {
        let is_up = self.is_connected();
        let waits = self.chores.go_on() && !self.is_read_only();
        let Some(closing) = &mut self.closing else { return };
        let is_time = !waits || closing.patience <= now;
        if is_up && is_time && closing.end != SessionEnd::Detached && !closing.is_said {
            closing.is_said = true;
            self.transmit(now, &CloseSession, Owner::Close, None);
        }
    }

    /// The connection was lost, and the request with it.
    pub(super) fn close_is_unsaid(&mut self) {
        if let Some(closing) = &mut self.closing {
            closing.is_said = false;
        }
    }

    pub(super) fn is_close_said(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.is_said)
    }

    /// When the server is to be told, whatever is left to do.
    pub(super) fn close_due(&self) -> Option<Instant> {
        let waiting = self.closing.as_ref().filter(|it| !it.is_said && self.is_connected());
        waiting.map(|closing| closing.patience)
    }
}
