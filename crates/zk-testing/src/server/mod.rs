//! ZooKeeper as a state machine: no IO, no clock, no randomness of its own.
//!
//! Bytes and time go in; bytes and the next deadline come out.
//!
//! **The contract**: after every call, drain [`poll_output`](Ensemble::poll_output) until it is
//! empty, and sleep no longer than [`poll_timeout`](Ensemble::poll_timeout). `now` never goes back.
//! A client that is never reported to [have read](Ensemble::have_read) its answers is not served
//! beyond [`UNREAD_BYTES_MAX`](crate::limits::UNREAD_BYTES_MAX).
//!
//! 1. A client connects: [`accept`](Ensemble::accept).
//! 2. Bytes arrive: [`receive`](Ensemble::receive).
//! 3. The client has read what it was sent: [`have_read`](Ensemble::have_read).
//! 4. The client is gone: [`disconnected`](Ensemble::disconnected).
//! 5. The deadline passes: [`handle_timeout`](Ensemble::handle_timeout).
//!
//! A write goes the way it goes in a real ensemble. The leader *validates* it against its tree
//! and gives it a zxid, also if it fails; every server *applies* the transaction to a tree of its
//! own, *notifies* its connections' watches, and *answers* if the request came through it. With
//! one server, or as long as all are well, that happens inside of one call. A follower that lags,
//! or is cut off, has an old tree until it catches up.
//!
//! The leader learns from the touch tables of its followers, every half tick of its own, which of
//! their sessions are alive. Any server can lead: see [`elect`](Ensemble::elect).
//!
//! ```
//! use std::time::Instant;
//! use bytes::BytesMut;
//! use proto::{ConnectReply, ConnectRequest, encode_record, split_frame};
//! use zk_testing::server::{Ensemble, Output, Settings};
//!
//! let now = Instant::now();
//! let mut zookeeper = Ensemble::new(Settings::new(), now);
//! let connection = zookeeper.accept(now, 0, ([127, 0, 0, 1], 4000).into())?;
//!
//! let request = ConnectRequest {
//!     protocol_version: 0,
//!     last_zxid_seen: 0,
//!     timeout_ms: 10_000,
//!     session_id: 0,
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
mod clock;
mod connection;
mod containers;
mod control;
mod create_request;
mod dispatch;
mod faults;
mod flow;
mod four_letter;
mod handshake;
mod hash;
mod java_hash;
mod leadership;
mod learners;
mod multi;
mod node;
mod observer;
mod prepare;
mod quota;
mod reads;
mod replication;
mod replies;
mod sessions;
mod settings;
mod tree;
mod truth;
mod txn;
mod version;
mod watch_requests;
mod watches;
mod writes;

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::{Acl, OPEN_ACL};

pub use connection::ConnectionId;
pub use control::Switch;
pub use faults::{Action, Cut, Rule, RuleId, Target};
pub use node::{Node, NodeKind};
pub use observer::{Commit, Effect};
pub use sessions::SessionInfo;
pub use settings::Settings;
pub use tree::Tree;
pub use version::Version;

use clock::Clock;
use connection::{Connection, Outgoing, State};
use faults::Faults;
use hash::FastMap;
use learners::Pings;
use observer::Observer;
use replication::{Log, Server};
use sessions::Sessions;

use crate::limits::HANDSHAKE_TIMEOUT;

/// One ZooKeeper server, or an ensemble of several. See the [module documentation](self) for the
/// contract.
#[derive(Debug)]
pub struct Ensemble {
    settings: Settings,
    clock: Clock,
    /// The last time this heard of.
    now: Instant,
    servers: Vec<Server>,
    /// The server that leads, or led last. The first one does at the start.
    leader: usize,
    /// How often a server has begun to lead.
    epoch: i64,
    /// When the leader pings its followers.
    pings: Pings,
    log: Log,
    /// The zxid of the last transaction.
    zxid: i64,
    /// Who is alive; what the leader knows.
    sessions: Sessions,
    connections: FastMap<ConnectionId, Connection>,
    next_connection: u64,
    /// Connections that may have something to send.
    ready: VecDeque<ConnectionId>,
    /// Connections whose turn has come to go on with what waits.
    resumable: VecDeque<ConnectionId>,
    /// Connections that have not sent a connect request, by when they are closed.
    handshakes: BTreeSet<(Instant, ConnectionId)>,
    /// Connections with delayed bytes, by when those are due.
    delayed: BTreeSet<(Instant, ConnectionId)>,
    next_reaping: Instant,
    faults: Faults,
    observer: Option<Observer>,
    /// The list that permits everything, which almost every node has.
    open: Arc<[Acl]>,
}

