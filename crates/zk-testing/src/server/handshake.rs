//! Connect exchange: grants a session to a connection, or rejects it.

use bytes::Bytes;
use proto::{ConnectRequest, ConnectResponse, Decode, ErrorCode, ReplyHeader, SessionId, Zxid};

use super::Ensemble;
use super::connection::{State, Waiting};
use super::connection_id::ConnectionId;
use super::faults::{Action, Cut, Occasion, Target};
use super::keeper;
use super::learners::Expected;
use super::observer::{CloseCause, SessionStep};
use super::replication::Origin;
use super::sessions::{Owner, duration, password};
use super::txn::TxnBody;

impl Ensemble {
    /// Handles the first frame of a connection. The order of the checks is that of a real server.
    pub(super) fn handle_connect(&mut self, id: ConnectionId, frame: &Bytes) {
        let Ok(request) = ConnectRequest::from_frame(frame) else {
            return self.close(id, Cut::Fin);
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.traffic.received += 1;
        let at = connection.server;
        let server = &mut self.servers[at];
        server.received += 1;
        let session = (request.session_id != SessionId::NONE).then_some(request.session_id);
        let occasion = Occasion { target: Target::Connect, session, connection: id, server: at };
        match self.faults.strike(occasion) {
            // The session may be created although the reply never reaches its client.
            Some(Action::ApplyThenDrop(how)) => {
                self.connect(id, request);
                return self.drop_reply(id, how);
            }
            Some(Action::CutReply { after, how }) => {
                self.connect(id, request);
                return self.cut_reply(id, after, how);
            }
            Some(Action::DropBefore(how) | Action::CutRequest { how, .. }) => {
                return self.close(id, how);
            }
            Some(Action::NeverAnswer) => {
                connection.state = State::Connecting;
                return;
            }
            fault => connection.connect_fault = fault,
        }
        if self.settings.version.is_keeper_like() {
            return self.connect(id, request);
        }
        if !self.serves(at) {
            return self.close(id, Cut::Fin);
        }
        let server = &mut self.servers[at];
        if server.read_only && request.read_only != Some(true) {
            return self.close(id, Cut::Fin);
        }
        if server.ahead > 0 {
            server.ahead -= 1;
            return self.close(id, Cut::Fin);
        }
        if request.last_zxid_seen > server.tree.last_zxid {
            return self.close(id, Cut::Fin);
        }
        self.connect(id, request);
    }

    /// Requests a session from the leader, or waits until the leader can be reached.
    pub(super) fn connect(&mut self, id: ConnectionId, request: ConnectRequest) {
        if self.settings.version.is_keeper_like() {
            return self.connect_to_keeper(id, &request);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.state = State::Connecting;
        let at = connection.server;
        if self.servers[at].read_only {
            return self.connect_read_only(id, &request);
        }
        if request.session_id != SessionId::NONE {
            // The server closes the old connection before it checks the password.
            if let Some(old) = self.servers[at].connections.get(&request.session_id).copied() {
                self.close(old, Cut::Fin);
            }
        }
        if self.servers[at].isolated.is_some() && request.session_id != SessionId::NONE {
            return self.renew_alone(id, &request);
        }
        if !self.reaches_leader(at) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.waiting.push_back(Waiting::Connect(request));
            }
            return;
        }
        let timeout_ms = self.settings.negotiate_ms(at, request.timeout_ms);
        let owner = Owner { server: at, connection: id };
        if request.session_id == SessionId::NONE {
            let session_id = self.sessions.create(self.now, &self.clock, timeout_ms, owner);
            self.tell_step(SessionStep::Connected(session_id, duration(timeout_ms)));
            let read_only_byte = request.read_only.is_some();
            if let Some(connection) = self.connections.get_mut(&id) {
                if at != self.leader {
                    connection.waiting.push_back(Waiting::Committed);
                }
            }
            let origin = Origin::Connect { connection: id, timeout_ms, read_only_byte };
            return self.commit(session_id, TxnBody::CreateSession { timeout_ms }, Some(origin));
        }
        let (now, session_id) = (self.now, request.session_id);
        let known = request.password == password(session_id)
            && self.sessions.renew(now, &self.clock, session_id, timeout_ms, owner);
        if !known {
            return self.reject(id, request.read_only.map(|_| false));
        }
        self.tell_step(SessionStep::Connected(session_id, duration(timeout_ms)));
        let sent = self.now;
        if at == self.leader || self.has_reached(at, sent) {
            return self.finish_session(id, &request, timeout_ms);
        }
        self.servers[at].expected.push_back(Expected { sent, place: 0, connection: id });
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.waiting.push_back(Waiting::Revalidated { request, timeout_ms, sent });
        }
    }

    /// Completes a reconnect when the leader's answer has reached the follower.
    pub(super) fn finish_session(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        timeout_ms: i32,
    ) {
        if !self.sessions.contains(request.session_id) {
            // The session has ended meanwhile, and the follower is about to apply its end.
            return self.close(id, Cut::Fin);
        }
        self.open(id, request.session_id, timeout_ms, request.read_only.map(|_| false));
    }

    /// Renews a session at a leader that has not noticed its replacement, with its own session
    /// table.
    fn renew_alone(&mut self, id: ConnectionId, request: &ConnectRequest) {
        let Some(at) = self.connections.get(&id).map(|connection| connection.server) else {
            return;
        };
        let timeout_ms = self.settings.negotiate_ms(at, request.timeout_ms);
        let session_id = request.session_id;
        let known = request.password == password(session_id)
            && self.servers[at].isolated.as_mut().is_some_and(|own| {
                own.set_owner(session_id, Owner { server: at, connection: id });
                own.touch_unexpired(self.now, &self.clock, session_id, timeout_ms)
            });
        if known {
            self.open(id, session_id, timeout_ms, request.read_only.map(|_| false))
        } else {
            // A real server rejects the session, even if the other servers still hold it.
            self.close(id, Cut::Fin)
        }
    }

    /// Connects a client to a server without a quorum. Such a server grants local sessions if its
    /// settings allow them.
    fn connect_read_only(&mut self, id: ConnectionId, request: &ConnectRequest) {
        let Some(at) = self.connections.get(&id).map(|connection| connection.server) else {
            return;
        };
        let timeout_ms = self.settings.negotiate_ms(at, request.timeout_ms);
        if request.session_id != SessionId::NONE {
            return self.renew_read_only(id, request, timeout_ms);
        }
        if !self.settings.local_sessions {
            let err = ErrorCode::NOT_READ_ONLY;
            self.send_record(id, &ReplyHeader { xid: 0, zxid: Zxid::ZERO, err });
            return self.close(id, Cut::Fin);
        }
        // Ids of local sessions start with the server's number, like all ids that it assigns.
        let number = i64::try_from(at + 2).unwrap_or(2) << 56;
        let server = &mut self.servers[at];
        server.last_local_session += 1;
        let session_id = SessionId(number | server.last_local_session);
        server.local_sessions.insert(session_id, timeout_ms);
        self.open(id, session_id, timeout_ms, Some(true));
    }

    /// Renews a session at a read-only server. It closes the connection only of a session that is
    /// among its global ones (`ReadOnlyZooKeeperServer.validateSession`). Without local sessions it
    /// takes every other one for alive (`LearnerSessionTracker.touchSession`).
    fn renew_read_only(&mut self, id: ConnectionId, request: &ConnectRequest, timeout_ms: i32) {
        let Some(at) = self.server_of(id) else { return };
        let (server, session_id) = (&self.servers[at], request.session_id);
        if server.global_sessions.contains(&session_id) {
            return self.close(id, Cut::Fin);
        }
        let is_alive =
            !self.settings.local_sessions || server.local_sessions.contains_key(&session_id);
        if let Some(old) = server.connections.get(&session_id).copied() {
            self.close(old, Cut::Fin);
        }
        if is_alive && request.password == password(session_id) {
            self.open(id, session_id, timeout_ms, Some(true))
        } else {
            self.reject(id, Some(true))
        }
    }

    /// Opens a connection with its session and sends the reply.
    pub(super) fn open(
        &mut self,
        id: ConnectionId,
        session_id: SessionId,
        timeout_ms: i32,
        read_only: Option<bool>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.state == State::Ended {
            return;
        }
        if connection.is_abandoned {
            // The server reads the end of the stream behind the request.
            self.connections.remove(&id);
            return;
        }
        connection.state = State::Open { session_id, timeout_ms };
        if let Some(Waiting::Committed) = connection.waiting.front() {
            connection.waiting.pop_front();
        }
        self.servers[connection.server].connections.insert(session_id, id);
        let response = if self.settings.version.is_keeper_like() {
            keeper::response(0, timeout_ms, session_id)
        } else {
            let password = password(session_id);
            ConnectResponse { protocol_version: 0, timeout_ms, session_id, password, read_only }
        };
        self.send_record(id, &response);
        self.resumable.push_back(id);
    }

    fn reject(&mut self, id: ConnectionId, read_only: Option<bool>) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms: 0,
            session_id: SessionId::NONE,
            password: Bytes::from_static(&[0; proto::PASSWORD_LEN]),
            read_only,
        };
        self.send_record(id, &response);
        self.close(id, Cut::Fin);
    }

    /// Returns the time at which the next session expires.
    pub(super) fn next_expiry(&self) -> Option<std::time::Instant> {
        if self.leader_works() { self.sessions.next_expiry() } else { None }
    }

    /// Expires the overdue sessions.
    pub(super) fn expire_sessions(&mut self) {
        if !self.leader_works() {
            return;
        }
        for session_id in self.sessions.take_buckets(self.now, self.expiry_pass) {
            self.tell_step(SessionStep::BucketTaken(session_id));
        }
        for session_id in self.sessions.expired(self.now) {
            self.end_session(session_id, CloseCause::Expired);
        }
    }

    /// Ends a session with one transaction that deletes its ephemeral nodes.
    pub(super) fn end_session(&mut self, session_id: SessionId, cause: CloseCause) {
        if self.sessions.contains(session_id) {
            self.close_session(session_id, cause, None);
        }
    }

    /// Commits the end of a session, even of one that has ended.
    pub(super) fn close_session(
        &mut self,
        session_id: SessionId,
        cause: CloseCause,
        origin: Option<Origin>,
    ) {
        if self.sessions.remove(session_id) {
            self.tell_step(SessionStep::Closed(session_id, cause));
        }
        let tree = &self.servers[self.leader].tree;
        let paths = tree.ephemerals(session_id).map(Box::from).collect();
        self.commit(session_id, TxnBody::CloseSession { paths }, origin);
    }
}
