//! Exhaustive test of the rule of [`evidence`](super::evidence) in a small world.
//!
//! The world has whole times, a session timeout of six, one session, a leader with followers, and a
//! client that sends a few packets. Every order of these events is tried:
//!
//! * Packets and replies take any time.
//! * A follower flushes its touch table, or hangs.
//! * The leader takes the bucket of an overdue session, and closes the session after any time up to the
//!   longest pass.
//! * Another server is elected.
//! * The client reconnects to a server that grants less.
//! * A server is late to process a connect request that the client has abandoned.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::evidence::{Evidence, OwnerCheck};

/// Parts of the session timeout that each server grants. The first one leads.
const GRANTS: [u64; 3] = [1, 1, 2];
const LEADER: usize = 0;

/// The times of a world, and the events that may happen in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    timeout: u64,
    flush_bound: u64,
    expiry_pass: u64,
    until: u64,
    packets: u8,
    /// Servers to which the client reconnects.
    reconnects: &'static [usize],
    elections: u8,
}

/// A client: the number and the kinds of its packets, the servers to which it reconnects in turn, and
/// whether another server is elected.
type Case = (u8, &'static [Packet], &'static [usize], bool);

const CASES: [Case; 6] = [
    (2, &[Packet::Ping, Packet::Empty], &[], false),
    (1, &[Packet::Empty], &[1], false),
    (1, &[Packet::Empty], &[2, 1], false),
    (1, &[Packet::Empty], &[1], true),
    (2, &[Packet::Ping, Packet::Sync], &[], true),
    (1, &[Packet::Sync], &[1], true),
];

const LARGER_CASES: [Case; 6] = [
    (3, &[Packet::Ping, Packet::Sync, Packet::Empty], &[], false),
    (2, &[Packet::Ping, Packet::Empty], &[1], false),
    (2, &[Packet::Sync, Packet::Empty], &[2], false),
    (2, &[Packet::Empty, Packet::Create], &[2, 1], false),
    (1, &[Packet::Empty, Packet::Create], &[2, 2], false),
    (2, &[Packet::Sync, Packet::Empty], &[1], true),
];

/// With `ZK_LEASE_EXPLORE=1` the test tries larger worlds, in a release build for an hour.
#[test]
fn no_order_of_events_defeats_the_rule() {
    let is_larger = std::env::var_os("ZK_LEASE_EXPLORE").is_some();
    let (cases, creators, until): (&[Case], &[usize], u64) =
        if is_larger { (&LARGER_CASES, &[LEADER, 1, 2], 12) } else { (&CASES, &[1], 9) };
    for case in cases {
        for creator in creators {
            let (packets, kinds, reconnects, has_election) = *case;
            let budget = Budget {
                timeout: 6,
                flush_bound: 2,
                expiry_pass: 2,
                until,
                packets,
                reconnects,
                elections: u8::from(has_election),
            };
            let explored = explore(World::new(budget, *creator), kinds);
            // Otherwise the test tries nothing.
            assert!(explored.closed > 0 && explored.proven > 0, "{case:?} {explored:?}");
            println!("{case:?}, created at server {creator}: {explored:?}");
        }
    }
}

#[derive(Debug, Default)]
struct Explored {
    worlds: usize,
    closed: usize,
    proven: usize,
}

