//! ZooKeeper as a state machine, without I/O, clock or source of randomness.
//!
//! The caller passes in bytes and the time; the state machine returns bytes and the next deadline.
//!
//! **The contract**: after every call, drain [`poll_output`](Ensemble::poll_output) until it is
//! empty, and sleep no longer than [`poll_timeout`](Ensemble::poll_timeout). `now` never decreases.
//! Report what each client [has read](Ensemble::have_read): a client with
//! [`UNREAD_BYTES_MAX`](crate::limits::UNREAD_BYTES_MAX) unread bytes gets no further answers.
//!
//! 1. A client connects: [`accept`](Ensemble::accept).
//! 2. Bytes arrive: [`receive`](Ensemble::receive).
//! 3. The client reads its answers: [`have_read`](Ensemble::have_read).
//! 4. The client disconnects: [`disconnected`](Ensemble::disconnected).
//! 5. The deadline passes: [`handle_timeout`](Ensemble::handle_timeout).
//!
//! A write takes the same path as in a real ensemble. The leader *validates* it against its tree
//! and assigns a zxid, even to a write that fails. Every server *applies* the transaction to its
//! own tree, *notifies* the watches of its connections, and *answers* the request if it received
//! it. With one server, or while all servers are healthy, all this happens within one call. A
//! follower that lags or is cut off has an old tree until it catches up.
//!
//! Every half tick, the leader receives the touch tables of its followers; they contain the
//! sessions that are alive. Any server can lead: see [`elect`](Ensemble::elect).
//!
//! ```
//! use std::time::Instant;
//! use bytes::BytesMut;
//! use proto::{ConnectReply, ConnectRequest, SessionId, Zxid, encode_record, split_frame};
//! use zk_testing::server::{Ensemble, Output};
//! use zk_testing::Settings;
//!
//! let now = Instant::now();
//! let mut zookeeper = Ensemble::new(Settings::new(), now);
//! let connection = zookeeper.accept(now, 0, ([127, 0, 0, 1], 4000).into())?;
//!
//! let request = ConnectRequest {
//!     protocol_version: 0,
//!     last_zxid_seen: Zxid::ZERO,
//!     timeout_ms: 10_000,
//!     session_id: SessionId::NONE,
//!     password: [0; 16][..].into(),
//!     read_only: Some(false),
//! };
//! let mut bytes = BytesMut::new();
//! encode_record(&request, &mut bytes);
//! zookeeper.receive(now, connection, &mut bytes);
//!
//! let Some(Output::Send(_, reply)) = zookeeper.poll_output() else { panic!("no reply") };
//! let frame = split_frame(&mut BytesMut::from(reply), 1_000)?.unwrap();
//! let ConnectReply::Accepted(session) = ConnectReply::parse(&frame)? else { panic!("rejected") };
//! assert_eq!(zookeeper.sessions().next().unwrap().id, session.session_id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acl;
mod apply;
mod back_pressure;
mod clock;
mod connection;
pub(crate) mod connection_id;
mod containers;
pub(crate) mod control;
mod create_request;
mod dispatch;
pub(crate) mod faults;
mod four_letter;
mod handshake;
mod hash;
mod java_hash;
mod keeper;
mod leadership;
mod learners;
mod link;
mod multi;
mod node;
mod observer;
mod own_nodes;
mod prepare;
mod quota;
mod reads;
mod real_state;
mod replication;
mod replies;
pub(crate) mod request_log;
mod sasl;
mod sessions;
pub(crate) mod settings;
mod tree;
mod tree_text;
mod txn;
pub(crate) mod version;
mod watch_requests;
mod watches;
mod writes;

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{Acl, OPEN_ACL_UNSAFE, SessionId, Zxid};

pub use faults::{Action, Rule, RuleId, Target};
pub use node::{Node, NodeKind};
pub use observer::{CloseCause, Commit, Effect, SessionStep};
pub use sessions::SessionInfo;
pub use tree::Tree;
pub use watches::{WatchMode, WatchTable};

pub(crate) use connection_id::ConnectionId;
pub(crate) use control::Switch;
pub(crate) use faults::Cut;
pub(crate) use settings::Settings;

use clock::Clock;
use connection::{Connection, Outgoing, State};
use faults::Faults;
use hash::FastMap;
use learners::Pings;
use observer::{Observer, StepObserver};
use replication::{Log, Server};
use request_log::Logged;
use sessions::Sessions;

use crate::limits::HANDSHAKE_TIMEOUT;

