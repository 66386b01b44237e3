//! Breaking the servers on purpose.

use std::time::{Duration, Instant};

use super::Ensemble;
use super::connection::ConnectionId;
use super::faults::{Cut, Rule, RuleId};
use super::learners::Pings;
use super::replication::Link;

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
        self.handle_all_pings();
        let until = self.now + self.settings.tick(server) * self.settings.sync_limit;
        if server != self.leader
            && let Some(server) = self.servers.get_mut(server).filter(|it| !it.killed)
            && server.isolated.is_none()
        {
            server.link = Link::Cut { until };
        }
    }

    /// Lets a follower apply transactions this much later than the leader; `None` is not until it
    /// is healed. Its clients' writes are answered when it has applied them. Its touch table is
    /// not late: see [`lag_flushes`](Self::lag_flushes).
    pub fn lag(&mut self, now: Instant, server: usize, by: Option<Duration>) {
        self.advance(now);
        if let Some(server) = self.servers.get_mut(server) {
            server.lag = by;
            self.catch_up_all();
            self.settle();
        }
    }

    /// Lets a follower handle everything that its leader sends it this much later: its touch table
    /// is flushed late, and it applies transactions and answers `sync`s, writes and reconnects
    /// late.
    pub fn lag_flushes(&mut self, now: Instant, server: usize, by: Duration) {
        self.advance(now);
        self.handle_all_pings();
        if let Some(server) = self.servers.get_mut(server) {
            server.learner_lag = by;
            self.handle_all_pings();
            self.catch_up_all();
            self.settle();
        }
    }

    /// Ends every cut and lag of a server: it catches up, and goes on with what has waited.
    pub fn heal(&mut self, now: Instant, server: usize) {
        self.advance(now);
        if let Some(healed) = self.servers.get_mut(server) {
            (healed.lag, healed.learner_lag) = (Some(Duration::ZERO), Duration::ZERO);
            self.relink(server);
        }
    }

    /// Stops a server like a process: nothing is read, sent or timed until it is resumed.
    pub fn stall(&mut self, now: Instant, server: usize) {
        self.advance(now);
        self.handle_all_pings();
        if let Some(server) = self.servers.get_mut(server).filter(|it| !it.killed && !it.stalled) {
            server.stalled = true;
            server.stalled_since = Some(self.now);
        }
    }

    /// Lets a stalled server go on. A leader first sees how late it is: sessions expire before
    /// anything that has arrived meanwhile is read, and then it pings its followers. A follower
    /// answers the pings that have piled up, with the touches of before; if its leader is another
    /// one by now, or has given it up (`LearnerMaster.syncTimeout`), it starts anew instead.
    pub fn resume_server(&mut self, now: Instant, server: usize) {
        self.advance(now);
        let Some(resumed) = self.servers.get_mut(server).filter(|it| it.stalled) else { return };
        resumed.stalled = false;
        let since = resumed.stalled_since.take().unwrap_or(self.now);
        if let Link::Cut { until } = &mut resumed.link {
            // It looks at its followers, or its leader, half a tick later at the latest.
            *until = (*until).max(self.now + self.settings.tick(server) / 2);
        }
        let leader = self.leader;
        let is_up = self.servers[server].link == Link::Up;
        if server == leader {
            self.expire_sessions();
            self.pings = Pings::overdue(self.now, self.settings.tick(server));
            self.servers.iter_mut().for_each(|server| server.pings_handled = 0);
            self.handle_all_pings();
        } else if is_up {
            let limit = self.settings.tick(leader) * self.settings.sync_limit;
            let was_given_up = self.now.duration_since(since) >= limit;
            let has_lost_it = self.servers[server].epoch != self.epoch || was_given_up;
            if has_lost_it || self.servers[leader].killed {
                self.rejoin(server);
            }
            self.handle_pings(server);
        }
        self.advance(now);
        self.catch_up_all();
        let all = if server == leader { 0..self.servers.len() } else { server..server + 1 };
        for server in all {
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
