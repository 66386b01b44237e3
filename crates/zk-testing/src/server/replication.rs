//! Replication of transactions from the leader to every server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::{SessionId, Zxid};

use super::Ensemble;
use super::apply::Change;
use super::connection::Ticket;
use super::connection_id::ConnectionId;
use super::faults::Cut;
use super::hash::FastMap;
use super::learners::Expected;
use super::link::Link;
use super::sessions::Sessions;
use super::settings::Settings;
use super::tree::Tree;
use super::txn::{Txn, TxnBody};
use super::watches::Watches;

/// One server: its tree, the watches of its connections, its link to the leader.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tree: Tree,
    pub(crate) watches: Watches,
    /// Connection of each session at this server.
    pub(crate) connections: FastMap<SessionId, ConnectionId>,
    /// Number of log entries that have been applied.
    pub(crate) applied: u64,
    pub(crate) link: Link,
    /// Epoch of the leader when this server joined it or started to lead.
    pub(crate) epoch: i64,
    /// Delay between the leader and this server in applying a transaction. `None` stops the server
    /// from applying any.
    pub(crate) lag: Option<Duration>,
    /// Delay in handling the packets of the leader.
    pub(crate) learner_lag: Duration,
    /// Answers of the leader on their way to connections, in order.
    pub(crate) expected: VecDeque<Expected>,
    /// Touch table: sessions that have sent a packet since the last answered ping, with the
    /// timeouts that this server has granted them.
    pub(crate) touched: BTreeMap<SessionId, i32>,
    /// Number of the leader's pings that this server has answered.
    pub(crate) pings_handled: u64,
    /// Session table of a former leader that is cut off while another server leads.
    pub(crate) isolated: Option<Sessions>,
    /// Whether the server is stopped, like a stopped process.
    pub(crate) stalled: bool,
    pub(crate) stalled_since: Option<Instant>,
    /// Whether this follower waits for another leader, because its own is stopped.
    pub(crate) has_given_up: bool,
    /// Whether the process is dead.
    pub(crate) killed: bool,
    pub(crate) refuses_connects: bool,
    pub(crate) closes_connects: bool,
    /// Number of further connect requests to refuse as if the client had seen a later zxid.
    pub(crate) ahead: u64,
    pub(crate) read_only: bool,
    /// Sessions granted while the server was read-only, and their timeouts. Only this server knows
    /// them.
    pub(crate) local_sessions: FastMap<SessionId, i32>,
    /// Number of the last local session. It never restarts, so no id is granted twice.
    pub(crate) last_local_session: i64,
    /// Sessions whose creation this server has applied, and not their end.
    pub(crate) global_sessions: BTreeSet<SessionId>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Transactions that at least one server has not applied yet.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Arc<Entry>>,
    /// Position of the first entry.
    first: u64,
}

#[derive(Debug)]
struct Entry {
    txn: Txn,
    origin: Option<Origin>,
    committed: Instant,
}

/// Recipient of the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    Request(Ticket),
    /// A connection that has requested a new session, and whether it sent the read-only byte.
    Connect {
        connection: ConnectionId,
        timeout_ms: i32,
        read_only_byte: bool,
    },
}

impl Origin {
    fn connection(&self) -> ConnectionId {
        match self {
            Self::Request(ticket) => ticket.connection,
            Self::Connect { connection, .. } => *connection,
        }
    }
}

impl Server {
    pub(crate) fn new(settings: &Settings, zxid: Zxid) -> Self {
        let mut tree = Tree::new(settings.version);
        tree.last_zxid = zxid;
        if settings.servers > 1 && tree.contains("/zookeeper/config") {
            tree.replace_data("/zookeeper/config", Some(config_text(settings.servers, zxid)));
            if let Some(config) = tree.node_mut("/zookeeper/config") {
                (config.mzxid, config.version) = (zxid, -1);
            }
        }
        Self {
            tree,
            watches: Watches::default(),
            connections: FastMap::default(),
            applied: 0,
            link: Link::Up,
            epoch: 0,
            lag: Some(Duration::ZERO),
            learner_lag: Duration::ZERO,
            expected: VecDeque::new(),
            touched: BTreeMap::new(),
            pings_handled: 0,
            isolated: None,
            stalled: false,
            stalled_since: None,
            has_given_up: false,
            killed: false,
            refuses_connects: false,
            closes_connects: false,
            ahead: 0,
            read_only: false,
            local_sessions: FastMap::default(),
            last_local_session: 0,
            global_sessions: BTreeSet::new(),
            received: 0,
            sent: 0,
        }
    }
}