/// One ZooKeeper server, or an ensemble of several. See the [module documentation](self) for the
/// contract.
#[derive(Debug)]
pub struct Ensemble {
    settings: Settings,
    clock: Clock,
    /// Latest time passed in.
    now: Instant,
    servers: Vec<Server>,
    /// Number of the server that leads or led last. Server 0 leads at the start.
    leader: usize,
    /// Number of times that a server has started to lead.
    epoch: i64,
    /// Schedule of the leader's pings to its followers.
    pings: Pings,
    log: Log,
    /// Zxid of the last transaction.
    zxid: Zxid,
    /// Live sessions, as the leader tracks them.
    sessions: Sessions,
    connections: FastMap<ConnectionId, Connection>,
    next_connection: u64,
    /// Connections that may have output.
    ready: VecDeque<ConnectionId>,
    /// Connections whose waiting requests can continue.
    resumable: VecDeque<ConnectionId>,
    /// Connections without a connect request, by the time at which the server closes them.
    handshakes: BTreeSet<(Instant, ConnectionId)>,
    /// Connections with delayed bytes, by the time at which those are sent.
    delayed: BTreeSet<(Instant, ConnectionId)>,
    next_reaping: Instant,
    /// Time that the leader needs for the sessions that expire at the same tick.
    expiry_pass: Duration,
    faults: Faults,
    observer: Option<Observer>,
    step_observer: Option<StepObserver>,
    logged: Vec<Logged>,
    /// The open ACL, which almost every node has.
    open: Arc<[Acl]>,
}

/// Action for the transport.
// Closed: a transport must execute every output.
#[derive(Debug)]
pub enum Output {
    /// Send these bytes as one piece.
    Send(ConnectionId, Bytes),
    /// Close the connection after all earlier bytes are sent. The server has forgotten it already.
    Close(ConnectionId, Cut),
}

/// Error of a server that does not accept connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server refuses connections")
    }
}

impl Error for Refused {}

