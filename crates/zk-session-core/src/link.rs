//! Connection of the session: attempts, the handshake, and the effects of its loss.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::{ConnectReply, ConnectRequest, ConnectResponse, ErrorCode};

use super::handles::{Recipient, Sent};
use super::hosts::{Hosts, Rebalance};
use super::read_only::Search;
use super::{Failure, Handles, Output, Password, Session};
use crate::DisconnectReason;
use crate::error::{ErrorKind, Outcome};
use crate::limits::{BACKOFF_MAX, CONNECT_TIMEOUT_MAX, CONNECT_TIMEOUT_MIN};
use crate::planted::Planted;
use crate::{Host, PeerProtocol, SessionEnd, SessionEvent};

/// State of the connection.
#[derive(Debug)]
pub(super) enum Link {
    /// The session waits for its next attempt until this time.
    Waiting { until: Instant },
    /// The driver has until the deadline to open a connection.
    Connecting { deadline: Instant },
    /// The connect request was sent. Nothing else may be sent before its reply. A server that
    /// refuses closes at once, and bytes that it has not read would turn that into a reset. The
    /// reset can swallow the refusal (ZOOKEEPER-1702).
    Handshaking { deadline: Instant },
    /// The connection is established, and requests are sent.
    Up,
    /// The session has ended.
    Ended(SessionEnd),
}

