//! Servers of the session: which one to try next, and when.
//!
//! The connect string names hosts. A name may have several addresses, each of another server: that of a
//! headless service in Kubernetes has one for each pod. So what is known of a server belongs to its address,
//! from the time at which the name is resolved.

mod addresses;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::connect_string::Host;
use crate::limits::{BACKOFF_STEP, SASL_CLOSES_MAX, SASL_REJECTION_TIME};
use crate::rng::Rng;
use crate::{DisconnectReason, PeerProtocol, SaslFailure};

/// Servers in an order drawn once, and the back-off between attempts. The random order keeps a
/// thousand clients with the same connect string from all trying its first server.
#[derive(Debug)]
pub(super) struct Hosts {
    servers: Vec<Server>,
    /// Index of the server that the attempt is at, or the connection is to.
    current: usize,
    /// Index of the server at which the attempt began. It may have reached another address of the same name,
    /// and the next one in the lap is the one behind this.
    turn: usize,
    failures: u32,
    /// Laps in a row in which no server has answered the handshake in time.
    late_laps: u32,
    /// Index of the server that was probed last.
    probed: usize,
    /// True if the order was made for a move to other servers. It is redrawn after the move.
    moving: bool,
    /// Server that the connection is still to, although another one is tried next, and the time at
    /// which the connection is dropped.
    left: Option<(Place, Instant)>,
}

/// A server that a connection is to: its host, and the address if the host was resolved.
pub(super) type Place = (Host, Option<SocketAddr>);

#[derive(Debug)]
struct Server {
    host: Host,
    /// `None` as long as the host was not resolved.
    address: Option<SocketAddr>,
    /// True if the last attempt brought no lasting connection, or one on which the server became
    /// silent. Servers that did better, or were not tried yet, are tried first.
    is_doubtful: bool,
    /// True if the server has accepted a connection in this lap, and not answered the handshake in time.
    is_late: bool,
    /// True if the last attempt at it was an attempt at other addresses too, and reached one of those. So it
    /// does not count among the servers that refuse, as if the name had only the other one.
    was_passed_over: bool,
    /// Why the last attempt failed, or the connection ended, since the session was last connected.
    cause: Option<DisconnectReason>,
    /// True if the session was connected to the server: it accepts the credentials.
    has_accepted: bool,
    /// Connections in a row that the server closed after the client's SASL proof, if there are any.
    sasl_closes: Option<SaslCloses>,
    /// Whether its port is for TLS only, as far as it was probed.
    tls: Tls,
}

#[derive(Clone, Copy, Debug)]
struct SaslCloses {
    count: u32,
    first: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    NotAsked,
    Asked,
    Spoken,
}

/// How far a connection, or an attempt at one, came before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reached {
    /// No address of the host has accepted a connection.
    NoServer,
    /// The session did not use the connection.
    Server,
    /// The session used the connection.
    Up,
    /// The session used the connection for a while.
    Served,
}

impl Hosts {
    /// Creates the list. `hosts` must not be empty, which the parser of the connect string ensures.
    pub(super) fn new(hosts: Vec<Host>, rng: &mut Rng) -> Self {
        let mut hosts = without_repetition(hosts.iter());
        shuffle(&mut hosts, rng);
        hosts.sort_by_key(Host::rank);
        let servers = hosts.into_iter().map(|host| Server::new(host, None)).collect();
        Self {
            servers,
            current: 0,
            turn: 0,
            failures: 0,
            late_laps: 0,
            probed: 0,
            moving: false,
            left: None,
        }
    }

    pub(super) fn all(&self) -> Vec<Host> {
        without_repetition(self.servers.iter().map(|server| &server.host))
    }

    /// Returns the number of host names. The time of an attempt depends on it, and not on the number of
    /// addresses: an attempt tries several, and a lookup takes as long for one as for many.
    pub(super) fn names(&self) -> usize {
        self.all().len()
    }

    /// Returns the host of the current server, without addresses.
    pub(super) fn current(&self) -> &Host {
        &self.servers[self.current].host
    }

    /// Returns the server that the connection is to, if there is one.
    pub(super) fn serving(&self) -> &Host {
        self.left.as_ref().map_or_else(|| self.current(), |((host, _), _)| host)
    }

    /// Returns the server that the connection is to, with its address.
    pub(super) fn place(&self) -> Place {
        match &self.left {
            Some((place, _)) => place.clone(),
            None => (self.current().clone(), self.servers[self.current].address),
        }
    }

    /// Notes that the existing connection to this server will be dropped for one to the current
    /// server.
    pub(super) fn leave(&mut self, serving: Place, now: Instant) {
        self.left.get_or_insert((serving, now));
    }

    /// Returns when the connection is dropped to move to another server.
    pub(super) fn move_due(&self) -> Option<Instant> {
        self.left.as_ref().map(|(_, due)| *due)
    }