/// Tries every order of steps. It keeps hashes of the worlds that it has seen.
fn explore(world: World, kinds: &[Packet]) -> Explored {
    let mut explored = Explored::default();
    let hash = RandomState::new();
    let mut seen = HashSet::from([hash.hash_one(&world)]);
    let mut left = vec![(world, None)];
    let mut steps: Vec<(Option<usize>, Step)> = Vec::new();
    while let Some((world, came_by)) = left.pop() {
        explored.worlds += 1;
        explored.proven += usize::from(world.evidence.expires_after().is_some());
        for step in world.steps(kinds) {
            let mut next = world.clone();
            if !next.take(step) {
                continue;
            }
            explored.closed += usize::from(next.closed_at.is_some());
            if let Err(why) = next.check(&world) {
                let mut path = vec![step];
                let mut at = came_by;
                while let Some((before, step)) = at.map(|at: usize| steps[at]) {
                    path.push(step);
                    at = before;
                }
                path.reverse();
                panic!("{why} after {path:?}: {next:#?}");
            }
            // After the end of the session, only replies in flight matter.
            let is_over = next.closed_at.is_some() && next.connection.to_client.is_empty();
            if !is_over && seen.insert(hash.hash_one(&next)) {
                steps.push((came_by, step));
                left.push((next, Some(steps.len() - 1)));
            }
        }
    }
    explored
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Packet {
    Connect,
    Ping,
    Sync,
    /// An empty transaction.
    Empty,
    Create,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Tick,
    Send(Packet),
    /// The client connects to this server, which may follow the replaced leader.
    Reconnect {
        server: usize,
        of_replaced: bool,
    },
    /// The server of the connection handles the next packet.
    Serve,
    /// The client receives the next reply.
    Receive,
    Flush,
    FlushOfLastConnection,
    Hang,
    TakeBucket,
    CloseSession,
    /// Another server is elected. The connection ends, or its server does not notice.
    Elect {
        unnoticed: bool,
    },
    ServeAbandoned,
}

/// One leader's view of the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leader {
    expires: u64,
    /// When the leader took the bucket with the session.
    taken: Option<u64>,
    is_closed: bool,
    owner: Option<u8>,
}

