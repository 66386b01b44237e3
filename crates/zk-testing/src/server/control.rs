//! Fault injection and administration of an [`Ensemble`].

use std::time::{Duration, Instant};

use proto::SessionId;

use super::Ensemble;
#[cfg(feature = "tls")]
use super::acl::Identity;
use super::connection_id::ConnectionId;
use super::faults::{Cut, Rule, RuleId};
use super::learners::Pings;
use super::link::Link;
use super::observer::CloseCause;

impl Ensemble {
    /// Adds a fault.
    ///
    /// # Panics
    ///
    /// Panics if the action has no effect on the target: [`Action::Answer`](super::Action::Answer) and
    /// [`ApplyThenExpire`](super::Action::ApplyThenExpire) on connects and notifications, and
    /// [`CutRequest`](super::Action::CutRequest) on notifications.
    pub fn add_rule(&mut self, rule: Rule) -> RuleId {
        self.faults.add(rule)
    }

    /// Adds the scheme `x509`, as a port does that asks clients for certificates.
    #[cfg(feature = "tls")]
    pub(crate) fn add_x509(&mut self) {
        self.settings.has_x509 = true;
    }

    /// Gives a connection the identity of the certificate that its client has presented.
    #[cfg(feature = "tls")]
    pub(crate) fn identify(&mut self, id: ConnectionId, subject: &str) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.identities.push(Identity { scheme: "x509", id: subject.to_owned() });
        }
    }

    /// Removes a fault.
    pub fn remove_rule(&mut self, id: RuleId) {
        self.faults.remove(id);
    }

    /// Removes all faults that were added as rules.
    pub fn clear_rules(&mut self) {
        self.faults.clear();
    }

    /// Returns how often a fault has taken effect.
    #[must_use]
    pub fn rule_count(&self, id: RuleId) -> u64 {
        self.faults.done(id)
    }

    /// Expires a session now. Returns whether it was alive.
    pub fn expire_session(&mut self, now: Instant, session_id: SessionId) -> bool {
        self.advance(now);
        let was_alive = self.sessions.contains(session_id);
        self.end_session(session_id, CloseCause::Forced);
        self.settle();
        was_alive
    }

    /// Deletes every container and TTL node that is due. Returns how many nodes it deleted.
    pub fn reap_containers(&mut self, now: Instant) -> usize {
        self.advance(now);
        let count = self.reap();
        self.settle();
        count
    }

    /// Sets the number of the next sequential child of a node. Returns whether the node exists.
    pub fn set_sequence(&mut self, parent: &str, next: impl Into<i64>) -> bool {
        let (mut is_there, next) = (true, next.into());
        for server in &mut self.servers {
            is_there &= server.tree.set_sequence(parent, next);
        }
        is_there
    }

    /// Sets the version of a node's data, for tests of its wrap around after `2^32` changes. Returns
    /// whether the node exists.
    pub fn set_data_version(&mut self, path: &str, version: i32) -> bool {
        let mut is_there = true;
        for server in &mut self.servers {
            is_there &= server.tree.set_data_version(path, version);
        }
        is_there
    }

    /// Moves the servers' time of day by `by_ms`, forward or backward. It determines ctime, mtime
    /// and the age of TTL nodes. Session expiry uses another clock.
    pub fn skew_clock(&mut self, by_ms: i64) {
        self.clock.skew(by_ms);
    }

    /// Cuts a follower off from its leader. It answers pings and reads, and its writes and `sync`s
    /// hang. The leader expires its sessions without its knowledge. After the sync limit the
    /// follower closes its client connections.
    pub fn cut_from_leader(&mut self, now: Instant, server: usize) {
        self.advance(now);
        self.handle_all_pings();
        let until = self.now + self.settings.tick(server) * self.settings.sync_limit;
        if server != self.leader {
            let server = self.servers.get_mut(server);
            if let Some(server) = server
                .filter(|server| !server.killed && !server.read_only && server.isolated.is_none())
            {
                server.link = Link::Cut { until };
            }
        }
    }

    /// Makes a follower apply transactions `by` later than the leader. `None` stops it until it is
    /// healed. It answers its clients' writes once it has applied them. Its touch table is not
    /// delayed: see [`lag_flushes`](Self::lag_flushes).
    pub fn lag(&mut self, now: Instant, server: usize, by: Option<Duration>) {
        self.advance(now);
        if let Some(server) = self.servers.get_mut(server) {
            server.lag = by;
            self.catch_up_all();
            self.settle();
        }
    }

    /// Delays everything that a follower receives from its leader by `by`. The follower flushes its
    /// touch table late. It also applies transactions and answers `sync`s, writes and reconnects
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

    /// Sets the time that a leader needs for the sessions that expire at the same tick.
    ///
    /// A leader takes all of these sessions at once, and then closes one after the other. Until its turn
    /// comes, a session answers all requests, and none of them saves it. The last one is closed at the
    /// end of this time.
    pub fn slow_expiry(&mut self, now: Instant, pass: Duration) {
        self.advance(now);
        self.expiry_pass = pass;
    }

    /// Ends every cut and lag of a server: it catches up and processes the requests that have
    /// waited.
    pub fn heal(&mut self, now: Instant, server: usize) {
        self.advance(now);
        if let Some(healed) = self.servers.get_mut(server) {
            (healed.lag, healed.learner_lag) = (Some(Duration::ZERO), Duration::ZERO);
            if !healed.read_only {
                self.relink(server);
            }
        }
    }

    /// Stops a server like a stopped process: it reads nothing, sends nothing and runs no timer. If
    /// it leads, its followers close their client connections after the sync limit.
    pub fn stall(&mut self, now: Instant, server: usize) {
        self.advance(now);
        self.handle_all_pings();
        if let Some(server) =
            self.servers.get_mut(server).filter(|server| !server.killed && !server.stalled)
        {
            server.stalled = true;
            server.stalled_since = Some(self.now);
        }
    }

    /// Resumes a stopped server. A leader first processes the passed time: overdue sessions expire
    /// before it reads the bytes that have arrived, and then it pings its followers. The followers
    /// that have given it up rejoin first. A follower answers the pings that have queued up, with its
    /// touches from before the stop. If the leader has changed or has dropped the follower
    /// (`LearnerMaster.syncTimeout`), the follower rejoins instead.
    pub fn resume_server(&mut self, now: Instant, server: usize) {
        self.advance(now);
        let Some(resumed) = self.servers.get_mut(server).filter(|server| server.stalled) else {
            return;
        };
        resumed.stalled = false;
        let since = resumed.stalled_since.take().unwrap_or(self.now);
        if let Link::Cut { until } = &mut resumed.link {
            // The server checks its followers, or its leader, every half tick. It notices an
            // overdue cut at the first check after it resumes.
            *until = (*until).max(self.now + self.settings.tick(server) / 2);
        }
        let leader = self.leader;
        let is_up = self.servers[server].link == Link::Up;
        if server == leader {
            self.expire_sessions();
            self.pings = Pings::overdue(self.now, self.settings.tick(server));
            self.servers.iter_mut().for_each(|server| server.pings_handled = 0);
            for follower in self.others() {
                let server = &self.servers[follower];
                // Others rejoin when they are healed, or can be written to again.
                if server.has_given_up && server.link == Link::Up && !server.read_only {
                    self.rejoin(follower);
                }
            }
            self.handle_all_pings();
        } else if is_up {
            let limit = self.settings.tick(leader) * self.settings.sync_limit;
            let was_given_up = self.now.duration_since(since) >= limit;
            let has_lost_it = self.servers[server].epoch != self.epoch || was_given_up;
            if has_lost_it || !self.leads() {
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

    /// Stops all bytes of a connection in both directions until it is resumed.
    pub fn stall_connection(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stalled = true;
        }
    }

    /// Resumes a stopped connection and delivers the bytes that have waited.
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

    /// Makes a server refuse connections, or accept them again.
    pub fn refuse_connects(&mut self, server: usize, refuse: Switch) {
        if let Some(server) = self.servers.get_mut(server) {
            server.refuses_connects = refuse == Switch::On;
        }
    }

    /// Makes a server close every connection as soon as it is accepted, or serve connections again.
    pub fn close_connects(&mut self, server: usize, close: Switch) {
        if let Some(server) = self.servers.get_mut(server) {
            server.closes_connects = close == Switch::On;
        }
    }

    /// Makes a server refuse the next `times` connect requests, as if the client had seen a later
    /// zxid than the server. It closes the connection without a reply.
    pub fn refuse_as_ahead(&mut self, server: usize, times: u64) {
        if let Some(server) = self.servers.get_mut(server) {
            server.ahead = times;
        }
    }
}

/// State of a fault.
// Closed: a fault is in force or it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The fault is in force.
    On,
    /// The fault is not in force.
    Off,
}
