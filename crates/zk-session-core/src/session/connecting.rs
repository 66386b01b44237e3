//! Connections: attempts, the handshake, and the effects of a loss.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use proto::{ConnectReply, ErrorCode, OpCode, Zxid};

use super::Session;
use crate::connection::GrantedTimeouts;
use crate::connection::{Granted, Pace};
use crate::requests::Recipient;
use crate::vocabulary::is_keeper;
use crate::{
    DisconnectReason, ErrorKind, Handles, Host, IoFailure, Output, ProbeAnswer, SaslMechanism,
    ServerKind, SessionEnd, SessionEvent, TlsProbeAnswer,
};

impl<H: Handles> Session<H> {
    /// Reports that the connection requested by [`Output::Connect`] is open.
    pub fn handle_connected(&mut self, now: Instant) {
        self.opened(now, None);
    }

    /// Reports that the connection requested by [`Output::Connect`] is open, and is to be
    /// authenticated by this mechanism before it is used.
    pub fn handle_connected_with(&mut self, now: Instant, mechanism: Box<dyn SaslMechanism>) {
        self.opened(now, Some(mechanism));
    }

    /// Reports the addresses of the host that [`Output::Connect`] names, if it was resolved. Another
    /// [`Output::Connect`] has those that are to be tried. An empty list changes nothing.
    ///
    /// Each address counts as a server of its own from then on.
    pub fn handle_resolved(&mut self, addresses: Vec<SocketAddr>) {
        if let Some(host) = self.connection.resolved(addresses, &mut self.rng) {
            self.outputs.push(Output::Connect(host));
        }
    }

    /// Reports that a server, at this address if it is known, has accepted the connection requested by
    /// [`Output::Connect`]. Its SASL mechanism may not be prepared yet. It may be reported more than once,
    /// and not at all if there are neither addresses nor a mechanism.
    pub fn handle_accepted(&mut self, address: Option<IpAddr>) {
        self.connection.accepted(address);
    }

    fn opened(&mut self, now: Instant, mechanism: Option<Box<dyn SaslMechanism>>) {
        if self.connection.opened(now, &self.pace(now)) {
            self.requests.begin(&self.identity.connect_request(&self.settings));
            self.lease.handshake_sent(now);
            self.sasl.prepare(mechanism);
        }
    }

    /// Handles the first frame of a connection.
    pub(super) fn handshake(
        &mut self,
        now: Instant,
        frame: &Bytes,
    ) -> Result<(), DisconnectReason> {
        match ConnectReply::parse(frame).map_err(DisconnectReason::ProtocolError)? {
            // The other session has no nodes, and expires.
            ConnectReply::Accepted(response)
                if self.identity.is_another(&response)
                    || (self.identity.exists() && is_keeper(&response)) =>
            {
                self.end(self.closing_with_server().unwrap_or(SessionEnd::NotResumed));
                Ok(())
            }
            ConnectReply::Accepted(response) => {
                self.identity.offered(&response, &self.settings)?;
                self.greeted(now, &response)
            }
            ConnectReply::NoLeader => Err(DisconnectReason::NoLeader),
            // A read-only server does not know the sessions that are younger than its isolation.
            ConnectReply::Rejected { read_only }
                if self.identity.exists() && read_only != Some(true) =>
            {
                // If the session is closing, the server has closed it. Only the reply to
                // closeSession was lost.
                self.end(self.closing_with_server().unwrap_or(SessionEnd::Expired));
                Ok(())
            }
            // Another server may know the session. A session that does not exist yet cannot have expired.
            ConnectReply::Rejected { .. } => {
                Err(DisconnectReason::Refused(ErrorCode::SESSION_EXPIRED))
            }
            ConnectReply::Refused(code) => Err(DisconnectReason::Refused(code)),
        }
    }