    /// Records how the connection to the current server, or the attempt at it, ended.
    pub(super) fn lost(&mut self, now: Instant, reached: Reached, cause: &DisconnectReason) {
        if reached == Reached::Served {
            self.failures = 0;
        }
        if self.left.take().is_some() {
            return; // the connection was not to the current server
        }
        // A connector that has reached a server does not say which one it was.
        let is_silence =
            matches!(cause, DisconnectReason::Unreachable(_) | DisconnectReason::IdleTimeout);
        let tried = if reached == Reached::NoServer && is_silence {
            self.raced()
        } else {
            vec![self.current]
        };
        for at in tried {
            self.servers[at].lost(now, reached, cause);
        }
    }

    /// Notes that the current server has accepted a connection, and has not answered the handshake in
    /// time. Once all servers are late that accept connections, each gets twice the time.
    pub(super) fn was_late(&mut self) {
        self.servers[self.current].is_late = true;
        let is_dead =
            |server: &Server| matches!(server.cause, Some(DisconnectReason::Unreachable(_)));
        if self.judged().all(|server| server.is_late || is_dead(server)) {
            self.servers.iter_mut().for_each(|server| server.is_late = false);
            self.late_laps = self.late_laps.saturating_add(1);
        }
    }

    pub(super) fn late_laps(&self) -> u32 {
        self.late_laps
    }

    /// Notes that the current server has created or resumed the session.
    pub(super) fn connected(&mut self, rng: &mut Rng) {
        self.late_laps = 0;
        for server in &mut self.servers {
            (server.is_late, server.was_passed_over, server.cause) = (false, false, None);
        }
        let current = &mut self.servers[self.current];
        (current.sasl_closes, current.has_accepted) = (None, true);
        if std::mem::take(&mut self.moving) {
            self.servers.swap(0, self.current);
            self.current = 0;
            shuffle(&mut self.servers[1..], rng);
        }
        self.turn = self.current;
    }

    /// Returns true if the current server has answered a TLS handshake.
    pub(super) fn speaks_tls(&self) -> bool {
        self.servers[self.current].tls == Tls::Spoken
    }

    /// Returns the current server if it has to be probed for TLS, which happens once.
    pub(super) fn is_to_be_asked_for_tls(&mut self) -> Option<Host> {
        let server = &mut self.servers[self.current];
        let is_first = server.tls == Tls::NotAsked;
        server.tls = if is_first { Tls::Asked } else { server.tls };
        is_first.then(|| server.to_probe())
    }

    /// Notes that the port of a probed server is for TLS only. Returns false if the list does not
    /// contain it.
    pub(super) fn set_speaks_tls(&mut self, probed: &Host) -> bool {
        let server = self.servers.iter_mut().find(|server| server.to_probe() == *probed);
        let cause = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
        server.map(|server| (server.tls, server.cause) = (Tls::Spoken, Some(cause))).is_some()
    }

    /// Returns true if the last attempt at each server ended at once, without a connection to a
    /// ZooKeeper server.
    pub(super) fn have_all_refused(&self) -> bool {
        self.causes().all(|cause| cause.is_some_and(DisconnectReason::is_refusal))
    }

    /// Returns true if another attempt at each server would fail as well.
    pub(super) fn are_refusals_lasting(&self) -> bool {
        self.causes().all(|cause| cause.is_some_and(DisconnectReason::is_lasting))
    }

    /// Returns true if each server has rejected the client's SASL proof. A server rejects it with an
    /// error, or with many closed connections after the proof over a long time.
    ///
    /// Once a server has sent the error, the client does not wait for servers that do not answer, except
    /// for those that have accepted the proof before. Without that wait, a server with an old list of
    /// users would end the session while the right one restarts.
    pub(super) fn have_all_rejected_sasl(&self, now: Instant) -> bool {
        let said_so =
            |server: &Server| server.cause == Some(DisconnectReason::Sasl(SaslFailure::Rejected));
        let is_rejection = |closes: SaslCloses| {
            let time = now.saturating_duration_since(closes.first);
            closes.count >= SASL_CLOSES_MAX && time >= SASL_REJECTION_TIME
        };
        let any_said_so = self.judged().any(said_so);
        let is_out = |server: &Server| {
            let is_dead = server.cause.as_ref().is_some_and(|cause| cause.weight() == 0);
            any_said_so && is_dead && !server.has_accepted
        };
        self.judged().all(|server| {
            said_so(server) || is_out(server) || server.sasl_closes.is_some_and(is_rejection)
        })
    }

    /// Returns the cause of the server whose last attempt tells most.
    pub(super) fn most_telling(&self) -> Option<&DisconnectReason> {
        self.causes().flatten().max_by_key(|cause| cause.weight())
    }

