//! Read access to the real state of the servers, regardless of faults: for oracles.

use std::time::Instant;

use proto::{SessionId, Zxid};

use super::Ensemble;
use super::connection_id::ConnectionId;
use super::observer::{Commit, Observer, SessionStep, StepObserver};
use super::sessions::SessionInfo;
use super::tree::Tree;
use super::watches::{WatchMode, WatchTable};

impl Ensemble {
    /// Returns the tree of the leader, which contains every transaction.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.servers[self.leader].tree
    }

    /// Returns the tree of one server, which may lag. `None` if there is no such server.
    #[must_use]
    pub fn tree_of(&self, server: usize) -> Option<&Tree> {
        self.servers.get(server).map(|server| &server.tree)
    }

    /// Returns the live sessions by id, as the leader tracks them.
    pub fn sessions(&self) -> impl Iterator<Item = SessionInfo> {
        self.sessions.iter()
    }

    /// Returns whether a session is alive.
    #[must_use]
    pub fn is_alive(&self, session_id: SessionId) -> bool {
        self.sessions.contains(session_id)
    }

    /// Returns the zxid of the last transaction.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns the open connections, oldest first.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the current connection of a session, if it has one.
    #[must_use]
    pub fn connection_of(&self, session_id: SessionId) -> Option<ConnectionId> {
        self.servers.iter().find_map(|server| server.connections.get(&session_id).copied())
    }

    /// Returns whether a connection transfers bytes: neither it nor its server is stopped, and the
    /// server has not cut it silently.
    #[must_use]
    pub fn is_passable(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let is_stopped = connection.stalled || self.servers[connection.server].stalled;
            !is_stopped && !connection.is_deaf()
        })
    }

    /// Returns the number of watches set by all connections of a server.
    #[must_use]
    pub fn watches(&self, server: usize) -> usize {
        self.servers.get(server).map_or(0, |server| server.watches.len())
    }

    /// Returns whether a connection has a watch of this mode on a path, in this table of its server.
    #[must_use]
    pub fn has_watch(
        &self,
        id: ConnectionId,
        path: &str,
        table: WatchTable,
        mode: WatchMode,
    ) -> bool {
        let server = self.connections.get(&id).map(|connection| connection.server);
        server.is_some_and(|at| self.servers[at].watches.has(table, path, id, mode))
    }

    /// Calls `told` for every later transaction, with the leader's tree. The call happens right
    /// after the leader has applied the transaction, before any watch fires or reply is sent. A
    /// second call replaces the first observer.
    ///
    /// The servers are locked during the call: `told` must not use a handle or a stream.
    pub fn observe(&mut self, told: impl FnMut(&Tree, Commit<'_>) + Send + 'static) {
        self.observer = Some(Observer::new(told));
    }

    /// Calls `told` for every later step of the servers with a session, with the time of the step. The rules
    /// of [`observe`](Self::observe) apply.
    pub fn observe_sessions(&mut self, told: impl FnMut(Instant, SessionStep) + Send + 'static) {
        self.step_observer = Some(StepObserver::new(told));
    }

    pub(super) fn tell_step(&mut self, step: SessionStep) {
        if let Some(observer) = &mut self.step_observer {
            observer.tell(self.now, step);
        }
    }
}
