//! Back-off between connection attempts, and the choice of the server.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proto::{ErrorCode, OpCode, Zxid};
use zk_session_core::WatchKind;
use zk_session_core::limits::BACKOFF_MAX;
use zk_session_core::{DisconnectReason, ErrorKind, Host, Outcome, SessionEvent};

use crate::harness::{Servers, T, World, ms};
use crate::script::acceptance;

fn world(servers: Servers, hosts: u16, seed: u128) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = (1..=hosts).map(|port| Host::new("h", port)).collect();
        settings.seed = seed;
    });
    world.servers = servers;
    world
}

fn pauses(world: &World) -> Vec<Duration> {
    let times: Vec<Duration> = world.attempts().iter().map(|(at, _)| *at).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn pauses_grow_to_a_bound_and_are_random_near_it() {
    let mut world = world(Servers::Refuse, 3, 1);
    world.advance(ms(120_000));
    let pauses = pauses(&world);
    assert!(pauses.iter().all(|pause| *pause < BACKOFF_MAX));
    assert!(pauses[0] < ms(20) && pauses[1] < ms(40) && pauses[2] < ms(80));
    let late = &pauses[10..];
    assert!(late.iter().all(|pause| *pause >= BACKOFF_MAX / 2));
    assert!(late.iter().any(|pause| *pause < BACKOFF_MAX * 5 / 8));
    assert!(late.iter().any(|pause| *pause > BACKOFF_MAX * 7 / 8));
    world.finish();
}

#[test]
fn clients_with_different_seeds_retry_at_different_times() {
    let times = |seed| {
        let mut world = world(Servers::Refuse, 1, seed);
        world.advance(T);
        let times = world.attempts();
        world.finish();
        times
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1)[1..], times(2)[1..]);
}

#[test]
fn attempts_are_limited_when_servers_refuse_or_close() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Greet] {
        let mut world = world(servers, 1, 7);
        world.advance(ms(60_000));
        let attempts = world.attempts();
        let first = attempts.iter().filter(|(at, _)| *at < ms(1000)).count();
        assert!(first < 20, "{servers:?}: {first} attempts in the first second");
        assert!(
            (60..240).contains(&attempts.len()),
            "{servers:?}: {} attempts in a minute",
            attempts.len()
        );
        world.finish();
    }
}

#[test]
fn attempts_are_limited_when_set_watches_is_rejected() {
    let mut world = world(Servers::Scripted, 1, 7);
    world.bring_up();
    world.watch(WatchKind::Data, "/a");
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.cut();
    for _ in 0..40 {
        world.bring_up();
        let frame = world.take(OpCode::SetWatches);
        world.answer(&frame, Zxid(9), ErrorCode::MARSHALLING_ERROR, &());
        assert!(!world.session.is_connected());
    }
    assert!(world.now() > ms(10_000), "{:?}", world.now());
    world.finish();
}

#[test]
fn stable_connection_is_replaced_at_once_after_a_loss() {
    let mut world = world(Servers::Refuse, 1, 3);
    world.advance(ms(20_000));
    world.servers = Servers::Serve;
    world.advance(T);
    assert!(world.session.is_connected());
    world.cut();
    let lost = world.now();
    world.advance(ms(20));
    assert!(world.session.is_connected());
    assert!(world.attempts().last().unwrap().0 < lost + ms(20));
    world.finish();
}

#[test]
fn hosts_are_tried_in_rotation() {
    let mut world = world(Servers::Refuse, 5, 11);
    world.advance(ms(60_000));
    let ports: Vec<u16> = world.attempts().iter().map(|(_, host)| host.port()).collect();
    let lap: BTreeSet<u16> = ports[..5].iter().copied().collect();
    assert_eq!(lap.len(), 5);
    assert!(ports.windows(6).all(|six| six[0] == six[5]));
    world.finish();
}

#[test]
fn first_host_is_chosen_at_random() {
    let first = |seed| {
        let mut world = world(Servers::Refuse, 5, seed);
        world.tick();
        let port = world.attempts()[0].1.port();
        world.finish();
        port
    };
    let ports: BTreeSet<u16> = (0..50).map(first).collect();
    assert_eq!(ports.len(), 5);
}