    /// Returns the cause of all servers together if some close connections and the others do not
    /// answer.
    pub(super) fn not_serving(&self) -> Option<DisconnectReason> {
        let count = |is: fn(&DisconnectReason) -> bool| {
            self.causes().flatten().filter(|cause| is(cause)).count()
        };
        let closing = count(|cause| *cause == DisconnectReason::ClosedByServer);
        let dead = count(|cause| cause.weight() == 0);
        let servers = self.judged().count();
        let is_divided = closing > 0 && dead > 0 && closing + dead == servers;
        is_divided.then_some(DisconnectReason::NotServing { closing, servers })
    }

    fn causes(&self) -> impl Iterator<Item = Option<&DisconnectReason>> {
        self.judged().map(|server| server.cause.as_ref())
    }

    fn judged(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| !server.was_passed_over)
    }

    /// Returns the next server to probe for writes, other than the current one.
    pub(super) fn next_to_probe(&mut self) -> Option<Host> {
        let count = self.servers.len();
        self.probed = (self.probed + 1) % count;
        if self.probed == self.current {
            self.probed = (self.probed + 1) % count;
        }
        (self.probed != self.current).then(|| self.servers[self.probed].to_probe())
    }

    /// Tries this probed server next, in place of the current one. Returns false if the list does not
    /// contain it.
    pub(super) fn prefer(&mut self, probed: &Host) -> bool {
        let index = self.servers.iter().position(|server| server.to_probe() == *probed);
        let Some(index) = index else { return false };
        // The attempt at another address of the same name must not end at this one again.
        self.servers[self.current].is_doubtful = true;
        self.servers[index].is_doubtful = false;
        self.turn_to(index);
        true
    }

    /// Selects the next server, and returns the pause before the attempt. `longest` is the longest step
    /// of the back-off.
    ///
    /// There is none after the first failure of a connection that was up, because a lock holder
    /// needs the next connection soon. Otherwise the pause is drawn from the upper half of a step that
    /// doubles with each failure in a row. A server without a leader accepts and closes at once, over
    /// and over, and must not be flooded with attempts.
    pub(super) fn failed(
        &mut self,
        reached: Reached,
        longest: Duration,
        rng: &mut Rng,
    ) -> Duration {
        let count = self.servers.len();
        let lap = (1..=count).map(|step| (self.turn + step) % count);
        let hopeful = lap.filter(|at| !self.servers[*at].is_doubtful);
        // The first of those with the lowest rank.
        let known = hopeful.min_by_key(|at| self.servers[*at].host.rank());
        self.turn_to(known.unwrap_or((self.turn + 1) % count));
        let earlier = self.failures;
        self.failures = earlier.saturating_add(1);
        if reached >= Reached::Up && earlier == 0 {
            return Duration::ZERO;
        }
        let step = BACKOFF_STEP.saturating_mul(1 << earlier.min(16)).min(longest);
        step / 2 + rng.duration_below(step / 2)
    }

    /// Returns the pause before a move that no failure caused. It is short, and differs between
    /// clients that receive a new list at the same time.
    pub(super) fn pause_to_move(rng: &mut Rng) -> Duration {
        rng.duration_below(BACKOFF_STEP)
    }

    /// Replaces the list of servers by the rule of the Java client (ZOOKEEPER-1355). As few clients
    /// as possible move, and the load is even afterwards. Every client decides for itself, with its
    /// own random numbers.
    ///
    /// * The list has grown. A client on a remaining server moves to a new one, with a probability
    ///   equal to the excess share of the load there. A client on a removed server moves to a new
    ///   one.
    /// * The list has not grown. A client on a remaining server stays. A client on a removed server
    ///   moves to an old or a new one, so that each receives its share of the moving clients.
    ///
    /// With ranks, the load is not meant to be even: only clients on removed servers move, to the servers of
    /// the lowest rank.
    ///
    /// Returns true if the client moves.
    pub(super) fn update(&mut self, hosts: Vec<Host>, rng: &mut Rng) -> bool {
        let earlier = self.all();
        let before = earlier.len();
        let mine = self.place().0;
        let mut hosts = without_repetition(hosts.iter());
        shuffle(&mut hosts, rng);
        let (old, new): (Vec<Host>, Vec<Host>) =
            hosts.into_iter().partition(|host| earlier.contains(host));
        let (n_old, n_all) = (old.len(), old.len() + new.len());
        let is_ranked = old.iter().chain(&new).any(|host| host.rank() != 0);
        let stays = old.contains(&mine) || new.contains(&mine);

        let moves = match (n_all > before, stays) {
            (true, true) => !is_ranked && chance(n_all - before, n_all, rng),
            (false, true) => false,
            (_, false) => true,
        };
        // Share of the moving clients that move to servers of the old list.
        let (to_old, of_all) = if n_all > before {
            (0, 1)
        } else {
            (n_old * (before - n_all), n_all * before.saturating_sub(n_old))
        };
        (self.moving, self.probed) = (moves, 0);
        if moves {
            let mut order = Vec::with_capacity(n_all);
            let (mut old, mut new) = (old.into_iter(), new.into_iter());
            while order.len() < n_all {
                let next = if chance(to_old, of_all, rng) {
                    old.next().or_else(|| new.next())
                } else {
                    new.next().or_else(|| old.next())
                };
                order.extend(next);
            }
            order.sort_by_key(Host::rank);
            self.take_order(order);
            self.turn_to(0);
            return true;
        }
        self.stay_in(old.into_iter().chain(new).collect(), rng);
        false
    }

    /// Replaces the list of servers. The client stays at its server, which is kept in the list.
    pub(super) fn update_and_stay(&mut self, hosts: Vec<Host>, rng: &mut Rng) {
        let mine = self.place().0;
        self.probed = 0;
        self.stay_in(without_repetition(hosts.iter().chain([&mine])), rng);
    }

    /// Takes these hosts in a random order. The client stays at its server, which is one of them.
    fn stay_in(&mut self, mut order: Vec<Host>, rng: &mut Rng) {
        let (mine, address) = self.place();
        shuffle(&mut order, rng);
        self.take_order(order);
        let at = |is: &dyn Fn(&Server) -> bool| self.servers.iter().position(is);
        let same_place = at(&|server| server.host == mine && server.address == address);
        let index = same_place.or_else(|| at(&|server| server.host == mine)).unwrap_or(0);
        self.turn_to(index);
        (self.left, self.moving) = (None, false);
    }

    fn turn_to(&mut self, server: usize) {
        (self.current, self.turn) = (server, server);
    }

    /// Keeps the servers of these hosts, in this order, and adds those that are new.
    fn take_order(&mut self, order: Vec<Host>) {
        let mut known = std::mem::take(&mut self.servers);
        for host in order {
            let (mut own, others) = known.into_iter().partition(|server| server.host == host);
            known = others;
            own.iter_mut().for_each(|server| server.host = host.clone());
            if Vec::is_empty(&own) {
                own.push(Server::new(host, None));
            }
            self.servers.append(&mut own);
        }
    }
}

