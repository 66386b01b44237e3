//! Replies and notifications: encoding them and applying faults.

use bytes::BytesMut;
use proto::{
    CreatePathReply, CreateReply, Encode, ErrorCode, KeeperState, MultiReply, MultiResult,
    ReplyHeader, SyncReply, WatcherEvent, Zxid, encode_record, encode_reply, xid,
};

use super::Ensemble;
use super::acl;
use super::connection::{State, Ticket, Waiting};
use super::connection_id::ConnectionId;
use super::faults::{Action, Cut, Occasion, Target};
use super::observer::CloseCause;
use super::txn::{Applied, OpResult};
use super::watches::Firing;

impl Ensemble {
    /// Answers a request that has changed nothing.
    pub(super) fn answer(&mut self, ticket: Ticket, err: ErrorCode, body: Option<&dyn Encode>) {
        let Some(connection) = self.connections.get(&ticket.connection) else { return };
        let zxid = self.servers[connection.server].tree.last_zxid;
        self.answer_with(ticket, zxid, err, body);
    }

    /// Answers with a zxid other than the server's last one.
    pub(super) fn answer_with(
        &mut self,
        ticket: Ticket,
        zxid: Zxid,
        err: ErrorCode,
        body: Option<&dyn Encode>,
    ) {
        let id = ticket.connection;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.traffic.sent += 1;
        connection.traffic.last_zxid = zxid;
        self.servers[connection.server].sent += 1;
        let header = ReplyHeader { xid: ticket.xid, zxid, err };
        match ticket.fault {
            None | Some(Action::ApplyThenExpire) => {
                connection.outbox.push(|out| encode_reply(&header, body, out));
            }
            Some(Action::ApplyThenDrop(how)) => return self.close(id, how),
            Some(fault) => {
                let mut frame = BytesMut::new();
                encode_reply(&header, body, &mut frame);
                return self.send_faulty(id, fault, frame);
            }
        }
        self.list(id);
        if ticket.fault.is_some() {
            self.expire_behind(id);
        }
    }

    /// Answers the request of an applied transaction.
    pub(super) fn answer_applied(&mut self, ticket: Ticket, applied: Applied) {
        let id = ticket.connection;
        // A waiting `sync` is earlier in the log, so its reply is sent first.
        while let Some(Waiting::Sync { ticket, path, .. }) = self.pop_sync(id) {
            self.answer(ticket, ErrorCode::OK, Some(&SyncReply { path }));
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(Waiting::Committed) = connection.waiting.front() {
            connection.waiting.pop_front();
            self.resumable.push_back(id);
        }
        match applied {
            // `FinalRequestProcessor` closes the connection without a reply.
            Applied::Error(code) | Applied::FailedMulti { code, .. }
                if code == ErrorCode::SESSION_MOVED =>
            {
                self.close(id, Cut::Fin);
            }
            Applied::Op(OpResult::Created { path, stat: None }) => {
                let body = CreatePathReply { path: path.into() };
                self.answer(ticket, ErrorCode::OK, Some(&body));
            }
            Applied::Op(OpResult::Created { path, stat: Some(stat) }) => {
                let body = CreateReply { path: path.into(), stat };
                self.answer(ticket, ErrorCode::OK, Some(&body));
            }
            Applied::Op(OpResult::Set(stat)) => self.answer(ticket, ErrorCode::OK, Some(&stat)),
            Applied::Multi(results) => {
                let results = results.into_iter().map(multi_result).collect();
                self.answer(ticket, ErrorCode::OK, Some(&MultiReply { results }));
            }
            Applied::FailedMulti { len, at, code } => {
                let code_of = |op: usize| match op.cmp(&at) {
                    std::cmp::Ordering::Less => ErrorCode::OK,
                    std::cmp::Ordering::Equal => code,
                    std::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
                };
                let results = (0..len).map(|op| MultiResult::Error(code_of(op))).collect();
                self.answer(ticket, ErrorCode::OK, Some(&MultiReply { results }));
            }
            Applied::Error(code) => self.answer(ticket, code, None),
            Applied::Lost => {
                let body = MultiReply { results: Vec::new() };
                self.answer(ticket, ErrorCode::MARSHALLING_ERROR, Some(&body));
            }
            // Keeper's handler returns instead (`close_xid`), and closes the connection.
            Applied::SessionClosed if self.settings.version.is_keeper_like() => {}
            Applied::Op(OpResult::Deleted | OpResult::Checked)
            | Applied::SessionCreated
            | Applied::SessionClosed => self.answer(ticket, ErrorCode::OK, None),
        }
    }

    fn pop_sync(&mut self, id: ConnectionId) -> Option<Waiting> {
        let waiting = &mut self.connections.get_mut(&id)?.waiting;
        match waiting.front()? {
            Waiting::Sync { .. } => waiting.pop_front(),
            _ => None,
        }
    }

    /// Sends a record without a header, as in the connect exchange.
    pub(super) fn send_record(&mut self, id: ConnectionId, record: &impl Encode) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.traffic.sent += 1;
        self.servers[connection.server].sent += 1;
        if let Some(fault) = connection.connect_fault.take() {
            let mut frame = BytesMut::new();
            encode_record(record, &mut frame);
            return self.send_faulty(id, fault, frame);
        }
        connection.outbox.push(|out| encode_record(record, out));
        self.list(id);
    }

