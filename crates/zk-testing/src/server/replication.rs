//! How transactions get from the leader to every server.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::apply::Change;
use super::connection::{ConnectionId, Ticket};
use super::faults::Cut;
use super::hash::FastMap;
use super::settings::Settings;
use super::tree::Tree;
use super::txn::{Txn, TxnBody};
use super::watches::Watches;
use super::{Ensemble, LEADER};

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
    /// How long after the leader a transaction is applied; `None` is not until told otherwise.
    pub(crate) lag: Option<Duration>,
    /// Connections that wait for a place of the log to be applied.
    pub(crate) syncs: VecDeque<(u64, ConnectionId)>,
    /// Sessions heard of while the leader could not be told.
    pub(crate) touched: BTreeSet<i64>,
    /// Does nothing at all, like a stopped process.
    pub(crate) stalled: bool,
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

/// A follower's way to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Nothing gets through, which the follower has not noticed yet.
    Cut {
        /// When it will notice.
        until: Instant,
        /// What it takes itself for.
        role: Role,
    },
    /// The follower serves nobody.
    Down,
}

/// What a server that is cut off takes itself for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Follower,
    /// It led until the others elected another. It answers `sync` by itself.
    Leader,
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
            lag: Some(Duration::ZERO),
            syncs: VecDeque::new(),
            touched: BTreeSet::new(),
            stalled: false,
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
        at == LEADER || (self.servers[at].link == Link::Up && !self.servers[LEADER].stalled)
    }

    /// Whether a server answers `sync` without asking anybody, since it leads, or thinks so.
    pub(super) fn syncs_alone(&self, at: usize) -> bool {
        at == LEADER || matches!(self.servers[at].link, Link::Cut { role: Role::Leader, .. })
    }

    /// Gives a transaction its zxid and time, and has every server apply it that can.
    pub(super) fn commit(&mut self, session_id: i64, body: TxnBody, origin: Option<Origin>) {
        self.zxid += 1;
        let time_ms = self.clock.wall_ms(self.now);
        let txn = Txn { zxid: self.zxid, time_ms, session_id, body };
        if self.servers.len() == 1 {
            self.apply_at(LEADER, &txn, origin);
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
                self.servers[server].applied += 1;
                let here = entry.origin.filter(|origin| {
                    let connection = self.connections.get(&origin.connection());
                    connection.is_some_and(|connection| connection.server == server)
                });
                self.apply_at(server, &entry.txn, here);
            }
        }
        let slowest = self.servers.iter().map(|server| server.applied).min();
        self.log.forget_before(slowest.unwrap_or(0));
    }

    /// The next transaction a server can apply now.
    fn applicable(&self, at: usize) -> Option<Arc<Entry>> {
        let server = &self.servers[at];
        let entry = self.log.entry(server.applied)?;
        if at == LEADER {
            return Some(Arc::clone(entry));
        }
        let due = server.lag.and_then(|lag| entry.committed.checked_add(lag));
        let ready = server.link == Link::Up && !server.stalled;
        (ready && due.is_some_and(|due| due <= self.now)).then(|| Arc::clone(entry))
    }

    /// When a lagging server applies its next transaction, or a cut one gives up.
    pub(super) fn next_replication(&self) -> Option<Instant> {
        if self.servers.len() == 1 {
            return None;
        }
        let due =
            self.servers.iter().enumerate().skip(1).filter_map(|(_, server)| match server.link {
                _ if server.stalled => None,
                Link::Cut { until, .. } => Some(until),
                Link::Down => None,
                Link::Up => self.log.entry(server.applied)?.committed.checked_add(server.lag?),
            });
        due.min()
    }

    /// Followers that have been cut off for too long drop their clients.
    pub(super) fn give_up_on_the_leader(&mut self) {
        for at in 1..self.servers.len() {
            let server = &self.servers[at];
            let Link::Cut { until, .. } = server.link else { continue };
            if until <= self.now && !server.stalled {
                self.servers[at].link = Link::Down;
                self.close_all_at(at);
            }
        }
    }

    pub(super) fn close_all_at(&mut self, server: usize) {
        let here = self.connections.iter().filter(|(_, connection)| connection.server == server);
        let mut ids: Vec<ConnectionId> = here.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        for id in ids {
            self.close(id, Cut::Fin);
        }
    }

    /// Lets a follower reach its leader again, and go on with what has waited.
    pub(super) fn relink(&mut self, at: usize) {
        if matches!(self.servers[at].link, Link::Cut { role: Role::Leader, .. }) {
            // It becomes a follower: nothing of what it thought it knew remains.
            self.servers[at].touched.clear();
            self.close_all_at(at);
        }
        self.servers[at].link = Link::Up;
        self.catch_up_all();
        self.pass_on_touches(at);
        self.resume_all_at(at);
    }

    /// Tells the leader of the sessions that were heard of while it could not be told.
    pub(super) fn pass_on_touches(&mut self, at: usize) {
        if !self.reaches_leader(at) {
            return;
        }
        for session_id in std::mem::take(&mut self.servers[at].touched) {
            self.sessions.touch(self.now, &self.clock, session_id);
        }
    }

    /// Looks at every connection of a server again.
    pub(super) fn resume_all_at(&mut self, server: usize) {
        let here = self.connections.iter().filter(|(_, connection)| connection.server == server);
        let mut ids: Vec<ConnectionId> = here.map(|(id, _)| *id).collect();
        ids.sort_unstable();
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
        if let (LEADER, Some(observer)) = (at, &mut self.observer) {
            observer.tell(&server.tree, txn);
        }
        for change in changes.into_iter().flatten() {
            self.notify(at, txn.zxid, &change);
        }
        let closed = match txn.body {
            TxnBody::CloseSession { .. } => {
                self.servers[at].connections.get(&txn.session_id).copied()
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
        self.wake_syncs(at);
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

    /// Lets connections go on whose `sync` has been caught up with.
    fn wake_syncs(&mut self, at: usize) {
        let server = &mut self.servers[at];
        while let Some(&(place, id)) = server.syncs.front()
            && place <= server.applied
        {
            server.syncs.pop_front();
            self.resumable.push_back(id);
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
