//! What is really the case: for oracles, which see past every fault.

use super::Ensemble;
use super::connection::ConnectionId;
use super::observer::{Commit, Observer};
use super::sessions::SessionInfo;
use super::tree::Tree;

impl Ensemble {
    /// The tree of the leader: every transaction is in it.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.servers[self.leader].tree
    }

    /// The tree of one server, which may be behind; `None` if there is no such server.
    #[must_use]
    pub fn tree_of(&self, server: usize) -> Option<&Tree> {
        self.servers.get(server).map(|server| &server.tree)
    }

    /// The sessions that are alive, by id, as the leader knows them.
    pub fn sessions(&self) -> impl Iterator<Item = SessionInfo> {
        self.sessions.iter()
    }

    /// Whether a session is alive.
    #[must_use]
    pub fn is_alive(&self, session_id: i64) -> bool {
        self.sessions.contains(session_id)
    }

    /// The zxid of the last transaction.
    #[must_use]
    pub fn zxid(&self) -> i64 {
        self.zxid
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The connections that are open, oldest first.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The connection a session has at the moment, if it has one.
    #[must_use]
    pub fn connection_of(&self, session_id: i64) -> Option<ConnectionId> {
        self.servers.iter().find_map(|server| server.connections.get(&session_id).copied())
    }

    /// Whether bytes pass on a connection: neither it nor its server is stopped, and the server has
    /// not gone silent on it.
    #[must_use]
    pub fn is_passable(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let is_stopped = connection.stalled || self.servers[connection.server].stalled;
            !is_stopped && !connection.is_deaf()
        })
    }

    /// How many watches all connections of a server have armed.
    #[must_use]
    pub fn watches(&self, server: usize) -> usize {
        self.servers.get(server).map_or(0, |server| server.watches.len())
    }

    /// Has `told` called with the leader's tree for every transaction from now on, right after the
    /// leader has applied it, and before anybody else hears of it. It takes the place of the one
    /// before.
    ///
    /// The servers stand still meanwhile: `told` must not use a handle or a stream.
    pub fn observe(&mut self, told: impl FnMut(&Tree, Commit<'_>) + Send + 'static) {
        self.observer = Some(Observer::new(told));
    }
}