impl Leader {
    fn touch(&mut self, now: u64, timeout: u64) {
        if self.taken.is_none() {
            self.expires = now + timeout;
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Connection {
    number: u8,
    server: usize,
    is_accepted: bool,
    /// Whether the server is stopped, or has closed the connection.
    is_dead: bool,
    /// Whether the server follows the replaced leader.
    is_of_replaced: bool,
    /// Timeout and time of the touch in the server's table.
    table: Option<(u64, u64)>,
    to_server: Vec<(Packet, u64)>,
    to_client: Vec<(Packet, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    start: Instant,
    evidence: Evidence,
    leader: Leader,
    replaced: Option<Leader>,
    connection: Connection,
    created_with: u64,
    /// Touch table entry of the last connection.
    lingering: Option<u64>,
    /// Number and server of a connect request whose reply nobody waits for.
    abandoned: Option<(u8, usize)>,
    closed_at: Option<u64>,
    /// Whether the client does nothing before the next packet or time. Its steps and those inside the
    /// servers have the same effect in any order.
    is_client_done: bool,
    left: Budget,
}

impl World {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn new(budget: Budget, creator: usize) -> Self {
        let (start, created_with) = (Instant::now(), budget.timeout / GRANTS[creator]);
        let mut evidence = Evidence::new();
        evidence.set_bounds(
            duration(budget.flush_bound),
            duration(budget.expiry_pass),
            Duration::ZERO,
        );
        evidence.handshake_sent(start);
        evidence.handshake_accepted(duration(created_with), start);
        evidence.quorum_agreed(start, OwnerCheck::Checked, start);
        let leader =
            Leader { expires: created_with, taken: None, is_closed: false, owner: Some(0) };
        let mut world = Self {
            now: 0,
            start,
            evidence,
            leader,
            replaced: None,
            connection: Connection::new(0, creator),
            created_with,
            lingering: None,
            abandoned: None,
            closed_at: None,
            is_client_done: false,
            left: budget,
        };
        world.connection.is_accepted = true;
        world
    }

    /// Returns the steps that may be possible.
    fn steps(&self, kinds: &[Packet]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut add = |is_possible: bool, step| steps.extend(is_possible.then_some(step));
        let connection = &self.connection;
        let (asks, replies) = (!connection.to_server.is_empty(), !connection.to_client.is_empty());
        add(true, Step::Tick);
        add(replies && !self.is_client_done, Step::Receive);
        if self.closed_at.is_some() {
            // Only replies in flight matter.
            return if replies { steps } else { Vec::new() };
        }
        add(asks, Step::Serve);
        add(connection.table.is_some(), Step::Flush);
        add(self.lingering.is_some(), Step::FlushOfLastConnection);
        // To hang earlier has the same effect as to be idle until then.
        add(self.must_flush(), Step::Hang);
        add(self.leader.taken.is_none() && self.leader.expires <= self.now, Step::TakeBucket);
        add(self.leader.taken.is_some(), Step::CloseSession);
        add(self.abandoned.is_some(), Step::ServeAbandoned);
        let sends = connection.is_accepted && !connection.is_dead && !asks && !replies;
        let sends = sends && !self.is_client_done;
        for packet in kinds {
            add(sends && self.left.packets > 0, Step::Send(*packet));
        }
        if let Some(server) = self.left.reconnects.first() {
            for of_replaced in [false, true] {
                let is_possible = !of_replaced || self.replaced.is_some();
                add(
                    !self.is_client_done && is_possible,
                    Step::Reconnect { server: *server, of_replaced },
                );
            }
        }
        for unnoticed in [true, false] {
            add(self.left.elections > 0, Step::Elect { unnoticed });
        }
        steps
    }

    /// Takes a step. Returns false if it is not possible.
    fn take(&mut self, step: Step) -> bool {
        let is_possible = match step {
            Step::Tick => self.tick(),
            Step::Send(packet) => self.send(packet),
            Step::Reconnect { server, of_replaced } => self.reconnect(server, of_replaced),
            Step::Serve => self.serve(),
            Step::Receive => self.receive(),
            Step::Flush => self.flush(),
            Step::FlushOfLastConnection => {
                let timeout = self.lingering.take();
                timeout.is_some_and(|timeout| self.touch_at_leader(timeout))
            }
            Step::Hang => {
                let can_hang = !self.connection.is_dead;
                (self.connection.is_dead, self.connection.table) = (true, None);
                self.connection.to_server.clear();
                can_hang
            }
            Step::TakeBucket => {
                self.leader.taken = Some(self.now);
                true
            }
            Step::CloseSession => {
                self.leader.is_closed = true;
                self.closed_at = Some(self.now);
                true
            }
            Step::Elect { unnoticed } => self.elect(unnoticed),
            Step::ServeAbandoned => self.serve_abandoned(),
        };
        self.is_client_done = !matches!(
            step,
            Step::Tick | Step::Serve | Step::Send(_) | Step::Receive | Step::Reconnect { .. }
        );
        is_possible
    }

    /// Checks a world against the one before it.
    fn check(&self, before: &Self) -> Result<(), &'static str> {
        let bound = self.evidence.expires_after();
        let promised = before.evidence.promised(self.instant(self.now));
        match self.closed_at {
            Some(at) if bound > Some(self.instant(at)) => {
                Err("the session is closed before the bound")
            }
            _ if bound < promised => Err("a promise is taken back"),
            _ => Ok(()),
        }
    }

    /// Lets time pass, unless something must happen before.
    fn tick(&mut self) -> bool {
        let must_close = |leader: &Leader| {
            let is_last_moment = |taken| taken + self.left.expiry_pass <= self.now + 1;
            !leader.is_closed && leader.taken.is_some_and(is_last_moment)
        };
        if must_close(&self.leader) || self.must_flush() || self.now >= self.left.until {
            return false;
        }
        self.now += 1;
        true
    }

    fn must_flush(&self) -> bool {
        let last = self.connection.table.map(|(_, at)| at + self.left.flush_bound);
        last.is_some_and(|last| last <= self.now + 1)
    }

    fn send(&mut self, packet: Packet) -> bool {
        self.left.packets -= 1;
        self.connection.to_server.push((packet, self.now));
        true
    }

    fn reconnect(&mut self, server: usize, of_replaced: bool) -> bool {
        self.left.reconnects = &self.left.reconnects[1..];
        let number = self.connection.number + 1;
        let last = std::mem::replace(&mut self.connection, Connection::new(number, server));
        self.connection.is_of_replaced = of_replaced;
        let sent_connect =
            last.to_server.first().is_some_and(|(packet, ..)| *packet == Packet::Connect);
        if sent_connect && !last.is_dead {
            self.abandoned = Some((last.number, last.server));
        }
        if !last.is_of_replaced {
            self.lingering = last.table.map(|(timeout, _)| timeout).or(self.lingering);
        }
        self.evidence.handshake_sent(self.instant(self.now));
        self.connection.to_server.push((Packet::Connect, self.now));
        true
    }

    fn leader_of_connection(&mut self) -> Option<&mut Leader> {
        if self.connection.is_of_replaced { self.replaced.as_mut() } else { Some(&mut self.leader) }
    }

    fn touch_at_leader(&mut self, timeout: u64) -> bool {
        let now = self.now;
        if !self.leader.is_closed {
            self.leader.touch(now, timeout);
        }
        true
    }

    fn flush(&mut self) -> bool {
        let now = self.now;
        let Some((timeout, _)) = self.connection.table.take() else { return false };
        if let Some(leader) = self.leader_of_connection().filter(|leader| !leader.is_closed) {
            leader.touch(now, timeout);
        }
        true
    }

    /// Handles a packet at the server of the connection and, if it forwards it, at the leader.
    fn serve(&mut self) -> bool {
        let (now, number, server) = (self.now, self.connection.number, self.connection.server);
        if self.connection.is_dead || self.connection.to_server.is_empty() {
            return false;
        }
        let (packet, sent) = self.connection.to_server.remove(0);
        let is_of_replaced = self.connection.is_of_replaced;
        if packet != Packet::Connect && server != LEADER {
            let since = self.connection.table.map_or(now, |(_, at)| at);
            self.connection.table = Some((self.grants(server), since));
        }
        let timeout = self.grants(server);
        let Some(leader) = self.leader_of_connection() else { return false };
        if leader.is_closed {
            self.connection.is_dead = true;
            return true;
        }
        if packet == Packet::Connect || server == LEADER {
            leader.touch(now, timeout);
        }
        let is_answered = match packet {
            Packet::Connect => {
                leader.owner = Some(number);
                true
            }
            Packet::Ping | Packet::Sync => true,
            Packet::Empty => !is_of_replaced,
            Packet::Create => !is_of_replaced && leader.owner.is_none_or(|owner| owner == number),
        };
        if is_answered {
            self.connection.to_client.push((packet, sent));
        }
        true
    }

    fn receive(&mut self) -> bool {
        if self.connection.to_client.is_empty() {
            return false;
        }
        let (packet, sent) = self.connection.to_client.remove(0);
        let (sent, now) = (self.instant(sent), self.instant(self.now));
        if packet != Packet::Connect {
            self.evidence.touch_answered(sent, now);
        }
        match packet {
            Packet::Connect => {
                let timeout = duration(self.grants(self.connection.server));
                self.evidence.handshake_accepted(timeout, now);
                self.connection.is_accepted = true;
            }
            Packet::Ping => {}
            Packet::Sync => self.evidence.leader_answered(sent, now),
            Packet::Empty => self.evidence.quorum_agreed(sent, OwnerCheck::Unchecked, now),
            Packet::Create => self.evidence.quorum_agreed(sent, OwnerCheck::Checked, now),
        }
        true
    }

    fn elect(&mut self, unnoticed: bool) -> bool {
        self.left.elections -= 1;
        let expires = self.now + self.created_with;
        let leader = Leader { expires, taken: None, is_closed: false, owner: None };
        self.replaced = Some(std::mem::replace(&mut self.leader, leader));
        self.lingering = None;
        if unnoticed {
            self.connection.is_of_replaced = true;
        } else {
            (self.connection.is_dead, self.connection.table) = (true, None);
            self.connection.to_server.clear();
        }
        true
    }

    /// Processes a connect request late. Its server first closes an older connection of the session.
    fn serve_abandoned(&mut self) -> bool {
        let Some((number, server)) = self.abandoned.take() else { return false };
        if self.connection.server == server && self.connection.is_accepted {
            self.connection.is_dead = true;
            self.connection.to_server.clear();
        }
        let timeout = self.grants(server);
        self.leader.touch(self.now, timeout);
        self.leader.owner = Some(number);
        true
    }

    fn grants(&self, server: usize) -> u64 {
        self.left.timeout / GRANTS[server]
    }

    fn instant(&self, at: u64) -> Instant {
        self.start + duration(at)
    }
}

impl Connection {
    fn new(number: u8, server: usize) -> Self {
        Self {
            number,
            server,
            is_accepted: false,
            is_dead: false,
            is_of_replaced: false,
            table: None,
            to_server: Vec::new(),
            to_client: Vec::new(),
        }
    }
}

fn duration(time: u64) -> Duration {
    Duration::from_millis(time)
}