    /// Begins to use the connection after the server is authenticated.
    pub(super) fn established(&mut self, now: Instant) {
        let (before, known) = (self.identity.timeout(), self.lease.granted());
        let Some(granted) = self.identity.accept() else { return };
        let timeout = self.identity.timeout();
        if !matches!(granted, Granted::ReadOnly { .. }) {
            self.lease.handshake_accepted(timeout, now);
        }
        let session_id = self.identity.session_id();
        let was_established = self.is_established();
        let host = self.connection.established(now, granted, &mut self.rng);
        self.requests.connected(now);
        self.pauses.acknowledged();
        self.outputs.event(match granted {
            Granted::ReadOnly { session_id } => {
                SessionEvent::ReadOnly { session_id, timeout, host }
            }
            Granted::Resumed if was_established => {
                SessionEvent::Reconnected { session_id, timeout, host }
            }
            _ => SessionEvent::Connected { session_id, timeout, host },
        });
        let before = if was_established {
            Some(before)
        } else {
            // A session that is resumed: another client knows the timeouts before.
            known.map(GrantedTimeouts::shortest)
        };
        if let Some(before) =
            before.filter(|before| granted == Granted::Resumed && timeout != *before)
        {
            self.outputs.event(SessionEvent::TimeoutChanged { session_id, before, timeout });
        }
        self.clean_up.connection_changed();
        self.clean_up.report_backlog(&mut self.outputs);
        self.begin_connection(now);
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
    fn begin_connection(&mut self, now: Instant) {
        self.credentials.send_all(now, &mut self.requests);
        self.clean_up.retry();
        self.rearm_watches(now);
        self.requests.has_begun();
        if self.lease.is_claimed() && !self.is_read_only() {
            self.send_lease_request(now, None, self.lease.quorum_request());
        }
        let mut sets_watches = false;
        while let Some(queued) = self.requests.next_queued() {
            sets_watches |= queued.op == OpCode::SetWatches;
            self.send_queued(now, queued);
        }
        if sets_watches {
            self.rearm_streams(now);
        }
        self.send_clean_up(now);
        self.send_close(now);
    }

    /// Reports that the connection ended, or could not be opened.
    pub fn handle_disconnected(&mut self, now: Instant, cause: DisconnectReason) {
        self.check_lease(now);
        if !self.connection.is_waiting() && self.end_reason().is_none() {
            self.lost(now, cause);
        }
    }

    /// Drops the connection from the client's side.
    pub(super) fn disconnect(&mut self, now: Instant, cause: DisconnectReason) {
        self.outputs.push(Output::Disconnect);
        self.lost(now, cause);
    }

    fn lost(&mut self, now: Instant, cause: DisconnectReason) {
        let was_handshaking = self.connection.is_handshaking();
        let is_unexplained = was_handshaking && !self.identity.exists();
        let cause = match cause {
            DisconnectReason::ClosedByServer if is_unexplained => self.explain_close(),
            cause if cause.is_close() && self.connection.is_authenticating() => {
                DisconnectReason::Sasl(self.sasl.closed())
            }
            cause => cause,
        };
        let events_zxid = self.known_zxid();
        let was_up_for = now.saturating_duration_since(self.requests.liveness().up());
        let pace = self.pace(now);
        let loss = self.connection.lost(now, &cause, was_up_for, &pace, &mut self.rng);
        self.sasl.end();
        if loss.was_up {
            self.watches.lost(events_zxid, |xid| self.requests.is_in_flight(xid));
        }
        self.fail_inflight(&ErrorKind::ConnectionLost(cause.clone()));
        if let Some(closing) = &mut self.closing {
            closing.disconnected();
        }
        let session_id = self.identity.session_id();
        if loss.was_up {
            self.clean_up.connection_changed();
            self.outputs.event(SessionEvent::Suspended { session_id, cause });
        }
        if let (Some(end), false) = (self.closing_as(), self.identity.exists()) {
            self.end(end); // no server has the session
        } else if self.identity.exists() && self.server_kind() == ServerKind::Keeper {
            // Another attempt would open another session, which nobody wants.
            self.end(self.closing_as().unwrap_or(SessionEnd::NotResumed));
        } else if self.connection.is_sasl_rejected(now) {
            self.end(self.closing_as().unwrap_or(SessionEnd::AuthFailed));
        } else {
            self.report_refusal(loss.next_attempt);
        }
    }

    /// Returns the transaction up to which callers know the watched nodes. A read-only server may show
    /// transactions that the majority never commits, so what was read there counts for nothing: the watches
    /// fire when they are set again.
    fn known_zxid(&self) -> Zxid {
        if self.is_read_only() { Zxid::ZERO } else { self.identity.events_zxid() }
    }

    /// Returns the pace of the attempts to reconnect.
    pub(super) fn pace(&self, now: Instant) -> Pace {
        let lease_end = if self.lease.is_claimed() { self.lease.deadline() } else { None };
        let timeout = self.identity.timeout();
        let heard = self.requests.liveness().acknowledged_at();
        let life_left = self.identity.exists().then(|| match heard {
            Some(heard) => (heard + timeout).saturating_duration_since(now),
            None => timeout,
        });
        Pace {
            session_timeout: timeout,
            life_left,
            lease_left: lease_end.map(|end| end.saturating_duration_since(now)),
        }
    }

    /// Returns why a server closed the connection during the handshake of a first session.
    fn explain_close(&mut self) -> DisconnectReason {
        let (cause, to_probe) = self.connection.closed_in_first_handshake();
        if let Some(host) = to_probe {
            self.outputs.push(Output::ProbeTls(host));
        }
        cause
    }

    /// Fails all requests in flight, oldest first.
    pub(super) fn fail_inflight(&mut self, kind: &ErrorKind) {
        for (recipient, outcome) in self.requests.disconnected() {
            match recipient {
                Recipient::Caller(to) => self.outputs.fail(to, kind.clone(), outcome),
                Recipient::CleanUpTask(id) => self.clean_up.unsend(id, outcome),
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

    /// Reports with [`Output::Refused`] that no server accepts a first session: no server is a
    /// ZooKeeper server, or all refuse connections and the next attempt is after
    /// [`refused_timeout`](crate::Settings::refused_timeout). Lasting are also most failures of SASL.
    fn report_refusal(&mut self, next_attempt: Instant) {
        // Before the first connection, this is the age of the session.
        let age = next_attempt.saturating_duration_since(self.requests.liveness().up());
        let is_long = self.settings.refused_timeout.is_some_and(|longest| age > longest);
        let is_refused = self.connection.are_refusals_lasting()
            || (is_long && self.connection.have_all_refused());
        if !self.is_established() && is_refused {
            let cause = self.connection.connect_failure().unwrap_or(DisconnectReason::IdleTimeout);
            self.outputs.push(Output::Refused(cause));
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
        if self.connection.update_servers(now, hosts, &mut self.rng) {
            self.disconnect(now, DisconnectReason::Rebalanced);
        }
    }

    /// Replaces the list of servers, and adds the current one: the session stays there until it loses the
    /// connection.
    pub fn update_servers_and_stay(&mut self, hosts: Vec<Host>) {
        if self.end_reason().is_none() {
            self.connection.update_servers_and_stay(hosts, &mut self.rng);
        }
    }

    /// Reports that a newer list of servers could not be had. The list stays as it is. Until the session
    /// is connected or has a new list, this failure is the cause in place of servers that cannot be reached.
    pub fn handle_server_list_failed(&mut self, failure: IoFailure) {
        self.connection.list_failed(failure);
    }

    /// Reports the answer of the server that [`Output::Probe`] named.
    pub fn handle_probed(&mut self, now: Instant, host: &Host, answer: ProbeAnswer) {
        self.check_lease(now);
        if self.connection.probed(now, host, answer) {
            self.disconnect(now, DisconnectReason::ReadOnly);
        }
    }

    /// Reports the answer of the port that [`Output::ProbeTls`] named.
    pub fn handle_tls_probed(&mut self, now: Instant, host: &Host, answer: TlsProbeAnswer) {
        let is_tls = answer == TlsProbeAnswer::TlsOnly;
        let is_news = is_tls && self.end_reason().is_none() && !self.is_established();
        if is_news && self.connection.speaks_tls(host) {
            self.report_refusal(now);
        }
    }
}
