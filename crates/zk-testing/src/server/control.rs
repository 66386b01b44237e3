//! Breaking the servers on purpose.

use std::time::{Duration, Instant};

use super::connection::ConnectionId;
use super::faults::{Cut, Rule, RuleId};
use super::replication::{Link, Role};
use super::{Ensemble, LEADER};

impl Ensemble {
    /// Puts a fault in force.
    pub fn add_rule(&mut self, rule: Rule) -> RuleId {
        self.faults.add(rule)
    }

    /// Takes a fault out of force.
    pub fn remove_rule(&mut self, id: RuleId) {
        self.faults.remove(id);
    }

    /// Takes all faults that were added as rules out of force.
    pub fn clear_rules(&mut self) {
        self.faults.clear();
    }

    /// How often a fault has happened.
    #[must_use]
    pub fn rule_count(&self, id: RuleId) -> u64 {
        self.faults.done(id)
    }

    /// Ends a session, as if nothing had been heard of it; whether it was alive.
    pub fn expire_session(&mut self, now: Instant, session_id: i64) -> bool {
        self.advance(now);
        let was_alive = self.sessions.contains(session_id);
        self.end_session(session_id, None);
        self.settle();
        was_alive
    }

    /// Deletes every container and TTL node that is due; how many.
    pub fn reap_containers(&mut self, now: Instant) -> usize {
        self.advance(now);
        let count = self.reap();
        self.settle();
        count
    }

    /// Sets the number that the next sequential child of a node gets; whether there is the node.
    pub fn set_sequence(&mut self, parent: &str, next: i32) -> bool {
        let mut is_there = true;
        for server in &mut self.servers {
            is_there &= server.tree.set_sequence(parent, next);
        }
        is_there
    }

    /// Puts the servers' time of day forward, or back: what becomes ctime and mtime, and what TTL
    /// nodes age by. Sessions go by another clock.
    pub fn skew_clock(&mut self, by_ms: i64) {
        self.clock.skew(by_ms);
    }

    /// Cuts a follower off from its leader. It answers pings and reads; its writes and `sync`s
    /// hang; its sessions expire behind its back, and after the sync limit it drops its clients.
    pub fn cut_from_leader(&mut self, now: Instant, server: usize) {
        self.advance(now);
        self.cut(server, Role::Follower);
    }

    /// Makes a server one that led until now, and has lost the others, which go on with server 0
    /// as their new leader. It answers pings, reads and `sync`s by itself; its writes hang; after
    /// the sync limit it notices, and drops its clients. The new leader counts the timeouts of all
    /// sessions from now on.
    pub fn depose(&mut self, now: Instant, server: usize) {
        self.advance(now);
        if self.cut(server, Role::Leader) {
            self.sessions.touch_all(self.now, &self.clock);
        }
    }

    fn cut(&mut self, server: usize, role: Role) -> bool {
        let can_be_cut = server != LEADER && server < self.servers.len();
        if can_be_cut {
            let until = self.now + self.settings.tick_time * self.settings.sync_limit;
            self.servers[server].link = Link::Cut { until, role };
        }
        can_be_cut
    }

    /// Lets a follower apply transactions this much later than the leader; `None` is not until it
    /// is healed. Its clients' writes are answered when it has applied them.
    pub fn lag(&mut self, now: Instant, server: usize, by: Option<Duration>) {
        self.advance(now);
        if server != LEADER && server < self.servers.len() {
            self.servers[server].lag = by;
            self.catch_up_all();
            self.settle();
        }
    }

    /// Ends every cut and lag of a server: it catches up, and goes on with what has waited.
    pub fn heal(&mut self, now: Instant, server: usize) {
        self.advance(now);
        if server < self.servers.len() {
            self.servers[server].lag = Some(Duration::ZERO);
            self.relink(server);
        }
    }

    /// Stops a server like a process: nothing is read, sent or timed until it is resumed.
    pub fn stall(&mut self, now: Instant, server: usize) {
        self.advance(now);
        if let Some(server) = self.servers.get_mut(server) {
            server.stalled = true;
        }
    }

    /// Lets a stalled server go on. First it sees how late it is: sessions expire before anything
    /// that has arrived meanwhile is read.
    pub fn resume_server(&mut self, now: Instant, server: usize) {
        self.now = self.now.max(now);
        let Some(stalled) = self.servers.get_mut(server) else { return };
        stalled.stalled = false;
        self.advance(now);
        self.catch_up_all();
        let all = if server == LEADER { 0..self.servers.len() } else { server..server + 1 };
        for server in all {
            self.pass_on_touches(server);
            self.resume_all_at(server);
        }
    }

    /// Stops a connection: nothing passes, either way, until it is resumed.
    pub fn stall_connection(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stalled = true;
        }
    }

    /// Lets a stalled connection go on with everything that has piled up.
    pub fn resume_connection(&mut self, now: Instant, id: ConnectionId) {
        self.advance(now);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stalled = false;
            self.list(id);
            self.resume(id);
            self.settle();
        }
    }

    /// Breaks a connection.
    pub fn cut_connection(&mut self, now: Instant, id: ConnectionId, how: Cut) {
        self.advance(now);
        self.close(id, how);
    }

    /// Makes a server refuse connections, or take them again.
    pub fn refuse_connects(&mut self, server: usize, refuse: Switch) {
        if let Some(server) = self.servers.get_mut(server) {
            server.refuses_connects = refuse == Switch::On;
        }
    }

    /// Makes a server close connections as soon as they are made, or not any more.
    pub fn close_connects(&mut self, server: usize, close: Switch) {
        if let Some(server) = self.servers.get_mut(server) {
            server.closes_connects = close == Switch::On;
        }
    }

    /// Makes a server refuse this many connect requests as if the client had seen a later zxid
    /// than the server: it closes the connection without a word.
    pub fn refuse_as_ahead(&mut self, server: usize, times: u64) {
        if let Some(server) = self.servers.get_mut(server) {
            server.ahead = times;
        }
    }

    /// Makes a server read-only, as if it had lost its quorum, or a normal one again. Either way
    /// it closes all its connections.
    pub fn read_only(&mut self, now: Instant, server: usize, read_only: Switch) {
        self.advance(now);
        if server < self.servers.len() {
            self.servers[server].read_only = read_only == Switch::On;
            self.servers[server].local_sessions.clear();
            self.close_all_at(server);
        }
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// From now on.
    On,
    /// Not any more.
    Off,
}