impl Log {
    /// Returns the position after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::try_from(self.entries.len()).unwrap_or(0)
    }

    fn entry(&self, place: u64) -> Option<&Arc<Entry>> {
        self.entries.get(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }

    fn forget_before(&mut self, place: u64) {
        while self.first < place && self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }
}

impl Ensemble {
    /// Returns whether a server can send requests to the leader, or is the leader.
    pub(super) fn reaches_leader(&self, at: usize) -> bool {
        at == self.leader || (self.servers[at].link == Link::Up && self.leader_works())
    }

    /// Returns whether a server answers `sync` by itself, because it leads or assumes that it
    /// leads. Only the `sync`s that followers forward wait for proposals (`Leader.processSync`).
    pub(super) fn syncs_alone(&self, at: usize) -> bool {
        at == self.leader || self.servers[at].isolated.is_some()
    }

    /// Assigns zxid and time to a transaction. Every server that can apply it now does so.
    pub(super) fn commit(&mut self, session_id: SessionId, body: TxnBody, origin: Option<Origin>) {
        self.zxid.0 += 1;
        let time_ms = self.clock.wall_ms(self.now);
        let txn = Txn { zxid: self.zxid, time_ms, session_id, body };
        if self.servers.len() == 1 {
            self.apply_at(self.leader, &txn, origin);
            return;
        }
        let committed = self.now;
        self.log.entries.push_back(Arc::new(Entry { txn, origin, committed }));
        self.catch_up_all();
    }

    /// Makes every server apply the transactions that are due.
    pub(super) fn catch_up_all(&mut self) {
        if self.servers.len() == 1 {
            return;
        }
        for server in 0..self.servers.len() {
            while let Some(entry) = self.applicable(server) {
                self.apply_next(server, &entry);
            }
            self.take_answers(server);
        }
        let slowest = self.servers.iter().map(|server| server.applied).min();
        self.log.forget_before(slowest.unwrap_or(0));
    }

    /// Makes a server apply all transactions, regardless of its lag.
    pub(super) fn catch_up_fully(&mut self, at: usize) {
        while let Some(entry) = self.log.entry(self.servers[at].applied).cloned() {
            self.apply_next(at, &entry);
        }
    }

    fn apply_next(&mut self, at: usize, entry: &Entry) {
        self.servers[at].applied += 1;
        let here = entry.origin.filter(|origin| {
            let connection = self.connections.get(&origin.connection());
            connection.is_some_and(|connection| connection.server == at)
        });
        self.apply_at(at, &entry.txn, here);
    }

    /// Returns the next transaction that a server can apply now.
    fn applicable(&self, at: usize) -> Option<Arc<Entry>> {
        let entry = self.log.entry(self.servers[at].applied)?;
        let is_due = at == self.leader || self.applies_at(at).is_some_and(|due| due <= self.now);
        is_due.then(|| Arc::clone(entry))
    }

    /// Returns the time at which a follower applies its next transaction.
    fn applies_at(&self, at: usize) -> Option<Instant> {
        let server = &self.servers[at];
        let is_up = server.link == Link::Up && server.epoch == self.epoch;
        if !is_up || server.stalled || server.killed {
            return None;
        }
        let entry = self.log.entry(server.applied)?;
        // The follower handles the commit after all earlier packets, and may apply it later still.
        entry.committed.checked_add(server.lag?.max(server.learner_lag))
    }

    /// Returns the time of the next event at a follower that its leader causes.
    pub(super) fn next_replication(&self) -> Option<Instant> {
        if self.servers.len() == 1 {
            return None;
        }
        let due = self.servers.iter().enumerate().filter_map(|(at, server)| match server.link {
            _ if server.stalled || at == self.leader => None,
            Link::Cut { until } => Some(until),
            Link::Down => None,
            Link::Up => {
                let due = [
                    self.applies_at(at),
                    self.next_flush(at),
                    self.next_answer(at),
                    self.gives_up_at(at),
                ];
                due.into_iter().flatten().min()
            }
        });
        due.min()
    }

    /// Returns the time at which a follower gives up a stopped leader (`Learner.syncWithLeader`
    /// limits the silence of the leader).
    fn gives_up_at(&self, at: usize) -> Option<Instant> {
        let server = &self.servers[at];
        let follows = server.link == Link::Up && !server.stalled && !server.killed;
        let waits = follows && at != self.leader && self.leads() && !server.has_given_up;
        if !waits {
            return None;
        }
        let since = self.servers[self.leader].stalled_since?;
        Some(since + self.settings.tick(at) * self.settings.sync_limit)
    }

