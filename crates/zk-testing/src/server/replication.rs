//! How transactions get from the leader to every server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Ensemble;
use super::apply::Change;
use super::connection::{ConnectionId, Ticket};
use super::faults::Cut;
use super::hash::FastMap;
use super::learners::Expected;
use super::sessions::Sessions;
use super::settings::Settings;
use super::tree::Tree;
use super::txn::{Txn, TxnBody};
use super::watches::Watches;

/// One server: its tree, its connections' watches, its way to the leader.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tree: Tree,
    pub(crate) watches: Watches,
    /// Which connection each session has here.
    pub(crate) connections: FastMap<i64, ConnectionId>,
    /// How much of the log has been applied.
    pub(crate) applied: u64,
    pub(crate) link: Link,
    /// The leader's epoch in which it joined the leader, or began to lead.
    pub(crate) epoch: i64,
    /// How long after the leader a transaction is applied; `None` is not until told otherwise.
    pub(crate) lag: Option<Duration>,
    /// How late it handles the packets of its leader.
    pub(crate) learner_lag: Duration,
    /// Answers of the leader on their way to connections, in order.
    pub(crate) expected: VecDeque<Expected>,
    /// The touch table: sessions that have sent something since the last answered ping, and the
    /// timeouts that this server has granted them.
    pub(crate) touched: BTreeMap<i64, i32>,
    /// Pings of the leader that it has answered.
    pub(crate) pings_handled: u64,
    /// What it knows of the sessions if it led, and is cut off from those that have elected another.
    pub(crate) isolated: Option<Sessions>,
    /// Does nothing at all, like a stopped process.
    pub(crate) stalled: bool,
    pub(crate) stalled_since: Option<Instant>,
    /// Its process is dead.
    pub(crate) killed: bool,
    pub(crate) refuses_connects: bool,
    pub(crate) closes_connects: bool,
    /// How many more connect requests are refused as if the client had seen the future.
    pub(crate) ahead: u64,
    pub(crate) read_only: bool,
    /// Sessions that only this server knows, from when it was read-only, and their timeouts.
    pub(crate) local_sessions: FastMap<i64, i32>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// A follower's way to the leader, or an isolated leader's to its followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Nothing gets through, which the server notices only then.
    Cut {
        until: Instant,
    },
    /// The server has noticed that it is cut off, and serves nobody.
    Down,
}

/// Transactions that not every server has applied yet.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Arc<Entry>>,
    /// The place of the first entry.
    first: u64,
}

#[derive(Debug)]
struct Entry {
    txn: Txn,
    origin: Option<Origin>,
    committed: Instant,
}

/// Who gets the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    Request(Ticket),
    /// A connection that asked for a new session, and whether it sent the read-only byte.
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
    pub(crate) fn new(settings: &Settings, zxid: i64) -> Self {
        let mut tree = Tree::new();
        tree.last_zxid = zxid;
        if settings.servers > 1 {
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
            killed: false,
            refuses_connects: false,
            closes_connects: false,
            ahead: 0,
            read_only: false,
            local_sessions: FastMap::default(),
            received: 0,
            sent: 0,
        }
    }
}

impl Log {
    /// The place behind the last entry.
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
    /// Whether a server can ask the leader, or is it.
    pub(super) fn reaches_leader(&self, at: usize) -> bool {
        at == self.leader || (self.servers[at].link == Link::Up && self.leader_works())
    }

    /// Whether a server answers `sync` without asking anybody, since it leads, or thinks so: only
    /// `sync`s that followers forward wait for proposals (`Leader.processSync`).
    pub(super) fn syncs_alone(&self, at: usize) -> bool {
        at == self.leader || self.servers[at].isolated.is_some()
    }

