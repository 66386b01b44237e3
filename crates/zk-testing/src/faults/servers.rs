//! Faults of sessions, connections and whole servers.

use std::time::Duration;

use proto::SessionId;

use crate::server::{ConnectionId, Cut, Ensemble, Switch};
use crate::transport::TestServer;

/// Some of the connections that were open when this was created.
#[derive(Clone, Debug)]
pub struct Connections {
    server: TestServer,
    ids: Vec<ConnectionId>,
}

/// Faults of sessions and nodes.
impl TestServer {
    /// Expires a session immediately, before its lease ends. Two clients may then hold a lock at once until
    /// the first sees the expiry. For the expiry of a silent client, let the time pass. Returns whether the
    /// session was alive.
    pub fn expire(&self, session_id: SessionId) -> bool {
        self.shared().with(|ensemble, now| ensemble.expire_session(now, session_id))
    }

    /// Deletes every empty container and expired TTL node now. Returns how many nodes it deleted.
    pub fn reap_containers(&self) -> usize {
        self.shared().with(Ensemble::reap_containers)
    }

    /// Sets the number of the next sequential child of a node. Returns whether the node exists.
    #[must_use = "returns false if the node does not exist"]
    pub fn set_sequence(&self, parent: &str, next: impl Into<i64>) -> bool {
        self.with(|ensemble| ensemble.set_sequence(parent, next))
    }

    /// Moves the servers' time of day by `by_ms`, forward or backward. Session expiry uses another
    /// clock.
    pub fn skew_clock(&self, by_ms: i64) {
        self.with(|ensemble| ensemble.skew_clock(by_ms));
    }
}