    /// Closes the client connections of servers that have heard nothing from their leader for too long.
    pub(super) fn give_up_on_the_leader(&mut self) {
        for at in 0..self.servers.len() {
            if self.gives_up_at(at).is_some_and(|due| due <= self.now) {
                self.servers[at].has_given_up = true;
                self.forget_leader(at);
                self.close_all_at(at);
            }
            let server = &mut self.servers[at];
            let Link::Cut { until } = server.link else { continue };
            if until <= self.now && !server.stalled {
                server.link = Link::Down;
                server.isolated = None;
                server.touched.clear();
                self.close_all_at(at);
            }
        }
    }

    pub(super) fn close_all_at(&mut self, server: usize) {
        let ids = self.connections_of(server);
        for id in ids {
            self.close(id, Cut::Fin);
        }
    }

    /// Reconnects a follower to its leader and resumes its waiting requests. If the follower has
    /// noticed the cut, has given up the leader, or has another one now, it rejoins instead.
    pub(super) fn relink(&mut self, at: usize) {
        if at != self.leader {
            // A stopped leader takes back those that have given it up when it resumes.
            let is_led = self.servers[self.leader].stalled_since.is_none();
            let server = &mut self.servers[at];
            let is_connected = matches!(server.link, Link::Up | Link::Cut { .. })
                && !(server.has_given_up && is_led);
            if !is_connected || server.epoch != self.epoch || !self.leads() {
                self.rejoin(at);
            }
            self.servers[at].link = Link::Up;
        }
        self.catch_up_all();
        // Pings have queued up on the way.
        self.handle_pings(at);
        self.resume_all_at(at);
    }

    /// Resumes every connection of a server.
    pub(super) fn resume_all_at(&mut self, server: usize) {
        let ids = self.connections_of(server);
        for id in &ids {
            self.list(*id);
        }
        self.resumable.extend(ids);
        self.settle();
    }

    /// Applies a transaction at one server: to its tree, its watches and its connections.
    fn apply_at(&mut self, at: usize, txn: &Txn, origin: Option<Origin>) {
        let server = &mut self.servers[at];
        let mut changes = (!server.watches.is_empty()).then(Vec::new);
        let applied = server.tree.apply(txn, &mut changes);
        match &mut self.observer {
            Some(observer) if at == self.leader => observer.tell(&server.tree, txn),
            _ => {}
        }
        for change in changes.into_iter().flatten() {
            self.notify(at, txn.zxid, &change);
        }
        let closed = match txn.body {
            TxnBody::CloseSession { .. } => {
                self.servers[at].touched.remove(&txn.session_id);
                self.servers[at].global_sessions.remove(&txn.session_id);
                self.servers[at].connections.get(&txn.session_id).copied()
            }
            TxnBody::CreateSession { timeout_ms } => {
                self.servers[at].global_sessions.insert(txn.session_id);
                // Every learner records a new session (`LearnerSessionTracker.commitSession`).
                if at != self.leader {
                    self.note_touch(at, txn.session_id, timeout_ms);
                }
                None
            }
            _ => None,
        };
        match origin {
            Some(Origin::Request(ticket)) => self.answer_applied(ticket, applied),
            Some(Origin::Connect { connection, timeout_ms, read_only_byte }) => {
                let read_only = read_only_byte.then_some(false);
                self.open(connection, txn.session_id, timeout_ms, read_only);
            }
            None => {}
        }
        if let Some(id) = closed {
            self.close(id, Cut::Fin);
        }
        if self.servers.len() > 1 {
            self.take_answers(at);
        }
    }

    /// Notifies the watching connections that may read the node.
    fn notify(&mut self, at: usize, zxid: Zxid, change: &Change) {
        let version = self.settings.version;
        let watches = &mut self.servers[at].watches;
        let firings = if version.is_keeper_like() {
            watches.fire_at_keeper(change.event, &change.path)
        } else {
            watches.fire(change.event, &change.path)
        };
        let zxid = if version.events_carry_zxid() { zxid } else { Zxid(-1) };
        for firing in firings {
            // The parent's ACL decides who receives an event about the parent's children.
            let acl = if firing.event == change.event { &change.acl } else { &change.parent_acl };
            self.send_event(&firing, zxid, version.events_need_read().then_some(acl));
        }
    }
}

/// Returns the data of `/zookeeper/config` in an ensemble.
fn config_text(servers: usize, zxid: Zxid) -> Bytes {
    let mut text = String::new();
    for id in 1..=servers {
        text.push_str(&format!("server.{id}=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n"));
    }
    text.push_str(&format!("version={zxid:x}"));
    text.into()
}