    /// Gives a transaction its zxid and time, and has every server apply it that can.
    pub(super) fn commit(&mut self, session_id: i64, body: TxnBody, origin: Option<Origin>) {
        self.zxid += 1;
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

    /// Has every server apply what it can.
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

    /// Has a server apply all there is, however late it is otherwise.
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

    /// The next transaction a server can apply now.
    fn applicable(&self, at: usize) -> Option<Arc<Entry>> {
        let entry = self.log.entry(self.servers[at].applied)?;
        let is_due = at == self.leader || self.applies_at(at).is_some_and(|due| due <= self.now);
        is_due.then(|| Arc::clone(entry))
    }

    /// When a follower applies its next transaction.
    fn applies_at(&self, at: usize) -> Option<Instant> {
        let server = &self.servers[at];
        let is_up = server.link == Link::Up && server.epoch == self.epoch;
        let entry = self.log.entry(server.applied).filter(|_| is_up)?;
        let ready = !server.stalled && !server.killed;
        // It handles the commit when it has handled all before, and may apply it later still.
        let lag = server.lag.filter(|_| ready)?.max(server.learner_lag);
        entry.committed.checked_add(lag)
    }

    /// When a follower does something next because of its leader.
    pub(super) fn next_replication(&self) -> Option<Instant> {
        if self.servers.len() == 1 {
            return None;
        }
        let due = self.servers.iter().enumerate().filter_map(|(at, server)| match server.link {
            _ if server.stalled || at == self.leader => None,
            Link::Cut { until } => Some(until),
            Link::Down => None,
            Link::Up => {
                let due = [self.applies_at(at), self.next_flush(at), self.next_answer(at)];
                due.into_iter().flatten().min()
            }
        });
        due.min()
    }

    /// Servers that have been cut off for too long drop their clients.
    pub(super) fn give_up_on_the_leader(&mut self) {
        for at in 0..self.servers.len() {
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

    /// Lets a follower reach its leader again, and go on with what has waited. If it has noticed
    /// that it was cut off, or the leader is not the one it had, it starts anew.
    pub(super) fn relink(&mut self, at: usize) {
        if at != self.leader {
            let server = &mut self.servers[at];
            let is_connected = matches!(server.link, Link::Up | Link::Cut { .. });
            if !is_connected || server.epoch != self.epoch || self.servers[self.leader].killed {
                self.rejoin(at);
            }
            self.servers[at].link = Link::Up;
        }
        self.catch_up_all();
        // Pings have piled up on the way.
        self.handle_pings(at);
        self.resume_all_at(at);
    }

    /// Looks at every connection of a server again.
    pub(super) fn resume_all_at(&mut self, server: usize) {
        let ids = self.connections_of(server);
        for id in &ids {
            self.list(*id);
        }
        self.resumable.extend(ids);
        self.settle();
    }

    /// Applies a transaction at one server: to its tree, to its watches, to its connections.
    fn apply_at(&mut self, at: usize, txn: &Txn, origin: Option<Origin>) {
        let server = &mut self.servers[at];
        let mut changes = (!server.watches.is_empty()).then(Vec::new);
        let applied = server.tree.apply(txn, &mut changes);
        if let Some(observer) = self.observer.as_mut().filter(|_| at == self.leader) {
            observer.tell(&server.tree, txn);
        }
        for change in changes.into_iter().flatten() {
            self.notify(at, txn.zxid, &change);
        }
        let closed = match txn.body {
            TxnBody::CloseSession { .. } => {
                self.servers[at].touched.remove(&txn.session_id);
                self.servers[at].connections.get(&txn.session_id).copied()
            }
            // Every learner notes a new session (`LearnerSessionTracker.commitSession`).
            TxnBody::CreateSession { timeout_ms } if at != self.leader => {
                self.note_touch(at, txn.session_id, timeout_ms);
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

    /// Tells those who watch, and may know.
    fn notify(&mut self, at: usize, zxid: i64, change: &Change) {
        let firings = self.servers[at].watches.fire(change.event, &change.path);
        let zxid = if self.settings.version.events_carry_zxid() { zxid } else { -1 };
        for firing in firings {
            // What happens to a parent's list of children is told by the parent's ACL.
            let acl = if firing.event == change.event { &change.acl } else { &change.parent_acl };
            self.send_event(&firing, zxid, Some(acl));
        }
    }
}

/// What `/zookeeper/config` of an ensemble says.
fn config_text(servers: usize, zxid: i64) -> Bytes {
    let mut text = String::new();
    for id in 1..=servers {
        text.push_str(&format!("server.{id}=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n"));
    }
    text.push_str(&format!("version={zxid:x}"));
    text.into()
}