/// Faults of whole servers. Servers count from 0; server 0 leads until another one is elected.
impl TestServer {
    /// Cuts a follower off from its leader. The follower answers pings and reads from its old tree,
    /// and its writes and `sync`s hang. The leader expires the follower's sessions without its
    /// knowledge. After the sync limit the follower closes its client connections.
    pub fn cut_from_leader(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.cut_from_leader(now, server));
    }

    /// Elects a server as leader. The new leader and its followers close their client connections.
    /// The clocks of all sessions restart now, with the timeouts granted when the sessions were
    /// created. The old leader follows the new one. Until the first transaction, followers refuse
    /// clients that have seen the new leader's zxid.
    ///
    /// Returns false and changes nothing if the server is dead, stopped or cut off, or if it is
    /// standalone.
    #[must_use = "returns false if the server cannot lead"]
    pub fn elect(&self, server: usize) -> bool {
        self.shared().with(|ensemble, now| ensemble.elect(now, server))
    }

    /// Cuts the leader off from the other servers, which elect `successor` at once. Until the sync
    /// limit the old leader answers reads, pings, `sync`s and reconnects by itself, and its writes
    /// hang. Then it closes its client connections. It follows the successor after
    /// [`heal`](Self::heal).
    ///
    /// Returns false and changes nothing if the successor cannot lead or is the leader already.
    #[must_use = "returns false if the successor cannot lead"]
    pub fn isolate_leader(&self, successor: usize) -> bool {
        self.shared().with(|ensemble, now| ensemble.isolate_leader(now, successor))
    }

    /// Returns the number of the leader.
    #[must_use]
    pub fn leader(&self) -> usize {
        self.with(|ensemble| ensemble.leader())
    }

    /// Kills a server. Its connections break, and the touches that it has not flushed to its leader
    /// are lost. If it was the leader, no server serves clients until another one is elected or
    /// this one restarts.
    pub fn kill(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.kill(now, server));
    }

    /// Starts a killed server. It leads again if no other server was elected in the meantime.
    pub fn restart(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.restart(now, server));
    }

    /// Delays everything that a follower receives from its leader by `by`. The follower flushes its
    /// touch table late. It also applies transactions and answers `sync`s, writes and reconnects
    /// late.
    pub fn lag_flushes(&self, server: usize, by: Duration) {
        self.shared().with(|ensemble, now| ensemble.lag_flushes(now, server, by));
    }

    /// Sets the time that a leader needs for the sessions that expire at the same tick. See
    /// [`Ensemble::slow_expiry`](crate::server::Ensemble::slow_expiry).
    pub fn slow_expiry(&self, pass: Duration) {
        self.shared().with(|ensemble, now| ensemble.slow_expiry(now, pass));
    }

    /// Makes a follower apply transactions `by` later than its leader.
    pub fn lag(&self, server: usize, by: Duration) {
        self.shared().with(|ensemble, now| ensemble.lag(now, server, Some(by)));
    }

    /// Stops a follower from applying transactions until it is healed.
    pub fn freeze_view(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.lag(now, server, None));
    }

    /// Ends a cut or a lag: the server catches up and processes the requests that have waited. A
    /// server that has lost its leader in the meantime closes its connections and joins the new
    /// leader.
    pub fn heal(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.heal(now, server));
    }

    /// Stops a server like a stopped process. If it leads, its followers close their client
    /// connections after the sync limit.
    pub fn stall(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.stall(now, server));
    }

    /// Resumes a stopped server. Overdue sessions expire before it processes any request.
    pub fn resume(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.resume_server(now, server));
    }

    /// Makes a server refuse connections.
    pub fn refuse_connects(&self, server: usize) {
        self.with(|ensemble| ensemble.refuse_connects(server, Switch::On));
    }

    /// Makes a server close every connection as soon as it is accepted.
    pub fn close_on_connect(&self, server: usize) {
        self.with(|ensemble| ensemble.close_connects(server, Switch::On));
    }

    /// Makes a server accept connections again, after [`refuse_connects`](Self::refuse_connects) or
    /// [`close_on_connect`](Self::close_on_connect).
    pub fn accept_connects(&self, server: usize) {
        self.with(|ensemble| {
            ensemble.refuse_connects(server, Switch::Off);
            ensemble.close_connects(server, Switch::Off);
        });
    }

    /// Makes a server refuse the next `times` connect requests, as if the client had seen a later
    /// zxid.
    pub fn refuse_as_ahead(&self, server: usize, times: u64) {
        self.with(|ensemble| ensemble.refuse_as_ahead(server, times));
    }

    /// Makes a server read-only, as a real one is while it looks for a leader. It closes all its
    /// connections, loses its touch table, and answers reads from its tree, which no longer changes.
    /// If it led, there is no leader until another server is elected or this one is writable again.
    pub fn make_read_only(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.read_only(now, server, Switch::On));
    }

    /// Makes a read-only server writable again. It closes all its connections, and leads again or
    /// catches up with the leader.
    pub fn make_writable(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.read_only(now, server, Switch::Off));
    }
}

impl TestServer {
    /// Returns all open connections.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let ids = self.with(|ensemble| ensemble.connections());
        Connections { server: self.clone(), ids }
    }

    /// Returns the connection of a session, or an empty set if it has none.
    #[must_use]
    pub fn connection_of(&self, session_id: SessionId) -> Connections {
        let id = self.with(|ensemble| ensemble.connection_of(session_id));
        Connections { server: self.clone(), ids: id.into_iter().collect() }
    }
}

impl Connections {
    /// Returns the number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Returns their ids, oldest first.
    #[must_use]
    pub fn ids(&self) -> &[ConnectionId] {
        &self.ids
    }

    /// Stops all bytes in both directions until [`resume`](Self::resume).
    ///
    /// The session does not expire by this alone, because its client opens another connection. Refuse
    /// connects as well to let it expire.
    pub fn stall(&self) {
        self.server.with(|ensemble| self.ids.iter().for_each(|id| ensemble.stall_connection(*id)));
    }

    /// Delivers the bytes that have waited and continues.
    pub fn resume(&self) {
        self.server.shared().with(|ensemble, now| {
            self.ids.iter().for_each(|id| ensemble.resume_connection(now, *id));
        });
    }

    /// Breaks the connections.
    pub fn cut(&self, how: Cut) {
        self.server.shared().with(|ensemble, now| {
            self.ids.iter().for_each(|id| ensemble.cut_connection(now, *id, how));
        });
    }
}
