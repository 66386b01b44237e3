//! Frames of a connection: parsing them into requests and dispatching those.

use bytes::Bytes;
use proto::Reader;
use proto::{
    AuthPacket, Decode, DecodeError, ErrorCode, FRAME_LEN_MAX_SERVER, OpCode, RequestHeader,
    SessionId, Zxid, split_frame, xid,
};

use super::Ensemble;
use super::acl::{self, Authenticated};
use super::connection::{State, Ticket, Waiting};
use super::connection_id::ConnectionId;
use super::faults::{Action, Cut, Occasion, Target};
use super::four_letter;
use super::learners::Expected;
use super::sessions::Owner;

/// Operation of the reaper. Clients of 3.9 can send it too; the codec does not offer it.
pub(super) const DELETE_CONTAINER: i32 = 20;

impl Ensemble {
    /// Processes the bytes that a connection has received, as far as possible.
    pub(super) fn process(&mut self, id: ConnectionId) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            if connection.stalled || self.servers[connection.server].stalled {
                return;
            }
            if connection.state == State::Fresh {
                let word = connection.inbound.first_chunk::<4>().copied();
                if let Some(word) = word.filter(|word| four_letter::is_word(*word)) {
                    return self.answer_word(id, word);
                }
            }
            if connection.state == State::Connecting || connection.is_deaf() {
                return;
            }
            if connection.is_throttled() {
                return;
            }
            let frame = match split_frame(&mut connection.inbound, FRAME_LEN_MAX_SERVER) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                // The length is invalid, so the bytes behind it cannot be parsed.
                Err(_) => return self.close(id, Cut::Fin),
            };
            match connection.state {
                State::Fresh => self.handle_connect(id, &frame),
                State::Open { session_id, timeout_ms } => {
                    self.handle_frame(id, (session_id, timeout_ms), &frame);
                }
                State::Connecting | State::Ended => return,
            }
        }
    }

    /// Handles one request of a session. `session` is the session's id and timeout.
    fn handle_frame(&mut self, id: ConnectionId, session: (SessionId, i32), frame: &Bytes) {
        let (session_id, timeout_ms) = session;
        let Ok((header, body)) = RequestHeader::split(frame) else {
            return self.close(id, Cut::Fin);
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let at = connection.server;
        connection.traffic.received += 1;
        connection.traffic.last_op = Some(header.op);
        connection.traffic.last_xid = header.xid;
        self.servers[at].received += 1;

        let op = OpCode::from_code(header.op);
        let mut ticket = Ticket { connection: id, xid: header.xid, fault: None };
        if let Some(op) = op {
            self.log_request(session_id, op, &body);
            let (target, session) = (Target::Op(op), Some(session_id));
            let occasion = Occasion { target, session, connection: id, server: at };
            match self.faults.strike(occasion) {
                Some(Action::DropBefore(how)) => return self.close(id, how),
                Some(Action::CutRequest { after, how }) if after < frame.len() + 4 => {
                    return self.close(id, how);
                }
                Some(Action::CutRequest { how, .. }) => {
                    ticket.fault = Some(Action::ApplyThenDrop(how));
                }
                Some(Action::Answer(code)) if matches!(op, OpCode::Auth | OpCode::Sasl) => {
                    return self.answer(ticket, code, None);
                }
                Some(Action::NeverAnswer) => return,
                fault => ticket.fault = fault,
            }
        }
        let version = self.settings.version;
        if version.is_keeper_like() && self.drops_unreadable(id, header.op, &body) {
            return;
        }
        match op {
            Some(OpCode::Auth) => return self.authenticate(ticket, &body),
            Some(OpCode::Sasl) => return self.sasl(ticket, &body),
            _ if self.refuses_unauthenticated(ticket) => return,
            _ => {}
        }
        if version.is_keeper() && at != self.leader {
            self.touch_from_follower_of_keeper(at, session_id, timeout_ms, op);
        } else if !self.touch(at, session_id, timeout_ms) {
            // The session has ended at the same time: drop the request without a reply.
            return;
        }
        let is_known = match op {
            Some(OpCode::Check) => !version.refuses_lone_check(),
            Some(op) => version.has_op(op),
            None => header.op == DELETE_CONTAINER && version.has_op(OpCode::CreateContainer),
        };
        if !is_known {
            self.answer_with(ticket, Zxid(-1), ErrorCode::UNIMPLEMENTED, None);
            return self.close(id, Cut::Fin);
        }
        self.take(ticket, header.op, body);
    }

    /// Processes a request now, or queues it behind the requests that its connection waits for.
    fn take(&mut self, ticket: Ticket, op: i32, body: Bytes) {
        let Some(connection) = self.connections.get_mut(&ticket.connection) else { return };
        if let Some(Action::Answer(code)) = ticket.fault {
            // `RequestThrottler` only marks a request, which then takes its turn like a read.
            let ticket = Ticket { fault: None, ..ticket };
            if connection.waiting.is_empty() {
                return self.answer(ticket, code, None);
            }
            return connection.waiting.push_back(Waiting::Answer { ticket, code });
        }
        let at = connection.server;
        if is_write(op) && !self.servers[at].read_only {
            let only_committed = connection.waiting.iter().all(|request| !request.blocks_writes());
            if only_committed && self.reaches_leader(at) {
                if at != self.leader {
                    if let Some(connection) = self.connections.get_mut(&ticket.connection) {
                        connection.waiting.push_back(Waiting::Committed);
                    }
                }
                return self.write(ticket, op, &body);
            }
        } else if connection.waiting.is_empty()
            && (op != OpCode::Sync.code() || self.servers[at].read_only)
        {
            return self.read(ticket, op, &body);
        } else if connection.waiting.is_empty() && self.can_sync(at) {
            return self.sync(ticket, &body);
        }
        if let Some(connection) = self.connections.get_mut(&ticket.connection) {
            connection.waiting.push_back(Waiting::Request { ticket, op, body });
        }
    }

    /// Processes the waiting requests of a connection as far as possible.
    pub(super) fn resume(&mut self, id: ConnectionId) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let at = connection.server;
            if connection.stalled || self.servers[at].stalled {
                return;
            }
            let (may_ask, applied) = (self.reaches_leader(at), self.servers[at].applied);
            let can_sync = self.can_sync(at);
            let (now, lag) = (self.now, self.servers[at].learner_lag);
            let Some(connection) = self.connections.get_mut(&id) else { return };
            match connection.waiting.front() {
                None => break,
                Some(Waiting::Committed) => return,
                Some(Waiting::Request { .. } | Waiting::Answer { .. })
                    if connection.has_too_much_unread() =>
                {
                    return;
                }
                Some(Waiting::Connect(_)) if !may_ask => return,
                Some(Waiting::Sync { place, .. }) if *place > applied => return,
                Some(Waiting::Sync { sent, .. } | Waiting::Revalidated { sent, .. })
                    if *sent + lag > now =>
                {
                    return;
                }
                Some(Waiting::Request { op, .. }) if is_write(*op) && !may_ask => return,
                Some(Waiting::Request { op, .. }) if *op == OpCode::Sync.code() && !can_sync => {
                    return;
                }
                Some(_) => {}
            }
            match connection.waiting.pop_front() {
                Some(Waiting::Connect(request)) => self.connect(id, request),
                Some(Waiting::Revalidated { request, timeout_ms, .. }) => {
                    self.finish_session(id, &request, timeout_ms);
                }
                Some(Waiting::Sync { ticket, path, .. }) => {
                    self.answer(ticket, ErrorCode::OK, Some(&proto::SyncReply { path }));
                }
                Some(Waiting::Answer { ticket, code }) => self.answer(ticket, code, None),
                Some(Waiting::Request { ticket, op, body }) if is_write(op) => {
                    if at != self.leader {
                        connection.waiting.push_front(Waiting::Committed);
                    }
                    self.write(ticket, op, &body);
                }
                Some(Waiting::Request { ticket, op, body }) if op == OpCode::Sync.code() => {
                    self.sync(ticket, &body);
                }
                Some(Waiting::Request { ticket, op, body }) => self.read(ticket, op, &body),
                Some(Waiting::Committed) | None => {}
            }
        }
        // Process the bytes that arrived behind a connect request, during a stop, or while
        // throttled.
        self.process(id);
    }

    /// Adds an identity to the connection. The reply does not wait for those of earlier requests.
    fn authenticate(&mut self, ticket: Ticket, body: &Bytes) {
        let Some(connection) = self.connections.get_mut(&ticket.connection) else { return };
        let authenticated = match AuthPacket::from_frame(body) {
            Ok(packet) => acl::authenticate(&self.settings, &packet.scheme, packet.auth.as_deref()),
            Err(_) => return self.close(ticket.connection, Cut::Fin),
        };
        match authenticated {
            Authenticated::As(identities) => {
                for identity in identities {
                    if !connection.identities.contains(&identity) {
                        connection.identities.push(identity);
                    }
                }
                self.answer_with(ticket, Zxid::ZERO, ErrorCode::OK, None);
            }
            Authenticated::Refused if self.settings.version.is_keeper_like() => {
                self.answer(ticket, ErrorCode::AUTH_FAILED, None);
            }
            Authenticated::Refused => {
                self.answer_with(ticket, Zxid::ZERO, ErrorCode::AUTH_FAILED, None);
                self.close(ticket.connection, Cut::Fin);
            }
        }
    }

    /// Closes the connection without a reply if its server leads, or assumes that it leads, and the
    /// session has moved to another connection. Only a leader has owners of sessions
    /// (`PrepRequestProcessor`), so a follower answers.
    pub(super) fn refuses_moved(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&id) else { return true };
        let Some(session_id) = connection.session_id() else { return false };
        let here = Owner { server: connection.server, connection: id };
        let sessions = match &self.servers[here.server].isolated {
            Some(own) => own,
            None if here.server == self.leader => &self.sessions,
            None => return false,
        };
        let has_moved = sessions.check(session_id, here) == Err(ErrorCode::SESSION_MOVED);
        if has_moved {
            self.close(id, Cut::Fin);
        }
        has_moved
    }

    fn can_sync(&self, at: usize) -> bool {
        self.reaches_leader(at) || self.syncs_alone(at)
    }

    /// Answers a `sync` once the server has caught up with the leader. The path is not checked.
    fn sync(&mut self, ticket: Ticket, body: &Bytes) {
        if self.refuses_moved(ticket.connection) {
            return;
        }
        let path = match Reader::new(body, "SyncRequest").opt_text("path") {
            Ok(path) => path.map(std::borrow::Cow::into_owned),
            Err(_) => return self.answer(ticket, ErrorCode::MARSHALLING_ERROR, None),
        };
        let Some(at) = self.connections.get(&ticket.connection).map(|connection| connection.server)
        else {
            return;
        };
        let (sent, place) = (self.now, self.log.end());
        let is_here = self.servers[at].applied >= place && self.has_reached(at, sent);
        if self.syncs_alone(at) || is_here {
            return self.answer(ticket, ErrorCode::OK, Some(&proto::SyncReply { path }));
        }
        let connection = ticket.connection;
        self.servers[at].expected.push_back(Expected { sent, place, connection });
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        connection.waiting.push_front(Waiting::Sync { ticket, path, place, sent });
    }

    /// Answers a ping. The reply always has the xid of pings.
    pub(super) fn pong(&mut self, ticket: Ticket) {
        self.answer(Ticket { xid: xid::PING, ..ticket }, ErrorCode::OK, None);
    }
}

/// Returns whether an operation is sent to the leader and takes a zxid.
fn is_write(op: i32) -> bool {
    op == DELETE_CONTAINER
        || op == OpCode::Check.code()
        || OpCode::from_code(op).is_some_and(OpCode::is_write)
}

/// Decodes a request. The error is a server's answer to a request that cannot be decoded.
pub(super) fn decode<'a, T: Decode<'a>>(body: &'a Bytes) -> Result<T, ErrorCode> {
    T::from_frame(body).map_err(|_: DecodeError| ErrorCode::MARSHALLING_ERROR)
}
