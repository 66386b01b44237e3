//! Test of the rule of [`evidence`](super::evidence) against a brute-force model of the servers.
//!
//! The test plays random schedules of packets, flushes, hangs, leader changes and reconnects. The
//! model knows every clock. The rule sees only what a client sees. Once the leader has expired the
//! session, the rule must never have given a later time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::evidence::Evidence;
use crate::rng::Rng;

/// Schedules per test run; `ZK_LEASE_SCHEDULES` sets another number.
const SCHEDULES: u64 = 20_000;
/// Session timeout that the client requests, and the longest gap between two flushes.
const TIMEOUT: u64 = 96;
const FLUSH_BOUND: u64 = TIMEOUT / 3;
/// Servers of the ensemble.
const SERVERS: usize = 3;

#[test]
fn session_never_expires_before_the_proven_time() {
    let count = std::env::var("ZK_LEASE_SCHEDULES").ok().and_then(|it| it.parse().ok());
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
}

#[derive(Debug, Default)]
struct Server {
    /// Timeout that this server grants.
    grants: u64,
    /// Index of the server's leader in `leaders`, which may be the server itself.
    leader: usize,
    is_leader: bool,
    table: Option<u64>,
    next_flush: u64,
    hangs_until: u64,
    from_client: Stream,
    to_leader: Stream,
    from_leader: Stream,
    to_client: Stream,
}

/// Leader's view of the session: expired, or when it will expire.
#[derive(Clone, Copy, Debug)]
struct Leader {
    expires_at: u64,
    has_expired: bool,
    /// Connection of the last connect request.
    newest: u64,
}

impl Leader {
    fn touch(&mut self, now: u64, timeout: u64) {
        if !self.has_expired {
            self.expires_at = now + timeout;
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
    at: usize,
    is_open: bool,
    /// Probability of an action of the client, and of a disturbance, in each step, in thousandths.
    eagerness: u64,
    unrest: u64,
    slowness: u64,
    expired_at: Option<u64>,
    latest: Option<u64>,
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
        let mut evidence = Evidence::new(None);
        let base = Instant::now();
        evidence.handshake_sent(base);
        evidence.handshake_accepted(Duration::from_millis(created_with));
        evidence.set_flush_bound(Duration::from_millis(FLUSH_BOUND));
        evidence.quorum_agreed(base);
        Self {
            evidence,
            servers,
            leaders: vec![Leader { expires_at: created_with, has_expired: false, newest: 0 }],
            created_with,
            connection: 0,
            at,
            is_open: true,
            eagerness: [10, 50, 200, 500][pick(&mut rng, 4)],
            unrest: [0, 2, 5, 20][pick(&mut rng, 4)],
            slowness: [1, 3, 10][pick(&mut rng, 3)],
            rng,
            now: 0,
            base,
            expired_at: None,
            latest: None,
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
            let bound = self.evidence.expires_after();
            let bound = bound.map(|at| u64::try_from((at - self.base).as_millis()).unwrap_or(0));
            self.latest = self.latest.max(bound);
            // The lease would end later than the session.
            if let (Some(bound), Some(expired_at)) = (bound, self.expired_at)
                && bound > expired_at
            {
                return Err(());
            }
        }
        Ok(self.expired_at.map(|at| at - self.latest.unwrap_or(0).min(at)))
    }

    fn expire(&mut self) {
        let now = self.now;
        for leader in &mut self.leaders {
            leader.has_expired |= leader.expires_at <= now;
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
                // Assumption: a connect request is not processed behind a later one.
                Message::Connect if packet.connection < leader.newest => false,
                Message::Connect => {
                    leader.newest = packet.connection;
                    leader.touch(now, server.grants);
                    !leader.has_expired
                }
                Message::Write => is_current && !leader.has_expired,
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
            server.to_client.send(now, delay, packet);
        }
        while let Some(packet) = server.from_client.receive(now) {
            if packet.message != Message::Connect {
                match server.is_leader {
                    true => leader.touch(now, server.grants),
                    false => server.table = Some(server.grants),
                }
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
            let messages = [Message::Touch, Message::Touch, Message::Sync, Message::Write];
            let message = messages[pick(&mut self.rng, messages.len())];
            self.send(message);
        }
    }

    fn answered(&mut self, packet: Packet) {
        let (sent, now) = (self.instant(packet.sent), self.instant(self.now));
        match packet.message {
            Message::Connect => {
                let timeout = Duration::from_millis(self.servers[self.at].grants);
                self.evidence.handshake_accepted(timeout);
                self.is_open = true;
                return;
            }
            Message::Sync => self.evidence.leader_answered(sent),
            Message::Write => self.evidence.quorum_agreed(sent),
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
        match self.rng.below(4) {
            0 => self.reconnect(),
            1 => {
                let number = pick(&mut self.rng, SERVERS);
                self.servers[number].hangs_until = self.now + self.rng.below(TIMEOUT);
            }
            2 => self.elect(),
            _ => self.rejoin(),
        }
    }

    fn reconnect(&mut self) {
        let now = self.instant(self.now);
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
        let expires_at = self.now + self.created_with;
        self.leaders.push(Leader { expires_at, has_expired, newest: 0 });
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
