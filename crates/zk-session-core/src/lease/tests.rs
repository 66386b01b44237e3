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
//! * Another client began the session, and this one resumes it.
//!
//! `docs/model/Lease.tla` says the same in TLA+, and each step has the same name there. TLC finds the
//! same number of worlds. So a change of the rule, or of a step, belongs into both.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::time::{Duration, Instant};

use super::evidence::{Evidence, OwnerCheck};
use crate::connection::GrantedTimeouts;
use crate::limits::ABANDONED_TIMEOUTS;

const TIMEOUT: u64 = 6;
const LEADER: usize = 0;

/// Assumptions of a lease. A world has one for the client, and one that is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    flush: u64,
    pass: u64,
    drift: u64,
    /// Time that the holder takes to react.
    pause: u64,
    /// Time after which a stopped server does not process a connect request any more.
    late: u64,
    /// Session timeout that each server grants. The first one leads.
    grants: [u64; 3],
}

const ASSUMED: Bounds = Bounds {
    flush: 2,
    pass: 2,
    drift: 0,
    pause: 1,
    late: TIMEOUT * ABANDONED_TIMEOUTS as u64,
    grants: [TIMEOUT, TIMEOUT, TIMEOUT / 2],
};

/// A world before its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    /// What the client assumes, and what is true.
    assumed: Bounds,
    actual: Bounds,
    creator: usize,
    /// The timeout that a resumed session is said to have been granted.
    granted_before: Option<u64>,
    kinds: &'static [Packet],
    packets: u8,
    /// Servers to which the client reconnects in turn.
    reconnects: &'static [usize],
    elections: u8,
    until: u64,
    /// Whether an abandoned connect request is almost five session timeouts old.
    is_late: bool,
}

