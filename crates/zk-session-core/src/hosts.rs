//! Which server to try next, and when.

use std::time::{Duration, Instant};

use super::rng::Rng;
use crate::LossCause;
use crate::connect_string::Host;
use crate::limits::{BACKOFF_MAX, BACKOFF_STEP, BEHIND_SKIP};
use crate::planted::Planted;

/// The servers in an order drawn once, so that a thousand clients with the same
/// connect string do not all go to the first of it; and the back-off between
/// attempts.
#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Entry>,
    current: usize,
    failures: u32,
    /// The one that was last asked whether it takes writes.
    probed: usize,
    /// The order was made for a move to other servers, and is drawn afresh after it.
    moving: bool,
    /// The one that the connection is still to, although another one comes next.
    left: Option<Host>,
}

#[derive(Debug)]
struct Entry {
    host: Host,
    /// Passed over until then, if there is anybody else.
    skip_until: Option<Instant>,
    /// The last attempt brought no connection that held for a while, or one on which the
    /// server fell silent: those go first that did better, or that were not tried yet.
    is_doubtful: bool,
    refusal: Refusal,
    /// Whether its port is for TLS only, once it was asked.
    tls: Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    NotAsked,
    Asked,
    Spoken,
}

/// What the last attempt at a server brought, if it ended at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    None,
    /// No connection.
    Unreachable,
    /// Something that is no ZooKeeper server.
    Foreign,
}

/// What a new list means for the connection there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebalance {
    Stay,
    Move,
}