#[test]
fn first_attempt_after_a_loss_goes_to_another_host() {
    let mut world = world(Servers::Scripted, 2, 1);
    world.bring_up();
    world.cut();
    world.open();
    world.respond(&acceptance(6000));
    let attempts = world.attempts();
    assert_ne!(attempts[0].1, attempts[1].1);
    world.finish();
}

fn three(seed: u128) -> World {
    World::with(|settings| {
        settings.hosts = (1..=3).map(|port| Host::new("h", port)).collect();
        settings.seed = seed;
    })
}

/// A server that closes the handshake is behind the session, or has no leader yet.
#[test]
fn server_that_closes_handshakes_has_its_turn_after_the_others() {
    let mut world = three(4);
    world.bring_up();
    world.cut();
    world.open();
    let behind = world.attempts().last().unwrap().1.clone();
    world.cut(); // it closes without a reply
    world.servers = Servers::Refuse;
    world.advance(ms(60_000));
    let attempts = &world.attempts()[1..];
    let turns: Vec<usize> = (0..attempts.len()).filter(|at| attempts[*at].1 == behind).collect();
    assert!(turns.len() > 3 && turns.windows(2).all(|pair| pair[1] - pair[0] == 3), "{turns:?}");
    world.finish();
}

proptest! {
    /// The rate of connection attempts is bounded for every behaviour of the servers.
    #[test]
    fn attempt_rate_is_bounded_for_any_server_behaviour(
        seed in any::<u64>(),
        hosts in 1_u16..5,
        acts in vec((0_usize..5, 0_u64..3000), 30..60),
    ) {
        let mut world = world(Servers::Refuse, hosts, seed.into());
        let all =
            [Servers::Refuse, Servers::Close, Servers::Greet, Servers::Silent, Servers::Serve];
        for (act, time) in acts {
            world.servers = all[act];
            if world.session.end_reason().is_some() {
                break;
            }
            world.advance(ms(time));
            if world.session.is_connected() {
                world.cut();
            }
        }
        let times: Vec<Duration> = world.attempts().iter().map(|(at, _)| *at).collect();
        // The test also closes connections that were stable. Only those restart the back-off.
        let most = times.iter().map(|from| {
            times.iter().filter(|at| (*from..*from + ms(1000)).contains(at)).count()
        });
        prop_assert!(most.max().unwrap_or(0) <= ATTEMPTS_A_SECOND);
        world.finish();
    }
}

/// Six attempts at the steps below the largest one, and a dozen short pauses drawn below that one.
const ATTEMPTS_A_SECOND: usize = 20;

#[test]
fn new_server_list_moves_the_session_only_when_needed() {
    let list = |ports: std::ops::RangeInclusive<u16>| -> Vec<Host> {
        ports.map(|port| Host::new("h", port)).collect()
    };
    // With the same servers, the connection stays.
    let mut world = three(4);
    world.bring_up();
    world.session.update_servers(world.instant(), list(1..=3));
    world.advance(ms(100));
    assert!(world.session.is_connected() && world.attempts().len() == 1);
    world.session.update_servers(world.instant(), vec![]);
    world.advance(ms(100));
    assert!(world.session.is_connected(), "no servers are no list");

    // With other servers, the session reconnects quickly and survives. The outcome of sent requests
    // is unknown.
    let write = world.create("/a");
    world.session.update_servers(world.instant(), list(7..=9));
    let moved = world.now();
    assert_eq!(world.deadline(), Some(moved), "it is for the driver to say what was written");
    world.bring_up();
    assert!(world.now() <= moved + ms(20));
    assert!(world.attempts()[1].1.port() >= 7);
    let lost = ErrorKind::ConnectionLost(DisconnectReason::Rebalanced);
    assert_eq!(*world.failure(write), (lost, Outcome::Unknown));
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
    world.cut();
    world.servers = Servers::Refuse;
    world.advance(ms(3000));
    assert!(world.attempts()[1..].iter().all(|(_, host)| host.port() >= 7));

    // Without a connection, the session only adopts the list.
    world.session.update_servers(world.instant(), list(4..=4));
    world.advance(ms(100));
    let tried = world.attempts().len();
    world.advance(ms(3000));
    assert!(world.attempts()[tried..].iter().all(|(_, host)| host.port() == 4));
    world.finish();
}