impl Ensemble {
    /// Creates servers without sessions. Their clock starts at `now`.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        let clock = Clock::new(now, settings.wall_clock_ms);
        // A leader starts an epoch; a standalone server has none.
        let has_epochs = settings.servers > 1 && settings.version.zxids_have_epochs();
        let zxid = if has_epochs { Zxid(1 << 32) } else { Zxid::ZERO };
        let first_session = if settings.version.is_keeper_like() {
            SessionId(1)
        } else {
            sessions::first_id(settings.wall_clock_ms)
        };
        let servers = (0..settings.servers).map(|_| Server::new(&settings, zxid)).collect();
        Self {
            servers,
            leader: 0,
            epoch: 0,
            pings: Pings::new(now, settings.tick(0)),
            log: Log::default(),
            zxid,
            sessions: Sessions::new(settings.tick(0), first_session),
            connections: FastMap::default(),
            next_connection: 0,
            ready: VecDeque::new(),
            resumable: VecDeque::new(),
            handshakes: BTreeSet::new(),
            delayed: BTreeSet::new(),
            next_reaping: now + settings.container_check_interval,
            expiry_pass: Duration::ZERO,
            faults: Faults::new(settings.seed),
            observer: None,
            step_observer: None,
            logged: Vec::new(),
            open: OPEN_ACL_UNSAFE.into(),
            settings,
            clock,
            now,
        }
    }

    /// Accepts a connection from a client to a server, counted from 0.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the server is dead, refuses connections or does not exist.
    pub fn accept(
        &mut self,
        now: Instant,
        server: usize,
        peer: SocketAddr,
    ) -> Result<ConnectionId, Refused> {
        self.advance(now);
        match self.servers.get(server) {
            Some(server) if !server.refuses_connects && !server.killed => {}
            _ => return Err(Refused),
        }
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let identities = if self.settings.version.is_keeper_like() {
            Vec::new()
        } else {
            vec![acl::of_address(peer.ip())]
        };
        self.connections.insert(id, Connection::new(server, peer, identities));
        if self.servers[server].closes_connects || self.has_too_many(peer) {
            self.close(id, Cut::Fin);
        } else {
            let due = self.clock.round_up(now + HANDSHAKE_TIMEOUT, HANDSHAKE_TIMEOUT);
            self.handshakes.insert((due, id));
        }
        Ok(id)
    }

    /// Processes received bytes and takes them out of `bytes`. A transport that reads from the
    /// client only while the connection [has room](Self::has_room) limits the bytes that the server
    /// keeps.
    pub fn receive(&mut self, now: Instant, id: ConnectionId, bytes: &mut BytesMut) {
        self.advance(now);
        let Some(connection) = self.connections.get_mut(&id) else {
            bytes.clear();
            return;
        };
        if connection.is_deaf() {
            bytes.clear();
            return;
        }
        if connection.inbound.is_empty() {
            connection.inbound = bytes.split();
        } else {
            connection.inbound.unsplit(bytes.split());
        }
        self.process(id);
        self.settle();
    }

    /// Removes a connection after its client has disconnected or its stream has broken. A stopped server
    /// still processes the connect request that it has received, when it resumes.
    pub fn disconnected(&mut self, now: Instant, id: ConnectionId) {
        self.advance(now);
        if let Some(connection) = self.connections.get_mut(&id) {
            let is_unread = connection.state == State::Fresh && !connection.inbound.is_empty();
            if is_unread && self.servers[connection.server].stalled {
                connection.is_abandoned = true;
                return;
            }
        }
        self.forget(id);
        self.connections.remove(&id);
    }

    /// Runs everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// Returns the next action for the transport. Call until it returns `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        loop {
            let id = *self.ready.front()?;
            if let Some(connection) = self.connections.get_mut(&id) {
                let stalled = connection.stalled || self.servers[connection.server].stalled;
                let outgoing = if stalled { None } else { connection.outbox.poll(self.now) };
                match outgoing {
                    Some(Outgoing::Bytes(bytes)) => {
                        connection.unread += bytes.len();
                        return Some(Output::Send(id, bytes));
                    }
                    Some(Outgoing::End(Cut::Silence)) => connection.outbox.silent = true,
                    Some(Outgoing::End(how)) => {
                        self.connections.remove(&id);
                        return Some(Output::Close(id, how));
                    }
                    None => connection.listed = false,
                }
                if connection.listed {
                    continue;
                }
            }
            self.ready.pop_front();
        }
    }

    /// Returns the time by which [`handle_timeout`](Self::handle_timeout) must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = [
            self.next_expiry(),
            self.next_reaping(),
            self.next_replication(),
            self.handshakes.first().map(|(due, _)| *due),
            self.delayed.first().map(|(due, _)| *due),
        ];
        due.into_iter().flatten().min()
    }

    /// Advances the time to `now` and runs everything at the time it was due.
    fn advance(&mut self, now: Instant) {
        let now = self.now.max(now);
        while let Some(due) = self.poll_timeout().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            self.do_what_is_due();
        }
        self.now = now;
    }

    fn do_what_is_due(&mut self) {
        self.catch_up_all();
        self.give_up_on_the_leader();
        // A touch at the exact instant of expiry is too late.
        self.expire_sessions();
        self.handle_all_pings();
        self.reap_if_due();
        while let Some(&(_, id)) = self.handshakes.first().filter(|(due, _)| *due <= self.now) {
            self.handshakes.pop_first();
            if self.connections.get(&id).is_some_and(|connection| connection.state == State::Fresh)
            {
                self.close(id, Cut::Fin);
            }
        }
        while let Some(&(_, id)) = self.delayed.first().filter(|(due, _)| *due <= self.now) {
            self.delayed.pop_first();
            self.list(id);
        }
        self.settle();
    }

    /// Resumes all connections whose waiting requests can continue.
    fn settle(&mut self) {
        while let Some(id) = self.resumable.pop_front() {
            self.resume(id);
        }
    }

    /// Adds a connection to the list of those with output.
    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) =
            self.connections.get_mut(&id).filter(|connection| !connection.listed)
        {
            connection.listed = true;
            self.ready.push_back(id);
        }
    }

    /// Closes a connection after its queued output.
    fn close(&mut self, id: ConnectionId, how: Cut) {
        if how == Cut::Silence {
            // A silent cut is unnoticed: the session and the watches stay.
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.outbox.end = Some(how);
                self.list(id);
            }
            return;
        }
        self.forget(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.end(how);
            self.list(id);
        }
    }

    /// Removes a connection from the watches and the session table of its server.
    fn forget(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let server = &mut self.servers[connection.server];
        server.watches.forget(id);
        if let Some(session_id) = connection.session_id() {
            if server.connections.get(&session_id) == Some(&id) {
                server.connections.remove(&session_id);
            }
        }
    }

    fn has_too_many(&self, peer: SocketAddr) -> bool {
        let max = self.settings.max_client_connections;
        let same = self.connections.values().filter(|other| other.peer.ip() == peer.ip());
        max > 0 && same.count() > max
    }
}
