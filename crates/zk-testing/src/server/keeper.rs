//! Connections to ClickHouse Keeper and to RaftKeeper.
//!
//! The sources that decide: `KeeperTCPHandler.cpp` of ClickHouse (`receiveHandshake`,
//! `sendHandshake`, `receiveRequest`), and `ConnectionHandler.cpp` of RaftKeeper.

use bytes::Bytes;
use proto::{ConnectRequest, ConnectResponse, OpCode, SessionId};

use super::Ensemble;
use super::connection::State;
use super::connection_id::ConnectionId;
use super::faults::Cut;
use super::multi;
use super::replication::Origin;
use super::sessions::Owner;
use super::txn::TxnBody;
use super::version::Version;

/// Protocol version of a reply that rejects the connection
/// (`KEEPER_PROTOCOL_VERSION_CONNECTION_REJECT`).
const REJECTED: i32 = 42;

/// Requested timeout that means "the default", and that default in milliseconds.
const DEFAULT_TIMEOUT_MS: (i32, i32) = (0, 30_000);

impl Ensemble {
    /// Handles the connect request of a client of Keeper or RaftKeeper.
    pub(super) fn connect_to_keeper(&mut self, id: ConnectionId, request: &ConnectRequest) {
        let Some(at) = self.server_of(id) else { return };
        let asked_ms = match request.timeout_ms {
            ms if ms == DEFAULT_TIMEOUT_MS.0 => DEFAULT_TIMEOUT_MS.1,
            ms => ms,
        };
        let timeout_ms = self.settings.negotiate_ms(at, asked_ms);
        if !self.serves(at) || !self.leader_works() || !self.reaches_leader(at) {
            return self.reject_from_keeper(id, timeout_ms);
        }
        let is_behind = request.last_zxid_seen > self.servers[at].tree.last_zxid;
        if is_behind && !self.settings.version.is_keeper() {
            return self.close(id, Cut::Fin);
        }
        let owner = Owner { server: at, connection: id };
        if self.settings.version.resumes_sessions() && request.session_id != SessionId::NONE {
            return self.resume_at_keeper(id, request.session_id, timeout_ms, owner);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = State::Connecting;
        }
        let session_id = self.sessions.create(self.now, &self.clock, timeout_ms, owner);
        let origin = Origin::Connect { connection: id, timeout_ms, read_only_byte: false };
        self.commit(session_id, TxnBody::CreateSession { timeout_ms }, Some(origin));
    }

    /// Moves a session of RaftKeeper to this connection. Its password is not checked.
    fn resume_at_keeper(
        &mut self,
        id: ConnectionId,
        session_id: SessionId,
        timeout_ms: i32,
        owner: Owner,
    ) {
        if !self.sessions.renew(self.now, &self.clock, session_id, timeout_ms, owner) {
            return self.reject_from_keeper(id, -1);
        }
        if let Some(old) = self.servers[owner.server].connections.get(&session_id).copied() {
            self.close(old, Cut::Fin);
        }
        self.open(id, session_id, timeout_ms, None);
    }

    /// Sends a reply without a session, and closes the connection.
    fn reject_from_keeper(&mut self, id: ConnectionId, timeout_ms: i32) {
        let session_id = SessionId(-1);
        self.send_record(id, &response(REJECTED, timeout_ms, session_id));
        self.close(id, Cut::Fin);
    }

    /// Resets the clock of a session for a request to a follower of Keeper. Only requests that go
    /// through the log reach the leader, who ends the sessions; a read resets nothing there
    /// (`processLocalRequests`, `sessionCleanerTask`).
    pub(super) fn touch_from_follower_of_keeper(
        &mut self,
        at: usize,
        session_id: SessionId,
        timeout_ms: i32,
        op: Option<OpCode>,
    ) {
        let goes_through_log = match op {
            Some(OpCode::Ping | OpCode::Sync | OpCode::Auth | OpCode::CloseSession) => true,
            op => op.is_some_and(OpCode::is_write),
        };
        if goes_through_log && self.reaches_leader(at) {
            self.sessions.touch(self.now, &self.clock, session_id, timeout_ms);
        }
    }

    /// Drops a request that cannot be read, before it is queued. Keeper then closes the
    /// connection; RaftKeeper logs the error and continues with the next request. Returns whether
    /// the request was dropped.
    pub(super) fn drops_unreadable(&mut self, id: ConnectionId, op: i32, body: &Bytes) -> bool {
        let version = self.settings.version;
        let drops = !is_readable(version, op, body);
        if drops && version.is_keeper() {
            self.close(id, Cut::Fin);
        }
        drops
    }
}

/// Returns the reply to a connect request: always without the read-only byte, and with a password
/// of zeros.
pub(super) fn response(
    protocol_version: i32,
    timeout_ms: i32,
    session_id: SessionId,
) -> ConnectResponse {
    let password = Bytes::from_static(&[0; proto::PASSWORD_LEN]);
    ConnectResponse { protocol_version, timeout_ms, session_id, password, read_only: None }
}

/// Returns whether the server has the operation, and the operations of a multi.
fn is_readable(version: Version, op: i32, body: &Bytes) -> bool {
    match OpCode::from_code(op) {
        Some(op) if !version.has_op(op) => false,
        Some(OpCode::Multi | OpCode::MultiRead) => multi::parts(body, version).is_ok(),
        op => op.is_some(),
    }
}