impl<H: Handles> Session<H> {
    /// Reports that the connection requested by [`Output::Connect`] is open.
    pub fn handle_connected(&mut self, now: Instant) {
        if !matches!(self.link, Link::Connecting { .. }) {
            return;
        }
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: match Planted::ResumesWithoutZxid.is_on() {
                true => 0,
                false => self.identity.session_zxid,
            },
            // Always the timeout of the settings, not the one negotiated before.
            timeout_ms: i32::try_from(self.settings.session_timeout.as_millis())
                .unwrap_or(i32::MAX),
            session_id: self.identity.session_id,
            password: self.identity.password.0.clone(),
            read_only: Some(self.settings.allow_read_only),
        };
        self.outbound.append(|out| proto::encode_record(&request, out));
        self.lease.handshake_sent(now);
        self.link = Link::Handshaking { deadline: now + self.attempt_timeout() };
    }

    /// Reports that the connection ended, or could not be opened.
    pub fn handle_disconnected(&mut self, now: Instant, cause: DisconnectReason) {
        self.check_lease(now);
        if !matches!(self.link, Link::Waiting { .. } | Link::Ended(_)) {
            self.lost(now, cause);
        }
    }

    /// Replaces the list of servers. An empty list changes nothing. The session stays connected if
    /// the load allows it. Otherwise it moves to another server, and requests in flight end as they
    /// do with any lost connection.
    pub fn update_servers(&mut self, now: Instant, hosts: Vec<Host>) {
        self.check_lease(now);
        if hosts.is_empty() || self.end_reason().is_some() {
            return;
        }
        let serving = self.hosts.serving().clone();
        let rebalance = self.hosts.update(hosts, &mut self.rng);
        if rebalance == Rebalance::Stay {
            self.move_at = None;
        }
        if rebalance == Rebalance::Move && !matches!(self.link, Link::Waiting { .. }) {
            match self.link {
                // The move does not happen at once. The caller may not know which bytes the socket
                // has accepted, and these decide which requests may have been applied.
                Link::Up => {
                    self.hosts.leave(serving);
                    self.move_at = Some(now);
                }
                // This server has received no request yet, and its answer is not one of the next
                // server.
                _ => self.drop_link(now, DisconnectReason::Rebalanced),
            }
        }
    }

    /// Drops the connection from the client's side.
    pub(super) fn drop_link(&mut self, now: Instant, cause: DisconnectReason) {
        self.outputs.push_back(Output::Disconnect);
        self.lost(now, cause);
    }

    fn lost(&mut self, now: Instant, cause: DisconnectReason) {
        let was_up = self.is_connected();
        let cause = self.explained(cause);
        let resuming =
            self.identity.session_id != 0 && matches!(self.link, Link::Handshaking { .. });
        if resuming && Planted::EndIsExpiry.is_on() {
            return self.end(SessionEnd::Expired);
        }
        // A server that accepts the session and then closes the connection, over and over, is no
        // better than one that closes it at once.
        let has_served = was_up && self.liveness.up_for(now) >= BACKOFF_MAX;
        self.hosts.lost(was_up, has_served, cause);
        self.move_at = None;
        self.fail_inflight(&ErrorKind::ConnectionLost(cause));
        self.outbound.reset();
        self.liveness.link_lost();
        self.close_is_unsaid();
        self.search = None;
        self.last_disconnect = Some(cause);
        let pause = match cause {
            DisconnectReason::Rebalanced => Hosts::pause_to_move(&mut self.rng),
            // A read-write server was found. The refusal of a read-only server precedes `Link::Up`.
            DisconnectReason::ReadOnly if was_up => Hosts::pause_to_move(&mut self.rng),
            _ => {
                if matches!(self.link, Link::Handshaking { .. }) {
                    self.hosts.skip_current(now);
                }
                self.hosts.failed(now, &mut self.rng)
            }
        };
        self.link = Link::Waiting { until: now + pause };
        self.tell_refusal(now + pause, cause);
        let session_id = self.identity.session_id;
        if was_up {
            self.counters.connections_lost += 1;
            self.cleanup_tasks.connection_changed();
            self.event(SessionEvent::Suspended { session_id, cause });
        }
        if let Some(end) = self.closing_as().filter(|_| session_id == 0) {
            self.end(end); // no server has the session
        }
    }

    /// Returns why a server closes the connection during the handshake of a first session and sends
    /// nothing. It may not serve yet, or its port may be for TLS: Netty closes a plaintext
    /// connection like that. So the server is probed for TLS, once.
    fn explained(&mut self, cause: DisconnectReason) -> DisconnectReason {
        let is_greeting = matches!(self.link, Link::Handshaking { .. });
        if cause != DisconnectReason::ClosedByServer
            || !is_greeting
            || self.identity.session_id != 0
        {
            return cause;
        }
        if self.hosts.speaks_tls() {
            return DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
        }
        if let Some(host) = self.hosts.is_to_be_asked_for_tls() {
            self.outputs.push_back(Output::ProbeTls(host));
        }
        cause
    }

    /// Reports whether the port of a server is for TLS only, as requested by [`Output::ProbeTls`].
    pub fn handle_tls_probed(&mut self, now: Instant, host: &Host, speaks_tls: bool) {
        let is_news = speaks_tls && self.end_reason().is_none() && !self.is_established();
        if is_news && self.hosts.set_speaks_tls(host) {
            let cause = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
            self.last_disconnect = Some(cause);
            self.tell_refusal(now, cause);
        }
    }

    /// Reports with [`Output::Refused`] that no server accepts a first session.
    fn tell_refusal(&mut self, next_attempt: Instant, cause: DisconnectReason) {
        if !self.is_established() && self.is_refused(next_attempt) {
            self.outputs.push_back(Output::Refused(cause));
        }
    }

    /// Returns true if no server is a ZooKeeper server, or if all refuse connections and the next
    /// attempt is after [`refused_timeout`](super::Settings::refused_timeout).
    fn is_refused(&self, next_attempt: Instant) -> bool {
        // Before the first connection, this is the age of the session.
        let age = self.liveness.up_for(next_attempt);
        let is_long = self.settings.refused_timeout.is_some_and(|longest| age > longest);
        self.hosts.are_all_foreign() || (is_long && self.hosts.have_all_refused())
    }

    /// Answers all requests that were sent, oldest first. Reads, and requests of which no byte was
    /// written, were not applied. The outcome of all others is unknown.
    pub(super) fn fail_inflight(&mut self, kind: &ErrorKind) {
        for Sent { op, offset, owner, due, .. } in self.inflight.drain() {
            self.deadlines.met(due);
            match owner {
                Recipient::Caller(to) if Planted::PendingDropped.is_on() => std::mem::forget(to),
                Recipient::Caller(to) => {
                    let unknown = op.is_write() && self.outbound.has_left(offset);
                    let unknown = unknown && !Planted::UnknownIsNotApplied.is_on();
                    let outcome = if unknown { Outcome::Unknown } else { Outcome::NotApplied };
                    let failure: Failure = (kind.clone(), outcome);
                    self.outputs.push_back(Output::Reply { to, result: Err(failure) });
                }
                Recipient::CleanupTask(number) if Planted::ForgetUnknownRelease.is_on() => {
                    drop(self.cleanup_tasks.finish(number));
                }
                Recipient::CleanupTask(number) => self.cleanup_tasks.unsend(number),
                Recipient::Credential(_)
                | Recipient::Rearm
                | Recipient::Removal(..)
                | Recipient::Heartbeat
                | Recipient::CatchUp(_)
                | Recipient::Nobody
                | Recipient::Close => {}
            }
        }
    }

    /// Handles the first frame of a connection.
    pub(super) fn handshake(
        &mut self,
        now: Instant,
        frame: &Bytes,
    ) -> Result<(), DisconnectReason> {
        match ConnectReply::parse(frame).map_err(DisconnectReason::ProtocolError)? {
            ConnectReply::Accepted(response) => self.accepted(now, response),
            ConnectReply::Rejected if self.identity.session_id != 0 => {
                // If the session is closing, the server has closed it. Only the reply to
                // closeSession was lost.
                self.end(self.closing_with_server().unwrap_or(SessionEnd::Expired));
                Ok(())
            }
            // A session that does not exist yet cannot have expired.
            ConnectReply::Rejected => Err(DisconnectReason::Refused(ErrorCode::SESSION_EXPIRED)),
            ConnectReply::Refused(code) => Err(DisconnectReason::Refused(code)),
        }
    }

    fn accepted(
        &mut self,
        now: Instant,
        response: ConnectResponse,
    ) -> Result<(), DisconnectReason> {
        let known = self.identity.session_id;
        let timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        if response.read_only == Some(true) {
            // A read-only server cannot have this session, if there is one, despite its answer.
            if known != 0 || !self.settings.allow_read_only {
                return Err(DisconnectReason::ReadOnly);
            }
            self.identity.timeout = timeout;
            self.search = Some(Search::new(now));
            if Planted::ReadOnlySessionKept.is_on() {
                self.identity.session_id = response.session_id;
                self.identity.password = Password(Bytes::copy_from_slice(&response.password));
            }
            let (session_id, host) = (response.session_id, self.hosts.current().clone());
            self.up(now, SessionEvent::ReadOnly { session_id, timeout, host });
            return Ok(());
        }
        if response.session_id == 0 || (known != 0 && response.session_id != known) {
            return Err(DisconnectReason::WrongSession);
        }
        self.identity.session_id = response.session_id;
        // A copy, because the frame keeps the whole buffer it arrived in, for sixteen bytes.
        self.identity.password = Password(Bytes::copy_from_slice(&response.password));
        self.identity.timeout = timeout;
        self.lease.handshake_accepted(timeout, now);
        let (session_id, host) = (response.session_id, self.hosts.current().clone());
        let event = match self.is_established() && known != 0 {
            false => SessionEvent::Connected { session_id, timeout, host },
            true => SessionEvent::Reconnected { session_id, timeout, host },
        };
        self.up(now, event);
        Ok(())
    }

    fn up(&mut self, now: Instant, event: SessionEvent) {
        self.liveness.link_up(now);
        self.pauses.heard();
        self.last_disconnect = None;
        self.hosts.connected(&mut self.rng);
        self.link = Link::Up;
        self.event(event);
        self.cleanup_tasks.connection_changed();
        self.tell_backlog();
        self.transmit_backlog(now);
    }

    /// Returns the time that one server gets to accept a connection, and again to answer the
    /// handshake.
    ///
    /// It is at most a third of the session timeout, however few servers there are, but at least
    /// `CONNECT_TIMEOUT_MIN`. A ZooKeeper that is starting may accept a connection and never answer
    /// it. The session must have time to reconnect before the lease ends. The upper bound
    /// `CONNECT_TIMEOUT_MAX` lets a caller that waits for a first connection reach more than one
    /// server.
    pub(super) fn attempt_timeout(&self) -> Duration {
        let shares = u32::try_from(self.hosts.count()).unwrap_or(u32::MAX).max(3);
        (self.identity.timeout / shares).clamp(CONNECT_TIMEOUT_MIN, CONNECT_TIMEOUT_MAX)
    }
}