impl Server {
    fn new(host: Host, address: Option<SocketAddr>) -> Self {
        Self {
            host,
            address,
            is_doubtful: false,
            is_late: false,
            was_passed_over: false,
            cause: None,
            has_accepted: false,
            sasl_closes: None,
            tls: Tls::NotAsked,
        }
    }

    /// Returns the host with the address of this server alone.
    fn to_probe(&self) -> Host {
        self.host.clone().with_addresses(self.address.into_iter().collect())
    }

    /// Records how the connection to this server, or the attempt at it, ended.
    fn lost(&mut self, now: Instant, reached: Reached, cause: &DisconnectReason) {
        (self.cause, self.was_passed_over) = (Some(cause.clone()), false);
        let earlier = self.sasl_closes.take();
        if *cause == DisconnectReason::Sasl(SaslFailure::ClosedByServer) {
            let SaslCloses { count, first } =
                earlier.unwrap_or(SaslCloses { count: 0, first: now });
            self.sasl_closes = Some(SaslCloses { count: count.saturating_add(1), first });
        }
        match cause {
            // The server is not at fault, or was not tried yet.
            DisconnectReason::Rebalanced | DisconnectReason::ProcessPaused(_) => {}
            DisconnectReason::Sasl(SaslFailure::NotPrepared(_)) => {}
            DisconnectReason::ReadOnly if reached >= Reached::Up => {}
            // A server that hangs is likely to keep hanging, and each attempt at it takes a part of
            // the session's time.
            DisconnectReason::IdleTimeout | DisconnectReason::RequestTimeout => {
                self.is_doubtful = true;
            }
            _ => self.is_doubtful = reached != Reached::Served,
        }
    }
}

/// Returns the hosts, each of them once.
fn without_repetition<'a>(hosts: impl Iterator<Item = &'a Host>) -> Vec<Host> {
    let mut kept = Vec::new();
    for host in hosts {
        if !kept.contains(host) {
            kept.push(host.clone());
        }
    }
    kept
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
        items.swap(last, usize::try_from(rng.below(bound)).unwrap_or(0));
    }
}

/// Returns true with a probability of `part` in `whole`.
fn chance(part: usize, whole: usize, rng: &mut Rng) -> bool {
    let whole = u64::try_from(whole).unwrap_or(u64::MAX);
    rng.below(whole) < u64::try_from(part).unwrap_or(u64::MAX)
}