impl Hosts {
    /// `hosts` must not be empty; the connect string's parser sees to that.
    pub(super) fn new(hosts: Vec<Host>, rng: &mut Rng) -> Self {
        let mut hosts = entries(hosts);
        shuffle(&mut hosts, rng);
        Self { hosts, current: 0, failures: 0, probed: 0, moving: false, left: None }
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

    /// The one that the connection is to, if there is one.
    pub(super) fn serving(&self) -> &Host {
        self.left.as_ref().unwrap_or_else(|| self.current())
    }

    /// The connection, which is up, will be given up for one to the current host.
    pub(super) fn leave(&mut self, serving: Host) {
        self.left.get_or_insert(serving);
    }

    /// The connection to the current host is over, or the attempt at it: what that says
    /// of it. It has served if the connection was up for a while.
    pub(super) fn lost(&mut self, was_up: bool, has_served: bool, cause: LossCause) {
        if has_served {
            self.failures = 0;
        }
        if self.left.take().is_some() {
            return; // of the one that comes next nothing is known
        }
        let entry = &mut self.hosts[self.current];
        entry.refusal = match cause {
            LossCause::NotZooKeeper(_) => Refusal::Foreign,
            cause if cause.is_refusal() => Refusal::Unreachable,
            _ => Refusal::None,
        };
        match cause {
            // It is left for a better one, or was not tried yet.
            LossCause::Rebalanced | LossCause::ProcessPaused(_) => {}
            LossCause::ReadOnly if was_up => {}
            // One that hangs is likely to go on doing so, and each attempt at it costs a
            // part of the session's time.
            LossCause::Silent | LossCause::Stalled => entry.is_doubtful = true,
            _ => entry.is_doubtful = !has_served,
        }
    }

    /// The current host has given or kept the session.
    pub(super) fn connected(&mut self, rng: &mut Rng) {
        self.hosts[self.current].skip_until = None;
        if std::mem::take(&mut self.moving) {
            self.hosts.swap(0, self.current);
            self.current = 0;
            shuffle(&mut self.hosts[1..], rng);
        }
    }

    /// True if the current host has answered a TLS handshake.
    pub(super) fn speaks_tls(&self) -> bool {
        self.hosts[self.current].tls == Tls::Spoken
    }

    /// The current host, if it is to be asked for TLS: once.
    pub(super) fn is_to_be_asked_for_tls(&mut self) -> Option<Host> {
        let entry = &mut self.hosts[self.current];
        let is_first = entry.tls == Tls::NotAsked;
        entry.tls = if is_first { Tls::Asked } else { entry.tls };
        is_first.then(|| entry.host.clone())
    }

    /// The port of the host is for TLS only; false if it is none of these.
    pub(super) fn set_speaks_tls(&mut self, host: &Host) -> bool {
        let entry = self.hosts.iter_mut().find(|entry| entry.host == *host);
        entry.map(|entry| (entry.tls, entry.refusal) = (Tls::Spoken, Refusal::Foreign)).is_some()
    }

    /// True if the last attempt at each ended at once, without a connection to a ZooKeeper server.
    pub(super) fn have_all_refused(&self) -> bool {
        self.hosts.iter().all(|entry| entry.refusal != Refusal::None)
    }

    /// True if none is a ZooKeeper server.
    pub(super) fn are_all_foreign(&self) -> bool {
        self.hosts.iter().all(|entry| entry.refusal == Refusal::Foreign)
    }

    /// The next one to be asked whether it takes writes, other than the current one.
    pub(super) fn next_to_probe(&mut self) -> Option<Host> {
        let count = self.hosts.len();
        self.probed = (self.probed + 1) % count;
        if self.probed == self.current {
            self.probed = (self.probed + 1) % count;
        }
        (self.probed != self.current).then(|| self.hosts[self.probed].host.clone())
    }

    /// Tries this host next, if it is one of them.
    pub(super) fn prefer(&mut self, host: &Host) -> bool {
        let index = self.hosts.iter().position(|entry| entry.host == *host);
        self.current = index.unwrap_or(self.current);
        index.is_some()
    }

    /// The current host takes connections and will not have the session: it is behind
    /// what the session has seen, is not serving yet, or has lost its quorum. None of
    /// that is over in a moment.
    pub(super) fn skip_current(&mut self, now: Instant) {
        self.hosts[self.current].skip_until = Some(now + BEHIND_SKIP);
    }

    /// Gives up on the current host and says how long to wait for the next one.
    ///
    /// The pause is drawn below a step that doubles with each failure in a row,
    /// and is never longer than [`BACKOFF_MAX`]: a server that is behind accepts
    /// and closes at once, over and over, and must not be hammered.
    pub(super) fn failed(&mut self, now: Instant, rng: &mut Rng) -> Duration {
        let count = self.hosts.len();
        let lap = (1..=count).map(|step| (self.current + step) % count);
        let awaited = |entry: &Entry| entry.skip_until.is_some_and(|until| until > now);
        let known =
            lap.clone().find(|at| !awaited(&self.hosts[*at]) && !self.hosts[*at].is_doubtful);
        let next = known.or_else(|| lap.clone().find(|at| !awaited(&self.hosts[*at])));
        self.current = next.unwrap_or((self.current + 1) % count);
        if Planted::SpinOnReconnect.is_on() {
            return Duration::from_millis(1);
        }
        let step = BACKOFF_STEP.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        pause_below(step, rng)
    }

    /// The pause before a move that is nobody's failure: short, and not the same for
    /// all the clients that get a new list at the same time.
    pub(super) fn pause_to_move(rng: &mut Rng) -> Duration {
        pause_below(BACKOFF_STEP, rng)
    }

    /// Takes over a new list of servers, by the rule of the Java client
    /// (ZOOKEEPER-1355), under which as few clients as possible move and the load is
    /// even afterwards. Every client decides for itself, by its own random numbers.
    ///
    /// * The list has grown: who is on a server that stays moves to a new one with the
    ///   share of the load that is too much there. Who is on one that goes moves to a
    ///   new one.
    /// * It has not: who is on a server that stays does so. Who is not moves to one of
    ///   the old ones or of the new ones, so that each gets its share of those who move.
    pub(super) fn update(&mut self, hosts: Vec<Host>, rng: &mut Rng) -> Rebalance {
        let before = self.hosts.len();
        let mine = self.serving().clone();
        let mut hosts = entries(hosts);
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
        // The share of those who move that goes to servers that were there before.
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
            return Rebalance::Move;
        }
        self.hosts = old.into_iter().chain(new).collect();
        shuffle(&mut self.hosts, rng);
        self.current = self.hosts.iter().position(|entry| entry.host == mine).unwrap_or(0);
        self.left = None;
        Rebalance::Stay
    }
}