    /// Sends an event to a connection if the ACL `readers` grants it READ. `None` grants it to all.
    pub(super) fn send_event(
        &mut self,
        firing: &Firing,
        zxid: Zxid,
        readers: Option<&[proto::Acl]>,
    ) {
        let id = firing.connection;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let may_know = readers.is_none_or(|readers| {
            acl::permits(readers, proto::Perms::READ, &connection.identities)
        });
        if !may_know {
            return;
        }
        let occasion = Occasion {
            target: Target::Notification,
            session: connection.session_id(),
            connection: id,
            server: connection.server,
        };
        let fault = self.faults.strike(occasion);
        let header = ReplyHeader { xid: xid::NOTIFICATION, zxid, err: ErrorCode::OK };
        let event = WatcherEvent {
            event_type: firing.event,
            state: KeeperState::SYNC_CONNECTED,
            path: firing.path.to_string(),
        };
        match fault {
            None => {
                connection.outbox.push(|out| encode_reply(&header, Some(&event), out));
                self.list(id);
            }
            Some(Action::ApplyThenDrop(how) | Action::DropBefore(how)) => self.close(id, how),
            Some(Action::NeverAnswer) => {}
            Some(fault) => {
                let mut frame = BytesMut::new();
                encode_reply(&header, Some(&event), &mut frame);
                self.send_faulty(id, fault, frame);
            }
        }
    }

    /// Sends a frame that a fault affects.
    fn send_faulty(&mut self, id: ConnectionId, fault: Action, frame: BytesMut) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.outbox.push_faulty(self.now, fault, frame);
        match fault {
            Action::Delay(by) => {
                self.delayed.insert((self.now + by, id));
            }
            Action::CutReply { how, .. } => self.close(id, how),
            _ => {}
        }
        self.list(id);
    }

    /// Drops the queued output of a connection and breaks it.
    pub(super) fn drop_reply(&mut self, id: ConnectionId, how: Cut) {
        self.cut_reply(id, 0, how);
    }

    /// Sends the first `after` bytes of a connection's queued output and breaks it.
    pub(super) fn cut_reply(&mut self, id: ConnectionId, after: usize, how: Cut) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.outbox.truncate(after);
        }
        self.close(id, how);
    }

    /// Expires the session of a connection right after a reply.
    fn expire_behind(&mut self, id: ConnectionId) {
        if let Some(State::Open { session_id, .. }) =
            self.connections.get(&id).map(|connection| connection.state)
        {
            self.end_session(session_id, CloseCause::Forced);
        }
    }
}

fn multi_result(result: OpResult) -> MultiResult {
    match result {
        OpResult::Created { path, stat } => MultiResult::Created { path: path.into(), stat },
        OpResult::Deleted => MultiResult::Deleted,
        OpResult::Set(stat) => MultiResult::Set(stat),
        OpResult::Checked => MultiResult::Checked,
    }
}
