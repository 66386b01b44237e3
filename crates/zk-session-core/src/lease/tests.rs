//! Test of the rule of [`evidence`](super::evidence) against a brute-force model of the servers.
//!
//! The test plays random schedules of packets, flushes, hangs, leader changes and reconnects. Servers
//! change the timeouts that they grant, and process abandoned connect requests late. A leader takes
//! the bucket of an overdue session, and closes the session a while later. The model knows every clock.
//! The rule sees only what a client sees. Once the leader has closed the session, the rule must never
//! have given a later time, and it must never take a promise back.

mod exploration;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::evidence::{Evidence, OwnerCheck};
use crate::rng::Rng;

/// Schedules per test run; `ZK_LEASE_SCHEDULES` sets another number.
const SCHEDULES: u64 = 20_000;
/// Session timeout that the client requests, and the longest gap between two flushes.
const TIMEOUT: u64 = 96;
const FLUSH_BOUND: u64 = TIMEOUT / 3;
/// Longest time from taking a bucket to closing a session of it.
const EXPIRY_PASS: u64 = TIMEOUT / 6;
/// By how much a leader's clock is ahead of the client's after a session timeout.
const DRIFT: u64 = TIMEOUT / 8;
/// Timeouts after which no server processes an abandoned connect request.
const ABANDONED_TIMEOUTS: u64 = crate::limits::ABANDONED_TIMEOUTS as u64;
/// Servers of the ensemble.
const SERVERS: usize = 3;

#[test]
fn session_never_expires_before_the_proven_time() {
    let count = std::env::var("ZK_LEASE_SCHEDULES").ok().and_then(|count| count.parse().ok());
    let summary = run(count.unwrap_or(SCHEDULES));
    assert_eq!(summary.unsafe_seed, None, "the seed of a schedule that breaks the rule");
    // The rule is tight, and the schedules reach its edge.
    assert!(summary.least_margin <= 1, "{}", summary.least_margin);
    assert!(summary.expired * 2 > summary.schedules, "{} expired", summary.expired);
}

#[derive(Debug)]
struct Summary {
    schedules: u64,
    expired: u64,
    least_margin: u64,
    unsafe_seed: Option<u64>,
}

fn run(schedules: u64) -> Summary {
    let mut summary = Summary { schedules, expired: 0, least_margin: u64::MAX, unsafe_seed: None };
    for seed in 0..schedules {
        match Schedule::new(seed).run() {
            Ok(None) => {}
            Ok(Some(margin)) => {
                summary.expired += 1;
                summary.least_margin = summary.least_margin.min(margin);
            }
            Err(()) => {
                summary.unsafe_seed = Some(seed);
                break;
            }
        }
    }
    summary
}

/// Message between client, server and leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Connect,
    /// A ping or a read: the server of the connection answers it.
    Touch,
    Sync,
    /// An empty transaction, of which the leader does not check the owner.
    Empty,
    Write,
    /// A follower's answer to the leader's ping, with the timeout of the session in its table.
    Flush(u64),
}

/// Packet, with the time at which the client sent it.
#[derive(Clone, Copy, Debug)]
struct Packet {
    message: Message,
    sent: u64,
    connection: u64,
}

/// Stream that keeps its order and delays its packets.
#[derive(Debug, Default)]
struct Stream(VecDeque<(u64, Packet)>);

impl Stream {
    fn send(&mut self, now: u64, delay: u64, packet: Packet) {
        let last = self.0.back().map_or(0, |(at, _)| *at);
        self.0.push_back(((now + delay).max(last), packet));
    }

    fn receive(&mut self, now: u64) -> Option<Packet> {
        self.0.front().filter(|(at, _)| *at <= now)?;
        self.0.pop_front().map(|(_, packet)| packet)
    }

    /// Takes all packets of a kind out of the stream.
    fn take(&mut self, is_taken: impl Fn(&Packet) -> bool) -> Vec<Packet> {
        let all = std::mem::take(&mut self.0);
        let (taken, left) = all.into_iter().partition(|(_, packet)| is_taken(packet));
        self.0 = left;
        let taken: VecDeque<(u64, Packet)> = taken;
        taken.into_iter().map(|(_, packet)| packet).collect()
    }
}

