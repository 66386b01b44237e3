//! Faults of sessions, connections and whole servers.

use std::time::Duration;

use crate::server::{ConnectionId, Cut, Ensemble, Switch};
use crate::transport::TestServer;

/// Some of the connections that are open at the moment.
#[derive(Clone, Debug)]
pub struct Connections {
    server: TestServer,
    ids: Vec<ConnectionId>,
}

/// Sessions and nodes.
impl TestServer {
    /// Ends a session now, as if nothing had been heard of it; whether it was alive.
    pub fn expire(&self, session_id: i64) -> bool {
        self.shared().with(|ensemble, now| ensemble.expire_session(now, session_id))
    }

    /// Deletes every empty container and outlived TTL node now; how many.
    pub fn reap_containers(&self) -> usize {
        self.shared().with(Ensemble::reap_containers)
    }

    /// Sets the number that the next sequential child of a node gets; whether there is the node.
    pub fn set_sequence(&self, parent: &str, next: i32) -> bool {
        self.with(|ensemble| ensemble.set_sequence(parent, next))
    }

    /// Puts the servers' time of day forward, or back. Sessions go by another clock.
    pub fn skew_clock(&self, by_ms: i64) {
        self.with(|ensemble| ensemble.skew_clock(by_ms));
    }
}

/// Whole servers, counted from 0, which leads until another one is elected.
impl TestServer {
    /// Cuts a follower off from its leader. It answers pings and reads, from an old tree; its
    /// writes and `sync`s hang; its sessions expire behind its back, and after the sync limit it
    /// drops its clients.
    pub fn cut_from_leader(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.cut_from_leader(now, server));
    }

    /// Makes a server the leader, as an election does: it and its followers close their client
    /// connections, and it counts the timeouts of all sessions from now on, as they were granted
    /// when the sessions were created. The old leader follows it.
    ///
    /// False, and nothing happens, if the server is dead, stopped or cut off, or on its own.
    pub fn elect(&self, server: usize) -> bool {
        self.shared().with(|ensemble, now| ensemble.elect(now, server))
    }

    /// Cuts the leader off from the other servers, which elect a successor at once. Until the sync
    /// limit the old leader answers reads, pings, `sync`s and reconnects by itself, and its writes
    /// hang; then it closes its client connections. It follows the successor once it is healed.
    ///
    /// False, and nothing happens, if the successor cannot lead, or is the leader.
    pub fn isolate_leader(&self, successor: usize) -> bool {
        self.shared().with(|ensemble, now| ensemble.isolate_leader(now, successor))
    }

    /// The server that leads.
    #[must_use]
    pub fn leader(&self) -> usize {
        self.with(|ensemble| ensemble.leader())
    }

    /// Kills a server: its connections break, and it takes the touches along that it has not told
    /// its leader. If it led, nobody is served until another server is elected or it is restarted.
    pub fn kill(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.kill(now, server));
    }

    /// Starts a server that was killed. It leads again if no other was elected meanwhile.
    pub fn restart(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.restart(now, server));
    }

    /// Lets a follower handle what its leader sends this much later: it flushes its touch table
    /// late, and it applies transactions and answers `sync`s, writes and reconnects late.
    pub fn lag_flushes(&self, server: usize, by: Duration) {
        self.shared().with(|ensemble, now| ensemble.lag_flushes(now, server, by));
    }

    /// Lets a follower apply transactions this much later than its leader.
    pub fn lag(&self, server: usize, by: Duration) {
        self.shared().with(|ensemble, now| ensemble.lag(now, server, Some(by)));
    }

    /// Lets a follower apply nothing any more, until it is healed.
    pub fn freeze_view(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.lag(now, server, None));
    }

    /// Ends a cut or a lag: the server catches up, and goes on with what has waited. A server that
    /// has lost its leader meanwhile closes its connections, and starts anew.
    pub fn heal(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.heal(now, server));
    }

    /// Stops a server like a process.
    pub fn stall(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.stall(now, server));
    }

    /// Lets a stalled server go on. Sessions that are overdue expire first.
    pub fn resume(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.resume_server(now, server));
    }

    /// Makes a server refuse connections.
    pub fn refuse_connects(&self, server: usize) {
        self.with(|ensemble| ensemble.refuse_connects(server, Switch::On));
    }

    /// Makes a server close connections as soon as they are made.
    pub fn close_on_connect(&self, server: usize) {
        self.with(|ensemble| ensemble.close_connects(server, Switch::On));
    }

    /// Makes a server take connections again, after either of these.
    pub fn accept_connects(&self, server: usize) {
        self.with(|ensemble| {
            ensemble.refuse_connects(server, Switch::Off);
            ensemble.close_connects(server, Switch::Off);
        });
    }

    /// Makes a server refuse the next connect requests as if the client had seen a later zxid.
    pub fn refuse_as_ahead(&self, server: usize, times: u64) {
        self.with(|ensemble| ensemble.refuse_as_ahead(server, times));
    }

    /// Makes a server read-only, as if it had lost its quorum. It closes all its connections.
    pub fn make_read_only(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.read_only(now, server, Switch::On));
    }

    /// Makes a read-only server a normal one again. It closes all its connections.
    pub fn make_writable(&self, server: usize) {
        self.shared().with(|ensemble, now| ensemble.read_only(now, server, Switch::Off));
    }
}

impl TestServer {
    /// All connections that are open now.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let ids = self.with(|ensemble| ensemble.connections());
        Connections { server: self.clone(), ids }
    }

    /// The connection of a session: one, or none.
    #[must_use]
    pub fn connection_of(&self, session_id: i64) -> Connections {
        let id = self.with(|ensemble| ensemble.connection_of(session_id));
        Connections { server: self.clone(), ids: id.into_iter().collect() }
    }
}

impl Connections {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Which they are, oldest first.
    #[must_use]
    pub fn ids(&self) -> &[ConnectionId] {
        &self.ids
    }

    /// Nothing passes, either way, until they are resumed.
    pub fn stall(&self) {
        self.server.with(|ensemble| self.ids.iter().for_each(|id| ensemble.stall_connection(*id)));
    }

    /// Everything that has piled up passes.
    pub fn resume(&self) {
        self.server.shared().with(|ensemble, now| {
            self.ids.iter().for_each(|id| ensemble.resume_connection(now, *id));
        });
    }

    /// Breaks them.
    pub fn cut(&self, how: Cut) {
        self.server.shared().with(|ensemble, now| {
            self.ids.iter().for_each(|id| ensemble.cut_connection(now, *id, how));
        });
    }
}