/// All worlds of one exploration have the same start.
impl Hash for Start {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

const START: Start = Start {
    assumed: ASSUMED,
    actual: ASSUMED,
    creator: 1,
    granted_before: None,
    kinds: &[Packet::Empty],
    packets: 1,
    reconnects: &[],
    elections: 0,
    until: 9,
    is_late: false,
};

const PINGS: Start = Start { packets: 2, kinds: &[Packet::Ping, Packet::Empty], ..START };
const TO_ANOTHER: Start = Start { reconnects: &[1], ..START };
const ELECTION: Start =
    Start { packets: 2, kinds: &[Packet::Ping, Packet::Sync], elections: 1, ..START };
const RESUMED: Start = Start { granted_before: Some(TIMEOUT), ..TO_ANOTHER };
const LATE: Start = Start {
    kinds: &[Packet::Empty, Packet::Create],
    until: 5 * TIMEOUT + 6,
    is_late: true,
    ..START
};

/// Returns bounds for both sides with a drift of the clocks.
const fn drifting(start: Start) -> Start {
    let bounds = Bounds { drift: 1, ..ASSUMED };
    Start { assumed: bounds, actual: bounds, ..start }
}

/// The worlds, and how many there are of each.
const STARTS: [(Start, usize); 9] = [
    (PINGS, 163_780),
    (TO_ANOTHER, 61_920),
    (Start { reconnects: &[2, 1], ..START }, 1_309_145),
    (Start { elections: 1, ..TO_ANOTHER }, 386_223),
    (ELECTION, 881_758),
    (Start { kinds: &[Packet::Sync], elections: 1, ..TO_ANOTHER }, 670_007),
    (drifting(PINGS), 216_532),
    (RESUMED, 349_066),
    (LATE, 13_042),
];

const LARGER_STARTS: [Start; 7] = [
    Start { packets: 3, kinds: &[Packet::Ping, Packet::Sync, Packet::Empty], ..START },
    Start { reconnects: &[1], ..PINGS },
    Start { packets: 2, kinds: &[Packet::Sync, Packet::Empty], reconnects: &[2], ..START },
    Start { packets: 2, kinds: &[Packet::Empty, Packet::Create], reconnects: &[2, 1], ..START },
    Start { kinds: &[Packet::Empty, Packet::Create], reconnects: &[2, 2], ..START },
    Start { packets: 2, kinds: &[Packet::Sync, Packet::Empty], elections: 1, ..TO_ANOTHER },
    drifting(Start { reconnects: &[2], ..PINGS }),
];

/// With `ZK_LEASE_EXPLORE=1` the test tries larger worlds, in a release build for an hour.
#[test]
fn no_order_of_events_defeats_the_rule() {
    for (start, worlds) in STARTS {
        let explored = explore(start);
        assert_eq!(explored.violation, None, "{start:?}");
        // Otherwise the test tries nothing.
        assert!(explored.closed > 0 && explored.proven > 0, "{start:?} {explored:?}");
        assert_eq!(explored.worlds, worlds, "change Lease.tla as well, and run TLC: {start:?}");
    }
    if std::env::var_os("ZK_LEASE_EXPLORE").is_some() {
        for start in LARGER_STARTS {
            for creator in [LEADER, 1, 2] {
                let explored = explore(Start { creator, until: 12, ..start });
                println!("{start:?}, created at server {creator}: {explored:?}");
                assert_eq!(explored.violation, None);
            }
        }
    }
}

/// An assumption without which nothing fails would not be needed, or the worlds would be too small.
#[test]
fn lease_fails_without_each_assumption() {
    let less = |start: Start, actual: Bounds| Start { actual, ..start };
    let weakened = [
        ("flush bound", less(PINGS, Bounds { flush: 3, ..ASSUMED })),
        ("margin", less(START, Bounds { pause: 2, ..ASSUMED })),
        ("drift", less(START, Bounds { drift: 1, ..ASSUMED })),
        (
            "half timeout",
            less(
                Start { reconnects: &[2], ..START },
                Bounds { grants: [TIMEOUT, TIMEOUT, TIMEOUT / 3], ..ASSUMED },
            ),
        ),
        ("late connect", less(LATE, Bounds { late: ASSUMED.late + 1, ..ASSUMED })),
        ("expiry pass", less(TO_ANOTHER, Bounds { pass: 3, ..ASSUMED })),
        (
            "timeout of a resumed session",
            less(
                Start { creator: 2, elections: 1, kinds: &[Packet::Create], ..RESUMED },
                Bounds { late: 0, grants: [TIMEOUT, TIMEOUT, TIMEOUT / 3], ..ASSUMED },
            ),
        ),
    ];
    for (assumption, start) in weakened {
        let explored = explore(start);
        let (why, steps) =
            explored.violation.unwrap_or_else(|| panic!("{assumption} is not needed"));
        println!("{assumption}: {why} after {steps:?}");
    }
}

#[derive(Debug, Default)]
struct Explored {
    worlds: usize,
    closed: usize,
    proven: usize,
    /// What is violated first, and the steps to it.
    violation: Option<(&'static str, Vec<(u64, Step)>)>,
}

/// Tries every order of steps, the shortest ones first but in a larger run. It keeps hashes of the worlds
/// that it has seen.
fn explore(start: Start) -> Explored {
    let mut explored = Explored::default();
    let hash = RandomState::new();
    let first = World::new(start);
    let mut seen = HashSet::from([hash.hash_one(&first)]);
    let mut left = VecDeque::from([(first, None)]);
    let mut steps: Vec<(Option<usize>, u64, Step)> = Vec::new();
    // The worlds of a larger run would not fit into the memory at once.
    let is_larger = std::env::var_os("ZK_LEASE_EXPLORE").is_some();
    while let Some((world, came_by)) = if is_larger { left.pop_back() } else { left.pop_front() } {
        explored.worlds += 1;
        explored.proven += usize::from(world.evidence.expires_after().is_some());
        explored.closed += usize::from(world.closed_at.is_some());
        for step in world.steps() {
            let mut next = world.clone();
            if !next.take(step) {
                continue;
            }
            if let Err(why) = next.check(&world) {
                let mut path = vec![(world.now, step)];
                let mut at = came_by;
                while let Some((before, now, step)) = at.map(|at: usize| steps[at]) {
                    path.push((now, step));
                    at = before;
                }
                path.reverse();
                explored.violation = Some((why, path));
                return explored;
            }
            if seen.insert(hash.hash_one(&next)) {
                steps.push((came_by, world.now, step));
                left.push_back((next, Some(steps.len() - 1)));
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tick,
    Send(Packet),
    /// The client connects to the next server, which may follow a leader that was replaced.
    Reconnect {
        leader: usize,
    },
    /// The server of the connection handles the next packet.
    Serve,
    /// The client receives the next reply.
    Receive,
    FlushTable,
    FlushOfLastConnection,
    Hang,
    TakeBucket,
    CloseSession,
    /// Another server is elected. The connection ends, or its server does not notice.
    Elect {
        unnoticed: bool,
    },
    ServeLate,
}

/// One leader's view of the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leader {
    expires: u64,
    /// When the leader took the bucket with the session.
    taken: Option<u64>,
    owner: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Connection {
    number: u8,
    server: usize,
    /// The leader that the server follows.
    leader: usize,
    is_accepted: bool,
    /// Whether the server is stopped, or has closed the connection.
    is_dead: bool,
    /// Timeout and time of the touch in the server's table.
    table: Option<(u64, u64)>,
    to_server: Option<(Packet, u64)>,
    to_client: Option<(Packet, u64)>,
}

/// A connect request whose reply nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LateConnect {
    number: u8,
    server: usize,
    sent: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    origin: Instant,
    evidence: Evidence,
    /// The leaders so far, the one that leads last.
    leaders: Vec<Leader>,
    connection: Connection,
    /// Timeout in the touch table of the last connection.
    lingering: Option<u64>,
    late: Option<LateConnect>,
    closed_at: Option<u64>,
    /// Whether the client does nothing before the next packet or time. Its steps and those inside the
    /// servers have the same effect in any order.
    is_client_done: bool,
    left: Left,
    start: Start,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    packets: u8,
    reconnects: &'static [usize],
    elections: u8,
}

impl World {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn new(start: Start) -> Self {
        let Bounds { flush, pass, drift, .. } = start.assumed;
        let (origin, created_with) = (Instant::now(), start.actual.grants[start.creator]);
        let granted = start.granted_before.map(|before| GrantedTimeouts::of(duration(before)));
        let mut evidence =
            if granted.is_some() { Evidence::resumed(granted) } else { Evidence::new() };
        evidence.set_bounds(duration(flush), duration(pass), duration(drift));
        if granted.is_none() {
            evidence.handshake_sent(origin);
            evidence.handshake_accepted(duration(created_with), origin);
            evidence.quorum_agreed(origin, OwnerCheck::Checked, origin);
        }
        let expires = created_with - start.actual.drift;
        let late = LateConnect { number: 0, server: 2, sent: 0 };
        let mut world = Self {
            now: 0,
            origin,
            evidence,
            leaders: vec![Leader { expires, taken: None, owner: Some(0) }],
            connection: Connection::new(0, start.creator, 0),
            lingering: None,
            late: granted.map(|_| late),
            closed_at: None,
            is_client_done: false,
            left: Left {
                packets: start.packets,
                reconnects: start.reconnects,
                elections: start.elections,
            },
            start,
        };
        world.connection.is_accepted = true;
        world.connection.is_dead = granted.is_some();
        if start.is_late { world.after_five_timeouts() } else { world }
    }

    /// Lets the client abandon a connect request, and then renew its lease until that request is over
    /// soon.
    fn after_five_timeouts(mut self) -> Self {
        let left = std::mem::replace(
            &mut self.left,
            Left { packets: u8::MAX, reconnects: &[2, 1], elections: 0 },
        );
        let renew = [Step::Send(Packet::Create), Step::Serve, Step::Receive, Step::FlushTable];
        let reconnect = Step::Reconnect { leader: 0 };
        let mut steps = vec![reconnect, reconnect, Step::Serve, Step::Receive];
        for _ in 1..5 * TIMEOUT / 2 {
            steps.extend([Step::Tick; 2]);
            steps.extend(renew);
        }
        for step in steps {
            assert!(self.take(step), "{step:?}");
        }
        Self { left, is_client_done: false, ..self }
    }

    /// Returns the steps that may be possible.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut add = |is_possible: bool, step| steps.extend(is_possible.then_some(step));
        let (connection, leader) = (&self.connection, self.leader());
        let (asks, replies) = (connection.to_server.is_some(), connection.to_client.is_some());
        if self.closed_at.is_some() && !replies {
            return steps;
        }
        let is_ready = !self.is_client_done;
        add(true, Step::Tick);
        add(replies && is_ready, Step::Receive);
        if self.closed_at.is_some() {
            // Only replies in flight matter.
            return steps;
        }
        add(asks && !connection.is_dead, Step::Serve);
        add(connection.table.is_some(), Step::FlushTable);
        add(self.lingering.is_some(), Step::FlushOfLastConnection);
        // To hang earlier has the same effect as to be idle until then.
        add(self.must_flush() && !connection.is_dead, Step::Hang);
        add(leader.taken.is_none() && leader.expires <= self.now, Step::TakeBucket);
        add(leader.taken.is_some(), Step::CloseSession);
        let is_in_time = |late: &LateConnect| self.now < late.sent + self.start.actual.late;
        add(self.late.as_ref().is_some_and(is_in_time), Step::ServeLate);
        let is_open = connection.is_accepted && !connection.is_dead && !asks && !replies;
        for kind in self.start.kinds {
            add(is_ready && is_open && self.left.packets > 0, Step::Send(*kind));
        }
        for number in 0..self.leaders.len() {
            let is_possible = is_ready && !self.left.reconnects.is_empty();
            add(is_possible, Step::Reconnect { leader: number });
        }
        for unnoticed in [true, false] {
            add(self.left.elections > 0, Step::Elect { unnoticed });
        }
        steps
    }

    /// Takes a step. Returns false if it is not possible.
    fn take(&mut self, step: Step) -> bool {
        match step {
            Step::Tick => {
                if !self.can_tick() {
                    return false;
                }
                self.now += 1;
            }
            Step::Send(packet) => {
                self.left.packets -= 1;
                self.connection.to_server = Some((packet, self.now));
            }
            Step::Reconnect { leader } => self.reconnect(leader),
            Step::Serve => self.serve(),
            Step::Receive => self.receive(),
            Step::FlushTable => {
                let table = self.connection.table.take();
                self.touch(self.connection.leader, table.map(|(timeout, _)| timeout));
            }
            Step::FlushOfLastConnection => {
                let timeout = self.lingering.take();
                self.touch(self.leaders.len() - 1, timeout);
            }
            Step::Hang => self.connection.end(),
            Step::TakeBucket => self.leader_mut().taken = Some(self.now),
            Step::CloseSession => self.closed_at = Some(self.now),
            Step::Elect { unnoticed } => self.elect(unnoticed),
            Step::ServeLate => self.serve_late(),
        }
        self.is_client_done = !matches!(
            step,
            Step::Tick | Step::Serve | Step::Send(_) | Step::Receive | Step::Reconnect { .. }
        );
        true
    }

    /// Checks a world against the one before it.
    fn check(&self, before: &Self) -> Result<(), &'static str> {
        let bound = self.evidence.expires_after();
        let promised = before.evidence.promised(self.instant(self.now));
        // A holder reacts to the end of the lease within its pause.
        let Bounds { pause: margin, drift, .. } = self.start.assumed;
        let at_work_until = bound.map(|bound| bound + duration(self.start.actual.pause));
        let closed = self.closed_at.map(|at| self.instant(at + margin + drift));
        if closed.is_some_and(|closed| at_work_until > Some(closed)) {
            Err("the session is closed while a guard is in use")
        } else if bound < promised {
            Err("a promise is taken back")
        } else {
            Ok(())
        }
    }

    /// Returns true unless something must happen before the next time.
    fn can_tick(&self) -> bool {
        let is_last_moment = |taken| taken + self.start.actual.pass <= self.now + 1;
        let must_close =
            self.closed_at.is_none() && self.leader().taken.is_some_and(is_last_moment);
        !must_close && !self.must_flush() && self.now < self.start.until
    }

    fn must_flush(&self) -> bool {
        let since = self.connection.table.map(|(_, since)| since);
        since.is_some_and(|since| since + self.start.actual.flush <= self.now + 1)
    }

    fn reconnect(&mut self, leader: usize) {
        let (server, later) = self.left.reconnects.split_first().expect("a server is left");
        self.left.reconnects = later;
        let number = self.connection.number + 1;
        let next = Connection::new(number, *server, leader);
        let last = std::mem::replace(&mut self.connection, next);
        match last.to_server {
            Some((Packet::Connect, sent)) if !last.is_dead => {
                self.late = Some(LateConnect { number: last.number, server: last.server, sent });
            }
            _ => {}
        }
        if last.leader + 1 == self.leaders.len() {
            self.lingering = last.table.map(|(timeout, _)| timeout).or(self.lingering);
        }
        self.evidence.handshake_sent(self.instant(self.now));
        self.connection.to_server = Some((Packet::Connect, self.now));
    }

    /// Handles a packet at the server of the connection and, if it forwards it, at the leader.
    fn serve(&mut self) {
        let Some((packet, sent)) = self.connection.to_server.take() else { return };
        let Connection { number, server, leader, .. } = self.connection;
        let (is_leader, timeout) = (server == LEADER, self.grants(server));
        if packet == Packet::Connect || is_leader {
            self.touch(leader, Some(timeout));
        } else {
            let since = self.connection.table.map_or(self.now, |(_, since)| since);
            self.connection.table = Some((timeout, since));
        }
        let leads = leader + 1 == self.leaders.len();
        let owner = &mut self.leaders[leader].owner;
        let is_answered = match packet {
            Packet::Connect => {
                *owner = Some(number);
                true
            }
            Packet::Ping | Packet::Sync => true,
            Packet::Empty => leads,
            Packet::Create => leads && owner.is_none_or(|owner| owner == number),
        };
        self.connection.to_client = is_answered.then_some((packet, sent));
    }

    fn receive(&mut self) {
        let Some((packet, sent)) = self.connection.to_client.take() else { return };
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
    }

    fn elect(&mut self, unnoticed: bool) {
        self.left.elections -= 1;
        let expires = self.now + self.grants(self.start.creator) - self.start.actual.drift;
        self.leaders.push(Leader { expires, taken: None, owner: None });
        self.lingering = None;
        if !unnoticed {
            self.connection.end();
        }
    }

    /// Processes a connect request late. Its server first closes an older connection of the session.
    fn serve_late(&mut self) {
        let Some(late) = self.late.take() else { return };
        if self.connection.server == late.server && self.connection.is_accepted {
            self.connection.is_dead = true;
            self.connection.to_server = None;
        }
        self.touch(self.leaders.len() - 1, Some(self.grants(late.server)));
        self.leader_mut().owner = Some(late.number);
    }

    fn touch(&mut self, leader: usize, timeout: Option<u64>) {
        let (now, leader) = (self.now, &mut self.leaders[leader]);
        if let (Some(timeout), None) = (timeout, leader.taken) {
            leader.expires = now + timeout - self.start.actual.drift;
        }
    }

    fn leader(&self) -> &Leader {
        self.leaders.last().expect("there is always a leader")
    }

    fn leader_mut(&mut self) -> &mut Leader {
        self.leaders.last_mut().expect("there is always a leader")
    }

    fn grants(&self, server: usize) -> u64 {
        self.start.actual.grants[server]
    }

    fn instant(&self, at: u64) -> Instant {
        self.origin + duration(at)
    }
}

impl Connection {
    fn new(number: u8, server: usize, leader: usize) -> Self {
        Self {
            number,
            server,
            leader,
            is_accepted: false,
            is_dead: false,
            table: None,
            to_server: None,
            to_client: None,
        }
    }

    fn end(&mut self) {
        (self.is_dead, self.table, self.to_server) = (true, None, None);
    }
}

fn duration(time: u64) -> Duration {
    Duration::from_millis(time)
}