#[derive(Debug, Default)]
struct Server {
    /// Timeout that this server grants now.
    grants: u64,
    /// Index of the server's leader in `leaders`, which may be the server itself.
    leader: usize,
    is_leader: bool,
    table: Option<u64>,
    next_flush: u64,
    hangs_until: u64,
    from_client: Stream,
    /// Abandoned connect requests, which wait in sockets of their own.
    late: Stream,
    /// Latest connection that the server has closed.
    closed: Option<u64>,
    to_leader: Stream,
    from_leader: Stream,
    to_client: Stream,
}

/// Leader's view of the session.
#[derive(Clone, Copy, Debug)]
struct Leader {
    expires_at: u64,
    /// When the leader closes the session of the bucket that it has taken.
    closes_at: Option<u64>,
    has_expired: bool,
    /// Connection that owns the session.
    owner: Option<u64>,
}

impl Leader {
    fn new(expires_at: u64) -> Self {
        Self { expires_at, closes_at: None, has_expired: false, owner: None }
    }

    /// Touches the session. It has no effect once the bucket was taken, and the client cannot tell.
    fn touch(&mut self, now: u64, timeout: u64) {
        if self.closes_at.is_none() {
            self.expires_at = now + timeout - DRIFT;
        }
    }
}

#[derive(Debug)]
struct Schedule {
    rng: Rng,
    now: u64,
    base: Instant,
    evidence: Evidence,
    servers: Vec<Server>,
    /// All leaders. The last one has a quorum. The earlier ones have not noticed that they were
    /// replaced.
    leaders: Vec<Leader>,
    /// Timeout of the session's creation.
    created_with: u64,
    connection: u64,
    /// Timeouts granted to the connections so far.
    granted: BTreeMap<u64, u64>,
    at: usize,
    is_open: bool,
    /// Probability of an action of the client, and of a disturbance, in each step, in thousandths.
    eagerness: u64,
    unrest: u64,
    slowness: u64,
    /// By how much an abandoned connect request may be late.
    lateness: u64,
    expired_at: Option<u64>,
    latest: Option<u64>,
    promised: Option<u64>,
}

