//! Tests of the order of servers, the back-off, and the move to other servers.

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
fn backoff_grows_to_its_cap_and_resets_after_success() {
    for longest in [LEASE_BACKOFF_MIN, BACKOFF_MAX] {
        let (mut hosts, mut rng) = (hosts(2, 3), Rng::new(3));
        let mut failed = |hosts: &mut Hosts, reached| hosts.failed(reached, longest, &mut rng);
        assert!(failed(&mut hosts, Reached::Server) < BACKOFF_STEP);
        let pauses: Vec<Duration> = (0..200).map(|_| failed(&mut hosts, Reached::Server)).collect();
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

fn ranked(ranks: &[u16]) -> Vec<Host> {
    let hosts = (0..).map(|port| Host::new("h", port));
    hosts.zip(ranks).map(|(host, rank)| host.with_rank(*rank)).collect()
}

#[test]
fn servers_of_lower_rank_are_tried_first() {
    let mut firsts = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut hosts = Hosts::new(ranked(&[2, 1, 0, 1, 0]), &mut rng);
        let mut tried = Vec::new();
        for _ in 0..5 {
            tried.push(hosts.current().rank());
            hosts.lost(now(), Reached::NoServer, &DisconnectReason::IdleTimeout);
            hosts.failed(Reached::NoServer, BACKOFF_MAX, &mut rng);
        }
        assert_eq!(tried, [0, 0, 1, 1, 2], "seed {seed}");
        firsts.insert(Hosts::new(ranked(&[2, 1, 0, 1, 0]), &mut rng).current().port());
    }
    assert_eq!(Vec::from_iter(firsts), [2, 4], "those of one rank in a random order");
}

/// Without ranks, the next server of the lap would come first.
#[test]
fn lost_server_of_the_lowest_rank_is_tried_again_first() {
    let mut rng = Rng::new(1);
    let mut hosts = Hosts::new(ranked(&[0, 1, 2]), &mut rng);
    hosts.lost(now(), Reached::NoServer, &DisconnectReason::IdleTimeout);
    for (expected, reached) in [(1, Reached::Served), (1, Reached::NoServer), (2, Reached::Served)]
    {
        hosts.failed(reached, BACKOFF_MAX, &mut rng);
        assert_eq!(hosts.current().rank(), expected);
        hosts.lost(now(), reached, &DisconnectReason::ClosedByServer);
    }
}

/// A server in reserve must not get a share of the load, and new ranks are none of new servers.
#[test]
fn ranked_list_moves_only_clients_of_removed_servers() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut hosts = Hosts::new(ranked(&[0, 0]), &mut rng);
        let was = hosts.current().clone();
        assert!(!hosts.update(ranked(&[0, 0, 1, 1]), &mut rng), "seed {seed}");
        assert!(!hosts.update(ranked(&[1, 1, 0, 0]), &mut rng), "seed {seed}");
        assert_eq!((hosts.current(), hosts.current().rank()), (&was, 1));
        let mut others = ranked(&[1, 1, 1, 0]);
        others.retain(|host| *host != was);
        assert!(hosts.update(others, &mut rng));
        assert_eq!(hosts.current().port(), 3);
    }
}

/// The server may have another name in the new list, and the attempt may be at it or behind it.
#[test]
fn client_stays_at_its_server_in_a_list_without_it() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut hosts = Hosts::new(list(0..3), &mut rng);
        if seed % 2 == 1 {
            let serving = hosts.place();
            assert!(hosts.update(list(5..6), &mut rng));
            hosts.leave(serving, now());
        }
        let was = hosts.serving().clone();
        hosts.update_and_stay(list(6..9), &mut rng);
        assert_eq!((hosts.serving(), hosts.move_due()), (&was, None), "seed {seed}");
        assert_eq!(hosts.names(), 4);
        assert!(list(6..9).iter().all(|host| hosts.all().contains(host)));
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
        assert_eq!(hosts.names(), after.len());
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
        (Reached::Server, DisconnectReason::Rebalanced, false),
        (Reached::Up, DisconnectReason::ProcessPaused(BACKOFF_MAX), false),
        (Reached::Server, DisconnectReason::Sasl(SaslFailure::NotPrepared(late)), false),
        (Reached::Up, DisconnectReason::ReadOnly, false),
        (Reached::Server, DisconnectReason::ReadOnly, true),
        (Reached::Served, DisconnectReason::IdleTimeout, true),
        (Reached::Served, DisconnectReason::RequestTimeout, true),
        (Reached::Served, DisconnectReason::ClosedByServer, false),
        (Reached::Up, DisconnectReason::ClosedByServer, true),
    ] {
        let mut hosts = hosts(2, 1);
        hosts.lost(now(), reached, &cause);
        assert_eq!(hosts.servers[hosts.current].is_doubtful, is_doubtful, "{cause:?}");
    }
}

#[test]
fn tls_is_noted_for_the_server_that_speaks_it() {
    let mut hosts = hosts(3, 1);
    let other = hosts.servers[1].host.clone();
    assert!(hosts.set_speaks_tls(&other));
    let spoken: Vec<bool> = hosts.servers.iter().map(|server| server.tls == Tls::Spoken).collect();
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
    assert!(pauses.len() > 15 && pauses.iter().all(|pause| *pause < BACKOFF_STEP), "{pauses:?}");
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
        hosts.servers.iter().map(|server| server.host.port()).collect::<Vec<_>>()
    };
    assert_eq!(order(1, true), order(1, true));
    assert_eq!(order(1, true)[0], order(1, false)[0], "the server it is on");
    assert!((1..9).any(|seed| order(seed, true) != order(seed, false)));
}