/// What an [`Ensemble`] wants done.
#[derive(Debug)]
pub enum Output {
    /// Send these bytes. What belongs together comes in one piece.
    Send(ConnectionId, Bytes),
    /// Close the connection, once all bytes before are sent. It is not known here any more.
    Close(ConnectionId, Cut),
}

/// A server does not take connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server refuses connections")
    }
}

impl Error for Refused {}

impl Ensemble {
    /// Servers without sessions, whose clock starts now.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        let clock = Clock::new(now, settings.wall_clock_ms);
        // A leader begins an epoch; a server on its own has none.
        let zxid = if settings.servers > 1 { 1 << 32 } else { 0 };
        let servers = (0..settings.servers).map(|_| Server::new(&settings, zxid)).collect();
        Self {
            servers,
            leader: 0,
            epoch: 0,
            pings: Pings::new(now, settings.tick(0)),
            log: Log::default(),
            zxid,
            sessions: Sessions::new(settings.tick(0), settings.wall_clock_ms),
            connections: FastMap::default(),
            next_connection: 0,
            ready: VecDeque::new(),
            resumable: VecDeque::new(),
            handshakes: BTreeSet::new(),
            delayed: BTreeSet::new(),
            next_reaping: now + settings.container_check_interval,
            faults: Faults::new(settings.seed),
            observer: None,
            open: OPEN_ACL.into(),
            settings,
            clock,
            now,
        }
    }

    /// A client has connected to a server, counted from 0.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the server is dead or was told to refuse connections, or there is none.
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
        self.connections.insert(id, Connection::new(server, peer));
        if self.servers[server].closes_connects || self.has_too_many(peer) {
            self.close(id, Cut::Fin);
        } else {
            let due = self.clock.round_up(now + HANDSHAKE_TIMEOUT, HANDSHAKE_TIMEOUT);
            self.handshakes.insert((due, id));
        }
        Ok(id)
    }

    /// Bytes have arrived; they are taken out of `bytes`. A transport that reads from the client
    /// only while the connection [has room](Self::has_room) bounds what the server keeps of it.
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

    /// The client is gone, or its connection is.
    pub fn disconnected(&mut self, now: Instant, id: ConnectionId) {
        self.advance(now);
        self.forget(id);
        self.connections.remove(&id);
    }

    /// A deadline may have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// The next thing to be done. Call until there is none.
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

    /// When [`handle_timeout`](Self::handle_timeout) has to be called next, if nothing else happens.
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

    /// Lets time pass, and does everything at the time when it was due.
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
        // A touch that arrives in the instant in which its session expires comes too late.
        self.expire_sessions();
        self.handle_all_pings();
        self.reap_if_due();
        while let Some(&(due, id)) = self.handshakes.first()
            && due <= self.now
        {
            self.handshakes.pop_first();
            if self.connections.get(&id).is_some_and(|it| it.state == State::Fresh) {
                self.close(id, Cut::Fin);
            }
        }
        while let Some(&(due, id)) = self.delayed.first()
            && due <= self.now
        {
            self.delayed.pop_first();
            self.list(id);
        }
        self.settle();
    }

    /// Goes on with whatever has come to its turn.
    fn settle(&mut self) {
        while let Some(id) = self.resumable.pop_front() {
            self.resume(id);
        }
    }

    /// Puts a connection into the list of those with something to send.
    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.listed
        {
            connection.listed = true;
            self.ready.push_back(id);
        }
    }

    /// Closes a connection, behind what is queued for it.
    fn close(&mut self, id: ConnectionId, how: Cut) {
        if how == Cut::Silence {
            // Nobody knows of it; the session and the watches stay.
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

    /// Forgets what a server knows of a connection.
    fn forget(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let server = &mut self.servers[connection.server];
        server.watches.forget(id);
        if let Some(session_id) = connection.session_id()
            && server.connections.get(&session_id) == Some(&id)
        {
            server.connections.remove(&session_id);
        }
    }

    fn has_too_many(&self, peer: SocketAddr) -> bool {
        let max = self.settings.max_client_connections;
        let same = self.connections.values().filter(|other| other.peer.ip() == peer.ip());
        max > 0 && same.count() > max
    }
}