impl Schedule {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(u128::from(seed));
        let servers = (0..SERVERS).map(|number| Server {
            grants: TIMEOUT - [0, 0, TIMEOUT / 4, TIMEOUT / 2][pick(&mut rng, 4)],
            is_leader: number == 0,
            next_flush: rng.below(FLUSH_BOUND),
            ..Server::default()
        });
        let servers: Vec<Server> = servers.collect();
        let at = pick(&mut rng, SERVERS);
        let created_with = servers[at].grants;
        let mut evidence = Evidence::new();
        let base = Instant::now();
        evidence.handshake_sent(base);
        evidence.handshake_accepted(Duration::from_millis(created_with), base);
        let [flush_bound, expiry_pass, drift] =
            [FLUSH_BOUND, EXPIRY_PASS, DRIFT].map(Duration::from_millis);
        evidence.set_bounds(flush_bound, expiry_pass, drift);
        evidence.quorum_agreed(base, OwnerCheck::Checked, base);
        Self {
            evidence,
            servers,
            leaders: vec![Leader { owner: Some(0), ..Leader::new(created_with - DRIFT) }],
            created_with,
            connection: 0,
            granted: BTreeMap::from([(0, created_with)]),
            at,
            is_open: true,
            eagerness: [10, 50, 200, 500][pick(&mut rng, 4)],
            unrest: [0, 2, 5, 20][pick(&mut rng, 4)],
            slowness: [1, 3, 10][pick(&mut rng, 3)],
            lateness: [TIMEOUT, created_with * ABANDONED_TIMEOUTS][pick(&mut rng, 2)],
            rng,
            now: 0,
            base,
            expired_at: None,
            latest: None,
            promised: None,
        }
    }

    /// Returns the margin by which the rule was right, if the session expired.
    fn run(mut self) -> Result<Option<u64>, ()> {
        while self.now < TIMEOUT * 8 && self.expired_at.is_none_or(|at| self.now < at + TIMEOUT) {
            self.now += 1;
            self.expire();
            for number in 0..SERVERS {
                self.serve(number);
            }
            self.act();
            self.disturb();
            // The lease ends earlier by the drift, and by a margin, which is zero here.
            let time = |at: Option<Instant>| {
                let at = at.map(|at| u64::try_from((at - self.base).as_millis()).unwrap_or(0));
                at.map(|at| at.saturating_sub(DRIFT))
            };
            let bound = time(self.evidence.expires_after());
            let promised = time(self.evidence.promised(self.instant(self.now)));
            (self.latest, self.promised) = (self.latest.max(bound), self.promised.max(promised));
            // The lease would end later than the session.
            let is_closed_before = |at| self.expired_at.is_some_and(|expired_at| at > expired_at);
            let is_unsafe = [bound, self.promised].into_iter().flatten().any(is_closed_before);
            if is_unsafe || bound < self.promised {
                return Err(());
            }
        }
        Ok(self.expired_at.map(|at| at - self.latest.unwrap_or(0).min(at)))
    }

    fn expire(&mut self) {
        let now = self.now;
        for leader in &mut self.leaders {
            if leader.expires_at <= now && leader.closes_at.is_none() {
                leader.closes_at = Some(now + self.rng.below(EXPIRY_PASS));
            }
            leader.has_expired |= leader.closes_at.is_some_and(|at| at <= now);
        }
        if self.leaders.last().is_some_and(|leader| leader.has_expired) {
            self.expired_at.get_or_insert(now);
        }
    }

    /// Runs one step of a server and its leader.
    fn serve(&mut self, number: usize) {
        let (now, delay) = (self.now, 1 + self.rng.below(self.slowness));
        let is_current = self.servers[number].leader + 1 == self.leaders.len();
        let server = &mut self.servers[number];
        let leader = &mut self.leaders[server.leader];
        while let Some(packet) = server.to_leader.receive(now) {
            let is_answered = match packet.message {
                Message::Flush(timeout) => {
                    leader.touch(now, timeout);
                    false
                }
                Message::Connect => {
                    leader.owner = Some(packet.connection);
                    leader.touch(now, self.granted[&packet.connection]);
                    !leader.has_expired
                }
                Message::Write => {
                    let is_owner = *leader.owner.get_or_insert(packet.connection);
                    is_current && !leader.has_expired && is_owner == packet.connection
                }
                Message::Empty => is_current && !leader.has_expired,
                Message::Sync | Message::Touch => !leader.has_expired,
            };
            if is_answered {
                server.from_leader.send(now, delay, packet);
            }
        }
        if server.hangs_until > now {
            return;
        }
        // A follower that resumes first answers the leader's ping, which has waited.
        if server.next_flush <= now && !server.is_leader {
            if let Some(timeout) = server.table.take() {
                let (message, sent, connection) = (Message::Flush(timeout), now, 0);
                server.to_leader.send(now, delay, Packet { message, sent, connection });
            }
            server.next_flush = now + 1 + self.rng.below(FLUSH_BOUND);
        }
        while let Some(packet) = server.from_leader.receive(now) {
            if Some(packet.connection) > server.closed {
                server.to_client.send(now, delay, packet);
            }
        }
        while let Some(packet) = server.late.receive(now) {
            if now + self.slowness >= packet.sent + self.created_with * ABANDONED_TIMEOUTS {
                continue;
            }
            // The server first closes the session's connection.
            server.closed = (self.at == number).then_some(self.connection).or(server.closed);
            self.granted.insert(packet.connection, server.grants);
            server.to_leader.send(now, delay * u64::from(!server.is_leader), packet);
        }
        while let Some(packet) = server.from_client.receive(now) {
            if Some(packet.connection) <= server.closed {
                continue;
            }
            match packet.message {
                Message::Connect => {
                    self.granted.insert(packet.connection, server.grants);
                }
                _ if server.is_leader => leader.touch(now, self.granted[&packet.connection]),
                _ => server.table = Some(self.granted[&packet.connection]),
            }
            match packet.message {
                Message::Touch => server.to_client.send(now, delay, packet),
                _ => server.to_leader.send(now, delay * u64::from(!server.is_leader), packet),
            }
        }
    }

    /// Runs one step of the client.
    fn act(&mut self) {
        while let Some(packet) = self.servers[self.at].to_client.receive(self.now) {
            if packet.connection == self.connection {
                self.answered(packet);
            }
        }
        if self.is_open && self.rng.below(1_000) < self.eagerness {
            let messages =
                [Message::Touch, Message::Touch, Message::Sync, Message::Empty, Message::Write];
            let message = messages[pick(&mut self.rng, messages.len())];
            self.send(message);
        }
    }

    fn answered(&mut self, packet: Packet) {
        let (sent, now) = (self.instant(packet.sent), self.instant(self.now));
        match packet.message {
            Message::Connect => {
                let timeout = Duration::from_millis(self.granted[&packet.connection]);
                self.evidence.handshake_accepted(timeout, now);
                self.is_open = true;
                return;
            }
            Message::Sync => self.evidence.leader_answered(sent, now),
            Message::Empty => self.evidence.quorum_agreed(sent, OwnerCheck::Unchecked, now),
            Message::Write => self.evidence.quorum_agreed(sent, OwnerCheck::Checked, now),
            Message::Touch | Message::Flush(_) => {}
        }
        self.evidence.touch_answered(sent, now);
    }

    fn send(&mut self, message: Message) {
        let delay = 1 + self.rng.below(self.slowness);
        let packet = Packet { message, sent: self.now, connection: self.connection };
        self.servers[self.at].from_client.send(self.now, delay, packet);
    }

    fn disturb(&mut self) {
        if self.rng.below(1_000) >= self.unrest {
            return;
        }
        match self.rng.below(5) {
            0 => self.reconnect(),
            1 => {
                let number = pick(&mut self.rng, SERVERS);
                self.servers[number].hangs_until = self.now + self.rng.below(TIMEOUT);
            }
            2 => self.elect(),
            3 => {
                let number = pick(&mut self.rng, SERVERS);
                self.servers[number].grants = TIMEOUT - [0, TIMEOUT / 2][pick(&mut self.rng, 2)];
            }
            _ => self.rejoin(),
        }
    }

    fn reconnect(&mut self) {
        let now = self.instant(self.now);
        for server in &mut self.servers {
            let delay = self.rng.below(self.lateness);
            let is_connect = |packet: &Packet| packet.message == Message::Connect;
            for packet in server.from_client.take(is_connect) {
                server.late.send(self.now, delay, packet);
            }
        }
        self.connection += 1;
        self.is_open = false;
        self.at = pick(&mut self.rng, SERVERS);
        self.servers[self.at].to_client = Stream::default();
        self.evidence.handshake_sent(now);
        self.send(Message::Connect);
    }

    /// Elects a new leader for all servers, or for all but one. The server that is left out does
    /// not notice.
    fn elect(&mut self) {
        let (elected, left) = (pick(&mut self.rng, SERVERS), pick(&mut self.rng, SERVERS));
        let has_expired = self.leaders.last().is_some_and(|leader| leader.has_expired);
        let expires_at = self.now + self.created_with - DRIFT;
        let closes_at = has_expired.then_some(self.now);
        self.leaders.push(Leader { has_expired, closes_at, ..Leader::new(expires_at) });
        for number in (0..SERVERS).filter(|number| *number != left || left == elected) {
            self.follow_last(number);
            self.servers[number].is_leader = number == elected;
        }
    }

    /// Connects a server that was left out to the current leader.
    fn rejoin(&mut self) {
        let number = pick(&mut self.rng, SERVERS);
        if self.servers[number].leader + 1 < self.leaders.len() {
            self.follow_last(number);
            self.servers[number].is_leader = false;
        }
    }

    /// Connects a server to the current leader. The server drops its clients and all pending
    /// packets.
    fn follow_last(&mut self, number: usize) {
        let server = &mut self.servers[number];
        *server = Server {
            grants: server.grants,
            leader: self.leaders.len() - 1,
            next_flush: self.now + self.rng.below(FLUSH_BOUND),
            ..Server::default()
        };
        if self.at == number {
            self.reconnect();
        }
    }

    fn instant(&self, at: u64) -> Instant {
        self.base + Duration::from_millis(at)
    }
}

fn pick(rng: &mut Rng, count: usize) -> usize {
    let below = rng.below(u64::try_from(count).unwrap_or(1));
    usize::try_from(below).unwrap_or(0)
}
