//! Servers of the session: which one to try next, and when.

use std::time::{Duration, Instant};

use crate::connect_string::Host;
use crate::limits::{BACKOFF_STEP, SASL_CLOSES_MAX, SASL_REJECTION_TIME};
use crate::rng::Rng;
use crate::{DisconnectReason, PeerProtocol, SaslFailure};

/// Servers in an order drawn once, and the back-off between attempts. The random order keeps a
/// thousand clients with the same connect string from all trying its first server.
#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Entry>,
    current: usize,
    failures: u32,
    /// Laps in a row in which no server has answered the handshake in time.
    late_laps: u32,
    /// Index of the server that was probed last.
    probed: usize,
    /// True if the order was made for a move to other servers. It is redrawn after the move.
    moving: bool,
    /// Server that the connection is still to, although another one is tried next, and the time at
    /// which the connection is dropped.
    left: Option<(Host, Instant)>,
}

#[derive(Debug)]
struct Entry {
    host: Host,
    /// True if the last attempt brought no lasting connection, or one on which the server became
    /// silent. Servers that did better, or were not tried yet, are tried first.
    is_doubtful: bool,
    /// True if the server has accepted a connection in this lap, and not answered the handshake in time.
    is_late: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// The session did not use the connection.
    Nothing,
    /// The session used the connection.
    Up,
    /// The session used the connection for a while.
    Served,
}

