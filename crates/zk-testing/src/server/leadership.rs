//! Leadership: elections, partitions, crashes and restarts.
//!
//! An election happens when a test requests it, and takes no time. Its consequences are those of a
//! real ensemble:
//!
//! * A new leader restarts the clock of every session when it starts, with the timeout of the
//!   `createSession` transaction. In a real server, the constructor of `SessionTrackerImpl` does
//!   this with the timeouts that `ZKDatabase` has read from the log.
//! * A server that changes its leader closes all its client connections and loses its touch table
//!   (`Learner.shutdown`, `LearnerZooKeeperServer.createSessionTracker`).
//! * Zxids continue in a new epoch. The leader has its first zxid at once (`Leader.startZkServer`).
//!   Its followers have it with the first transaction. Until then they refuse clients of the leader.

use std::time::Instant;

use proto::Zxid;

use super::Ensemble;
use super::connection_id::ConnectionId;
use super::control::Switch;
use super::faults::Cut;
use super::learners::Pings;
use super::link::Link;
use super::observer::SessionStep;

impl Ensemble {
    /// Returns the server that leads, or that led last if it is dead. A standalone server is its
    /// own leader.
    #[must_use]
    pub fn leader(&self) -> usize {
        self.leader
    }

    /// Elects a server as leader. All servers that are neither dead, stopped nor cut off follow it,
    /// including the old leader. They and the new leader close their client connections. If the old
    /// leader is stopped, it becomes an isolated leader when it resumes.
    ///
    /// Returns false and changes nothing if the server is dead, stopped or cut off, or if it is
    /// standalone.
    pub fn elect(&mut self, now: Instant, server: usize) -> bool {
        self.advance(now);
        if !self.can_lead(server) {
            return false;
        }
        if server != self.leader && self.leads() && !self.leader_works() {
            self.isolate(self.leader);
        }
        self.start_leading(server);
        self.settle();
        true
    }

    /// Cuts the leader off from the other servers, which elect `successor` at once. The old leader
    /// does not notice until its sync limit. Until then it answers reads, pings, `sync`s and
    /// reconnects by itself from its old tree, and its writes hang. Then it closes its client
    /// connections.
    ///
    /// Returns false and changes nothing if the successor cannot lead or is the leader already.
    pub fn isolate_leader(&mut self, now: Instant, successor: usize) -> bool {
        self.advance(now);
        let old = self.leader;
        if successor == old || !self.leads() || !self.can_lead(successor) {
            return false;
        }
        self.isolate(old);
        self.start_leading(successor);
        self.settle();
        true
    }