/// A server that is named twice is one.
fn entries(hosts: Vec<Host>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(hosts.len());
    for host in hosts {
        if entries.iter().all(|entry| entry.host != host) {
            let (refusal, tls) = (Refusal::None, Tls::NotAsked);
            entries.push(Entry { host, skip_until: None, is_doubtful: false, refusal, tls });
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

/// True in `part` of `whole` cases.
fn chance(part: usize, whole: usize, rng: &mut Rng) -> bool {
    let whole = u64::try_from(whole).unwrap_or(u64::MAX);
    rng.below(whole) < u64::try_from(part).unwrap_or(u64::MAX)
}

fn pause_below(step: Duration, rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.below(u64::try_from(step.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_host_comes_up_once_a_lap_in_an_order_the_seed_decides() {
        let lap = |seed| {
            let (mut hosts, mut rng) = (hosts(5, seed), Rng::new(0));
            let ports: Vec<u16> = (0..5)
                .map(|_| {
                    let port = hosts.current().port();
                    hosts.failed(now(), &mut rng);
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
    fn the_back_off_grows_to_its_cap_and_starts_afresh_after_a_success() {
        let (mut hosts, mut rng, now) = (hosts(2, 3), Rng::new(3), now());
        assert!(hosts.failed(now, &mut rng) < BACKOFF_STEP);
        let pauses: Vec<Duration> = (0..200).map(|_| hosts.failed(now, &mut rng)).collect();
        assert!(pauses.iter().all(|pause| *pause < BACKOFF_MAX));
        let mean = pauses[20..].iter().sum::<Duration>() / 180;
        assert!(mean > BACKOFF_MAX / 3, "{mean:?}: drawn over the whole step");
        hosts.lost(true, true, LossCause::ClosedByServer);
        assert!(hosts.failed(now, &mut rng) < BACKOFF_STEP);
    }

    #[test]
    fn a_server_that_is_behind_is_passed_over_for_a_while() {
        let (mut hosts, mut rng, now) = (hosts(3, 5), Rng::new(5), now());
        let behind = hosts.current().clone();
        hosts.skip_current(now);
        for _ in 0..10 {
            hosts.failed(now, &mut rng);
            assert_ne!(*hosts.current(), behind);
        }
        let mut came = |at| {
            (0..3).any(|_| {
                hosts.failed(at, &mut rng);
                *hosts.current() == behind
            })
        };
        assert!(!came(now + BEHIND_SKIP - Duration::from_millis(1)));
        assert!(came(now + BEHIND_SKIP));
    }

    #[test]
    fn when_all_are_behind_they_take_turns() {
        let (mut hosts, mut rng, now) = (hosts(3, 5), Rng::new(5), now());
        let mut tried = Vec::new();
        for _ in 0..6 {
            tried.push(hosts.current().port());
            hosts.skip_current(now);
            hosts.failed(now, &mut rng);
        }
        assert_eq!(tried[..3], tried[3..]);
    }

    /// Where 12,000 clients of the servers `before` end up, and how many moved.
    fn spread(before: std::ops::Range<u16>, after: std::ops::Range<u16>) -> (Vec<usize>, usize) {
        let (mut load, mut moved) = (vec![0; after.end.into()], 0);
        for seed in 0..12_000 {
            let mut rng = Rng::new(seed);
            let mut hosts = Hosts::new(list(before.clone()), &mut rng);
            let was = hosts.current().clone();
            let rebalance = hosts.update(list(after.clone()), &mut rng);
            assert_eq!(hosts.count(), after.len());
            assert!(rebalance == Rebalance::Move || *hosts.current() == was);
            moved += usize::from(rebalance == Rebalance::Move);
            load[usize::from(hosts.current().port())] += 1;
        }
        (load, moved)
    }

    fn close_to(n: usize, expected: usize) {
        assert!(n.abs_diff(expected) < expected / 10, "{n} instead of about {expected}");
    }

    #[test]
    fn after_an_update_the_load_is_even_and_few_have_moved() {
        // Grown: 2 of 5 servers are new, so two fifths move.
        let (load, moved) = spread(0..3, 0..5);
        load.iter().for_each(|n| close_to(*n, 2400));
        close_to(moved, 4800);
        // Shrunk: only those move whose server is gone.
        let (load, moved) = spread(0..5, 0..3);
        load.iter().for_each(|n| close_to(*n, 4000));
        close_to(moved, 4800);
        // One replaced.
        let (load, moved) = spread(0..3, 1..4);
        load[1..].iter().for_each(|n| close_to(*n, 4000));
        close_to(moved, 4000);
        // Nothing in common; and the same list again.
        assert_eq!(spread(0..3, 3..6).1, 12_000);
        assert_eq!(spread(0..3, 0..3).1, 0);
    }

    #[test]
    fn an_update_is_decided_by_the_seed_and_forgets_its_order_once_connected() {
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