impl Hosts {
    /// Creates the list. `hosts` must not be empty, which the parser of the connect string ensures.
    pub(super) fn new(hosts: Vec<Host>, rng: &mut Rng) -> Self {
        let mut hosts = entries(hosts);
        shuffle(&mut hosts, rng);
        Self { hosts, current: 0, failures: 0, late_laps: 0, probed: 0, moving: false, left: None }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|entry| &entry.host)
    }

    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn current(&self) -> &Host {
        &self.hosts[self.current].host
    }

    /// Returns the server that the connection is to, if there is one.
    pub(super) fn serving(&self) -> &Host {
        self.left.as_ref().map_or_else(|| self.current(), |(host, _)| host)
    }

    /// Notes that the existing connection to `serving` will be dropped for one to the current
    /// server.
    pub(super) fn leave(&mut self, serving: Host, now: Instant) {
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
        let entry = &mut self.hosts[self.current];
        entry.cause = Some(cause.clone());
        let earlier = entry.sasl_closes.take();
        if *cause == DisconnectReason::Sasl(SaslFailure::ClosedByServer) {
            let SaslCloses { count, first } =
                earlier.unwrap_or(SaslCloses { count: 0, first: now });
            entry.sasl_closes = Some(SaslCloses { count: count.saturating_add(1), first });
        }
        match cause {
            // The server is not at fault, or was not tried yet.
            DisconnectReason::Rebalanced | DisconnectReason::ProcessPaused(_) => {}
            DisconnectReason::Sasl(SaslFailure::NotPrepared(_)) => {}
            DisconnectReason::ReadOnly if reached != Reached::Nothing => {}
            // A server that hangs is likely to keep hanging, and each attempt at it takes a part of
            // the session's time.
            DisconnectReason::IdleTimeout | DisconnectReason::RequestTimeout => {
                entry.is_doubtful = true
            }
            _ => entry.is_doubtful = reached != Reached::Served,
        }
    }

    /// Notes that the current server has accepted a connection, and has not answered the handshake in
    /// time. Once all servers are late, each gets twice the time.
    pub(super) fn was_late(&mut self) {
        self.hosts[self.current].is_late = true;
        if self.hosts.iter().all(|entry| entry.is_late) {
            self.hosts.iter_mut().for_each(|entry| entry.is_late = false);
            self.late_laps = self.late_laps.saturating_add(1);
        }
    }

    pub(super) fn late_laps(&self) -> u32 {
        self.late_laps
    }

    /// Notes that the current server has created or resumed the session.
    pub(super) fn connected(&mut self, rng: &mut Rng) {
        self.late_laps = 0;
        self.hosts.iter_mut().for_each(|entry| entry.is_late = false);
        self.hosts[self.current].sasl_closes = None;
        self.hosts[self.current].has_accepted = true;
        self.hosts.iter_mut().for_each(|entry| entry.cause = None);
        if std::mem::take(&mut self.moving) {
            self.hosts.swap(0, self.current);
            self.current = 0;
            shuffle(&mut self.hosts[1..], rng);
        }
    }

    /// Returns true if the current server has answered a TLS handshake.
    pub(super) fn speaks_tls(&self) -> bool {
        self.hosts[self.current].tls == Tls::Spoken
    }

    /// Returns the current server if it has to be probed for TLS, which happens once.
    pub(super) fn is_to_be_asked_for_tls(&mut self) -> Option<Host> {
        let entry = &mut self.hosts[self.current];
        let is_first = entry.tls == Tls::NotAsked;
        entry.tls = if is_first { Tls::Asked } else { entry.tls };
        is_first.then(|| entry.host.clone())
    }

    /// Notes that the port of this host is for TLS only. Returns false if the list does not contain
    /// it.
    pub(super) fn set_speaks_tls(&mut self, host: &Host) -> bool {
        let entry = self.hosts.iter_mut().find(|entry| entry.host == *host);
        let cause = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
        entry.map(|entry| (entry.tls, entry.cause) = (Tls::Spoken, Some(cause))).is_some()
    }

    /// Returns true if the last attempt at each server ended at once, without a connection to a
    /// ZooKeeper server.
    pub(super) fn have_all_refused(&self) -> bool {
        self.causes().all(|cause| cause.is_some_and(DisconnectReason::is_refusal))
    }

    /// Returns true if another attempt at each host would fail as well.
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
            |entry: &Entry| entry.cause == Some(DisconnectReason::Sasl(SaslFailure::Rejected));
        let is_rejection = |closes: SaslCloses| {
            let time = now.saturating_duration_since(closes.first);
            closes.count >= SASL_CLOSES_MAX && time >= SASL_REJECTION_TIME
        };
        let any_said_so = self.hosts.iter().any(said_so);
        let is_out = |entry: &Entry| {
            let is_dead = entry.cause.as_ref().is_some_and(|cause| cause.weight() == 0);
            any_said_so && is_dead && !entry.has_accepted
        };
        self.hosts.iter().all(|entry| {
            said_so(entry) || is_out(entry) || entry.sasl_closes.is_some_and(is_rejection)
        })
    }

    /// Returns the cause of the server whose last attempt tells most.
    pub(super) fn most_telling(&self) -> Option<&DisconnectReason> {
        self.causes().flatten().max_by_key(|cause| cause.weight())
    }

    /// Returns the cause of all servers together if some close connections and the others do not
    /// answer.
    pub(super) fn not_serving(&self) -> Option<DisconnectReason> {
        let count =
            |is: fn(&DisconnectReason) -> bool| self.causes().flatten().filter(|it| is(it)).count();
        let closing = count(|cause| *cause == DisconnectReason::ClosedByServer);
        let dead = count(|cause| cause.weight() == 0);
        let servers = self.hosts.len();
        let is_divided = closing > 0 && dead > 0 && closing + dead == servers;
        is_divided.then_some(DisconnectReason::NotServing { closing, servers })
    }

    fn causes(&self) -> impl Iterator<Item = Option<&DisconnectReason>> {
        self.hosts.iter().map(|entry| entry.cause.as_ref())
    }

    /// Returns the next server to probe for writes, other than the current one.
    pub(super) fn next_to_probe(&mut self) -> Option<Host> {
        let count = self.hosts.len();
        self.probed = (self.probed + 1) % count;
        if self.probed == self.current {
            self.probed = (self.probed + 1) % count;
        }
        (self.probed != self.current).then(|| self.hosts[self.probed].host.clone())
    }

    /// Tries this host next. Returns false if the list does not contain it.
    pub(super) fn prefer(&mut self, host: &Host) -> bool {
        let index = self.hosts.iter().position(|entry| entry.host == *host);
        self.current = index.unwrap_or(self.current);
        index.is_some()
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
        let count = self.hosts.len();
        let mut lap = (1..=count).map(|step| (self.current + step) % count);
        let known = lap.find(|at| !self.hosts[*at].is_doubtful);
        self.current = known.unwrap_or((self.current + 1) % count);
        let earlier = self.failures;
        self.failures = earlier.saturating_add(1);
        if reached != Reached::Nothing && earlier == 0 {
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
    /// Returns true if the client moves.
    pub(super) fn update(&mut self, hosts: Vec<Host>, rng: &mut Rng) -> bool {
        let before = self.hosts.len();
        let mine = self.serving().clone();
        let mut hosts = entries(hosts);
        let accepted =
            |host: &Host| self.hosts.iter().any(|old| old.has_accepted && old.host == *host);
        hosts.iter_mut().for_each(|entry| entry.has_accepted = accepted(&entry.host));
        shuffle(&mut hosts, rng);
        let was_there = |entry: &Entry| self.hosts.iter().any(|old| old.host == entry.host);
        let (old, new): (Vec<Entry>, Vec<Entry>) = hosts.into_iter().partition(was_there);
        let (n_old, n_all) = (old.len(), old.len() + new.len());
        let stays = old.iter().chain(&new).any(|entry| entry.host == mine);

        let moves = match (n_all > before, stays) {
            (true, true) => chance(n_all - before, n_all, rng),
            (false, true) => false,
            (_, false) => true,
        };
        // Share of the moving clients that move to servers of the old list.
        let (to_old, of_all) = match n_all > before {
            true => (0, 1),
            false => (n_old * (before - n_all), n_all * before.saturating_sub(n_old)),
        };
        (self.moving, self.probed) = (moves, 0);
        if moves {
            self.hosts = Vec::with_capacity(n_all);
            let (mut old, mut new) = (old.into_iter(), new.into_iter());
            while self.hosts.len() < n_all {
                let next = match chance(to_old, of_all, rng) {
                    true => old.next().or_else(|| new.next()),
                    false => new.next().or_else(|| old.next()),
                };
                self.hosts.extend(next);
            }
            self.current = 0;
            return true;
        }
        self.hosts = old.into_iter().chain(new).collect();
        shuffle(&mut self.hosts, rng);
        self.current = self.hosts.iter().position(|entry| entry.host == mine).unwrap_or(0);
        self.left = None;
        false
    }
}

/// Creates the entries. A server that is named twice counts once.
fn entries(hosts: Vec<Host>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(hosts.len());
    for host in hosts {
        if entries.iter().all(|entry| entry.host != host) {
            entries.push(Entry {
                host,
                is_doubtful: false,
                is_late: false,
                cause: None,
                has_accepted: false,
                sasl_closes: None,
                tls: Tls::NotAsked,
            });
        }
    }
    entries
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BACKOFF_MAX, LEASE_BACKOFF_MIN};

    fn list(ports: impl IntoIterator<Item = u16>) -> Vec<Host> {
        ports.into_iter().map(|port| Host::new("h", port)).collect()
    }

    fn hosts(n: u16, seed: u128) -> Hosts {
        Hosts::new(list(0..n), &mut Rng::new(seed))
    }

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn hosts_are_tried_once_per_lap_in_seeded_order() {
        let lap = |seed| {
            let (mut hosts, mut rng) = (hosts(5, seed), Rng::new(0));
            let ports: Vec<u16> = (0..5)
                .map(|_| {
                    let port = hosts.current().port();
                    hosts.failed(Reached::Nothing, BACKOFF_MAX, &mut rng);
                    port
                })
                .collect();
            ports
        };
        let mut sorted = lap(1);
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
        assert_eq!(lap(1), lap(1));
        assert!((2..20).any(|seed| lap(seed) != lap(1)));
    }

    #[test]
    fn backoff_grows_to_its_cap_and_resets_after_success() {
        for longest in [LEASE_BACKOFF_MIN, BACKOFF_MAX] {
            let (mut hosts, mut rng) = (hosts(2, 3), Rng::new(3));
            let mut failed = |hosts: &mut Hosts, reached| hosts.failed(reached, longest, &mut rng);
            assert!(failed(&mut hosts, Reached::Nothing) < BACKOFF_STEP);
            let pauses: Vec<Duration> =
                (0..200).map(|_| failed(&mut hosts, Reached::Nothing)).collect();
            assert!(pauses[20..].iter().all(|pause| (longest / 2..longest).contains(pause)));
            let mean = pauses[20..].iter().sum::<Duration>() / 180;
            let around = longest * 7 / 10..longest * 8 / 10;
            assert!(around.contains(&mean), "{mean:?}: drawn over the upper half of the step");
            hosts.lost(now(), Reached::Served, &DisconnectReason::ClosedByServer);
            assert_eq!(failed(&mut hosts, Reached::Up), Duration::ZERO);
            let second = failed(&mut hosts, Reached::Up);
            assert!((BACKOFF_STEP..2 * BACKOFF_STEP).contains(&second), "{second:?}");
        }
    }

    /// Returns the load of the servers after 12,000 clients of `before` received `after`, and how
    /// many clients moved.
    fn spread(before: std::ops::Range<u16>, after: std::ops::Range<u16>) -> (Vec<usize>, usize) {
        let (mut load, mut moved) = (vec![0; after.end.into()], 0);
        for seed in 0..12_000 {
            let mut rng = Rng::new(seed);
            let mut hosts = Hosts::new(list(before.clone()), &mut rng);
            let was = hosts.current().clone();
            let moves = hosts.update(list(after.clone()), &mut rng);
            assert_eq!(hosts.count(), after.len());
            assert!(moves || *hosts.current() == was);
            moved += usize::from(moves);
            load[usize::from(hosts.current().port())] += 1;
        }
        (load, moved)
    }

    fn close_to(n: usize, expected: usize) {
        assert!(n.abs_diff(expected) < expected / 10, "{n} instead of about {expected}");
    }

    /// A doubtful server is tried last. A server that is not at fault must keep its place.
    #[test]
    fn server_is_doubtful_only_if_it_is_at_fault() {
        use crate::IoFailure;
        let late = IoFailure::from(std::io::ErrorKind::TimedOut);
        for (reached, cause, is_doubtful) in [
            (Reached::Nothing, DisconnectReason::Rebalanced, false),
            (Reached::Up, DisconnectReason::ProcessPaused(BACKOFF_MAX), false),
            (Reached::Nothing, DisconnectReason::Sasl(SaslFailure::NotPrepared(late)), false),
            (Reached::Up, DisconnectReason::ReadOnly, false),
            (Reached::Nothing, DisconnectReason::ReadOnly, true),
            (Reached::Served, DisconnectReason::IdleTimeout, true),
            (Reached::Served, DisconnectReason::RequestTimeout, true),
            (Reached::Served, DisconnectReason::ClosedByServer, false),
            (Reached::Up, DisconnectReason::ClosedByServer, true),
        ] {
            let mut hosts = hosts(2, 1);
            hosts.lost(now(), reached, &cause);
            assert_eq!(hosts.hosts[hosts.current].is_doubtful, is_doubtful, "{cause:?}");
        }
    }

    #[test]
    fn tls_is_noted_for_the_server_that_speaks_it() {
        let mut hosts = hosts(3, 1);
        let other = hosts.hosts[1].host.clone();
        assert!(hosts.set_speaks_tls(&other));
        let spoken: Vec<bool> = hosts.hosts.iter().map(|it| it.tls == Tls::Spoken).collect();
        assert_eq!(spoken, [false, true, false]);
        assert!(!hosts.set_speaks_tls(&Host::new("unknown", 1)));
    }

    /// Otherwise all clients would move at the same moment.
    #[test]
    fn pauses_before_a_move_are_random() {
        let mut rng = Rng::new(1);
        let mut pauses: Vec<Duration> = (0..20).map(|_| Hosts::pause_to_move(&mut rng)).collect();
        pauses.sort_unstable();
        pauses.dedup();
        assert!(pauses.len() > 15 && pauses.iter().all(|it| *it < BACKOFF_STEP), "{pauses:?}");
    }

    #[test]
    fn server_list_update_balances_load_with_few_moves() {
        // Grown: 2 of 5 servers are new, so two fifths move.
        let (load, moved) = spread(0..3, 0..5);
        load.iter().for_each(|n| close_to(*n, 2400));
        close_to(moved, 4800);
        // Shrunk: only the clients of removed servers move.
        let (load, moved) = spread(0..5, 0..3);
        load.iter().for_each(|n| close_to(*n, 4000));
        close_to(moved, 4800);
        // One server replaced.
        let (load, moved) = spread(0..3, 1..4);
        load[1..].iter().for_each(|n| close_to(*n, 4000));
        close_to(moved, 4000);
        // Shrunk, with one new server.
        let (load, moved) = spread(0..5, 3..6);
        load[3..].iter().for_each(|n| close_to(*n, 4000));
        close_to(moved, 7200);
        // No server in common; and the same list again.
        assert_eq!(spread(0..3, 3..6).1, 12_000);
        assert_eq!(spread(0..3, 0..3).1, 0);
    }

    #[test]
    fn updated_order_follows_seed_and_is_redrawn_on_connect() {
        let order = |seed: u128, connect: bool| {
            let mut rng = Rng::new(seed);
            let mut hosts = Hosts::new(list(0..3), &mut rng);
            hosts.update(list(3..9), &mut rng);
            if connect {
                hosts.connected(&mut rng);
            }
            hosts.hosts.iter().map(|entry| entry.host.port()).collect::<Vec<_>>()
        };
        assert_eq!(order(1, true), order(1, true));
        assert_eq!(order(1, true)[0], order(1, false)[0], "the server it is on");
        assert!((1..9).any(|seed| order(seed, true) != order(seed, false)));
    }
}