#[test]
fn handshake_reply_of_an_abandoned_server_is_ignored() {
    let mut world = World::with(|settings| settings.hosts = vec![Host::new("old", 1)]);
    let write = world.create("/a");
    world.open();
    world.session.update_servers(world.instant(), vec![Host::new("new", 1)]);
    world.settle();
    world.respond(&acceptance(6000)); // the reply was already in flight
    assert!(!world.session.is_connected() && world.events().is_empty());
    world.bring_up();
    assert_eq!(world.attempts().last().unwrap().1.name(), "new");
    assert_eq!(world.session.stats(world.instant()).connected_to.unwrap().name(), "new");
    assert!(world.ops() == [OpCode::Create2] && world.reply(write).is_none());
    world.finish();
}

/// The session tries a server that has served it before servers that it could not reach.
#[test]
fn last_server_that_served_is_tried_first() {
    for seed in 0..20 {
        let mut world = three(seed);
        world.open();
        let mut last = world.attempts().pop().unwrap().1;
        for _ in 0..2 {
            world.cut_for(unreachable());
            world.open();
            last = world.attempts().pop().unwrap().1;
        }
        world.respond(&acceptance(6000)); // the third server, after two unreachable ones
        world.answered.insert(OpCode::Ping.code());
        world.advance(T);
        world.cut();
        world.open();
        assert_eq!(world.attempts().pop().unwrap().1, last, "the only one that ever served");

        // It accepts the session and loses it at once. Now all servers rank alike and are tried in turn.
        world.respond(&acceptance(6000));
        let mut turns = BTreeSet::new();
        for _ in 0..3 {
            world.cut_for(unreachable());
            world.open();
            turns.insert(world.attempts().pop().unwrap().1.to_string());
        }
        assert_eq!(turns.len(), 3);
        world.finish();
    }
}

fn unreachable() -> DisconnectReason {
    DisconnectReason::Unreachable(std::io::ErrorKind::ConnectionRefused)
}

#[test]
fn attempt_at_a_delisted_server_is_abandoned() {
    let mut world = three(4);
    world.open(); // the handshake is under way
    world.session.update_servers(world.instant(), vec![Host::new("h", 9)]);
    world.bring_up();
    assert_eq!(world.attempts().last().unwrap().1.port(), 9);
    assert_eq!(world.attempts().len(), 2);
    world.finish();
}

/// The choice balances the load of the new servers, so the session must move to exactly that one.
#[test]
fn session_moves_to_the_server_that_the_new_list_chose() {
    for seed in 0..20 {
        let mut world = three(seed);
        world.bring_up();
        let list = (7..=9).map(|port| Host::new("h", port)).collect();
        world.session.update_servers(world.instant(), list);
        let chosen = world.session.servers()[0].clone();
        world.bring_up();
        assert_eq!(world.attempts()[1].1, chosen, "seed {seed}");
        world.finish();
    }
}

/// After each attempt without an answer the server has a session that nobody uses.
#[test]
fn server_that_answers_late_gets_more_time() {
    let mut world = World::new();
    for limit in [T / 3, T * 2 / 3, T, T] {
        world.open();
        let (opened, attempts) = (world.now(), world.attempts().len());
        world.advance(limit - ms(1));
        assert_eq!(world.attempts().len(), attempts, "it has {limit:?}");
        while world.attempts().len() == attempts {
            world.advance_to_deadline();
        }
        assert!(world.now() - opened <= limit + BACKOFF_MAX);
    }
    world.open();
    world.advance(T - ms(1));
    world.respond(&acceptance(6000));
    assert!(world.session.is_connected());

    // The next one is expected to answer in time again.
    world.cut();
    world.open();
    let attempts = world.attempts().len();
    world.advance(T / 3 + BACKOFF_MAX);
    assert!(world.attempts().len() > attempts);
}