    /// Kills a server. Its connections break at once, and it loses all unsent output and its touch
    /// table. If it was the leader, its followers close their client connections. No server serves
    /// clients until another one is elected or this one restarts.
    pub fn kill(&mut self, now: Instant, server: usize) {
        self.advance(now);
        self.handle_all_pings();
        let Some(killed) = self.servers.get_mut(server).filter(|server| !server.killed) else {
            return;
        };
        killed.killed = true;
        (killed.stalled, killed.stalled_since) = (false, None);
        killed.link = Link::Up;
        killed.isolated = None;
        killed.local_sessions.clear();
        self.forget_leader(server);
        for id in self.connections_of(server) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.outbox.truncate(0);
            }
            self.close(id, Cut::Rst);
        }
        if server == self.leader {
            self.drop_followers();
        }
    }

    /// Starts a killed server. It leads again if no other server was elected in the meantime.
    pub fn restart(&mut self, now: Instant, server: usize) {
        self.advance(now);
        let Some(started) = self.servers.get_mut(server).filter(|server| server.killed) else {
            return;
        };
        started.killed = false;
        if started.read_only {
            started.link = Link::Down
        } else {
            self.join(server)
        }
        self.settle();
    }

    /// Makes a server read-only, or writable again.
    ///
    /// A real server is read-only while it looks for a leader (`ReadOnlyZooKeeperServer`). It
    /// applies no transactions, it has lost its touch table, and it neither leads nor follows. If it
    /// led, its followers close their client connections, and no server serves writes until another
    /// one is elected or this one is writable again. It then leads again, or catches up with the
    /// leader. A standalone server, which is never read-only in reality, changes nothing meanwhile.
    ///
    /// In both cases the server closes all its connections.
    pub fn read_only(&mut self, now: Instant, server: usize, read_only: Switch) {
        self.advance(now);
        self.handle_all_pings();
        let wanted = read_only == Switch::On;
        let changed = self.servers.get_mut(server).filter(|server| server.read_only != wanted);
        let Some(changed) = changed else { return };
        changed.read_only = wanted;
        changed.local_sessions.clear();
        (changed.link, changed.isolated) = (Link::Down, None);
        self.forget_leader(server);
        self.close_all_at(server);
        if wanted && server == self.leader {
            self.drop_followers();
        }
        let changed = &mut self.servers[server];
        if !wanted && changed.stalled && server != self.leader {
            // It rejoins when it resumes, because its epoch is over.
            (changed.link, changed.epoch) = (Link::Up, self.epoch - 1);
        } else if !wanted && !changed.killed {
            self.join(server);
        }
        self.settle();
    }

    /// Returns whether the leader leads, although it may be stopped.
    pub(super) fn leads(&self) -> bool {
        let leader = &self.servers[self.leader];
        !leader.killed && !leader.read_only
    }

    /// Returns whether the leader processes requests.
    pub(super) fn leader_works(&self) -> bool {
        self.leads() && !self.servers[self.leader].stalled
    }

    /// Returns whether a server serves clients: it leads, follows, or has not noticed that it is
    /// cut off.
    pub(super) fn serves(&self, at: usize) -> bool {
        let server = &self.servers[at];
        let has_leader =
            server.isolated.is_some() || matches!(server.link, Link::Cut { .. }) || self.leads();
        let follows = server.link != Link::Down && !server.has_given_up && has_leader;
        !server.killed && (server.read_only || follows)
    }

    /// Connects a server to the leader from scratch. It closes its client connections and catches
    /// up with the leader before it serves clients again (`Learner.syncWithLeader`).
    pub(super) fn rejoin(&mut self, at: usize) {
        self.forget_leader(at);
        self.close_all_at(at);
        let server = &mut self.servers[at];
        (server.link, server.isolated, server.stalled_since) = (Link::Up, None, None);
        server.has_given_up = false;
        if server.killed || !self.leads() {
            return;
        }
        self.servers[at].epoch = self.epoch;
        self.handle_pings(at);
        self.catch_up_fully(at);
    }

    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let leader = self.leader;
        (0..self.servers.len()).filter(move |at| *at != leader)
    }

    pub(super) fn connections_of(&self, server: usize) -> Vec<ConnectionId> {
        let here = self.connections.iter().filter(|(_, connection)| connection.server == server);
        let mut ids: Vec<ConnectionId> = here.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    fn can_lead(&self, at: usize) -> bool {
        self.servers.len() > 1
            && self
                .servers
                .get(at)
                .is_some_and(|server| server.link == Link::Up && !server.stalled && !server.killed)
    }

    /// Cuts the current leader off. It keeps a copy of the session table, which then gets no
    /// updates.
    fn isolate(&mut self, old: usize) {
        let until = self.now + self.settings.tick(old) * self.settings.sync_limit;
        let server = &mut self.servers[old];
        server.link = Link::Cut { until };
        server.isolated = Some(self.sessions.clone());
    }

    /// Connects a server that has started to the leader, or makes it lead again.
    fn join(&mut self, at: usize) {
        if at == self.leader { self.start_leading(at) } else { self.rejoin(at) }
    }

    /// Makes the followers of a leader that is gone close their client connections.
    fn drop_followers(&mut self) {
        for other in self.others() {
            if self.servers[other].link == Link::Up && !self.servers[other].stalled {
                self.forget_leader(other);
                self.close_all_at(other);
            }
        }
    }

    fn start_leading(&mut self, at: usize) {
        // `Learner.shutdown` closes the client connections before the server replays its log.
        self.close_all_at(at);
        self.catch_up_fully(at);
        self.leader = at;
        self.epoch += 1;
        if self.servers.len() > 1 && self.settings.version.zxids_have_epochs() {
            self.zxid = Zxid(((self.zxid.0 >> 32) + 1) << 32);
            self.servers[at].tree.last_zxid = self.zxid;
        }
        (self.servers[at].epoch, self.servers[at].link) = (self.epoch, Link::Up);
        self.servers[at].has_given_up = false;
        let tick = self.settings.tick(at);
        self.pings = Pings::new(self.now, tick);
        self.servers.iter_mut().for_each(|server| server.pings_handled = 0);
        self.sessions.restart(self.now, &self.clock, tick);
        self.tell_step(SessionStep::Elected);
        self.forget_leader(at);
        for other in self.others() {
            let server = &self.servers[other];
            if server.link == Link::Up && !server.stalled && !server.killed {
                self.rejoin(other);
            }
        }
    }

    /// Drops the state that a server has for its leader: the touch table and the answers in flight.
    pub(super) fn forget_leader(&mut self, at: usize) {
        self.servers[at].touched.clear();
        self.servers[at].expected.clear();
        self.tell_step(SessionStep::TableLost(at));
    }
}
