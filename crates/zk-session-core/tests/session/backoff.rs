//! Back-off between connection attempts, and the choice of the server.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;
use zk_session_core::limits::{BACKOFF_MAX, BACKOFF_STEP};

use crate::harness::prelude::*;

fn list(ports: RangeInclusive<u16>) -> Vec<Host> {
    ports.map(|port| Host::new("h", port)).collect()
}

fn world(servers: Servers, hosts: u16, seed: u128) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = list(1..=hosts);
        settings.seed = seed;
    });
    world.servers = servers;
    world
}

fn ports(world: &World) -> Vec<u16> {
    world.attempts().iter().map(|(_, host)| host.port()).collect()
}

#[test]
fn pauses_grow_to_a_bound_and_are_random_near_it() {
    let times = |seed| {
        let mut world = world(Servers::Refuse, 3, seed);
        world.advance(ms(120_000));
        world.attempts().iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    let pauses: Vec<Duration> = times(1).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| *pause < BACKOFF_MAX));
    assert!((0..3).all(|n| pauses[n] < BACKOFF_STEP * (1 << n)));
    let late = &pauses[10..];
    assert!(late.iter().all(|pause| *pause >= BACKOFF_MAX / 2));
    assert!(late.iter().any(|pause| *pause < BACKOFF_MAX * 5 / 8));
    assert!(late.iter().any(|pause| *pause > BACKOFF_MAX * 7 / 8));
    assert_eq!(times(1), times(1));
    assert_ne!(times(1)[1..], times(2)[1..], "other clients retry at other times");
}

#[test]
fn server_that_rejects_set_watches_is_left_for_a_while() {
    let mut world = world(Servers::Scripted, 1, 7);
    world.bring_up();
    world.set_watch(WatchKind::Data, "/a");
    world.cut();
    for _ in 0..40 {
        world.bring_up();
        world.reject(OpCode::SetWatches, ErrorCode::MARSHALLING_ERROR);
        assert_eq!(world.cause(), DisconnectReason::Refused(ErrorCode::MARSHALLING_ERROR));
    }
    assert!(world.now() > ms(10_000), "{:?}", world.now());
}

#[test]
fn stable_connection_is_replaced_at_once_after_a_loss() {
    let mut world = world(Servers::Refuse, 1, 3);
    world.advance(ms(20_000));
    world.servers = Servers::Serve;
    world.advance(T);
    assert!(world.session.is_connected());
    world.cut();
    world.advance(BACKOFF_STEP);
    assert!(world.session.is_connected());
}

#[test]
fn hosts_are_tried_in_rotation_from_a_random_one() {
    let ports = |seed| {
        let mut world = world(Servers::Refuse, 5, seed);
        world.advance(ms(10_000));
        ports(&world)
    };
    let tried = ports(11);
    assert_eq!(BTreeSet::from_iter(&tried[..5]).len(), 5);
    assert!(tried.windows(6).all(|six| six[0] == six[5]));
    let first: BTreeSet<u16> = (0..50).map(|seed| ports(seed)[0]).collect();
    assert_eq!(first.len(), 5);
}

#[test]
fn first_attempt_after_a_loss_goes_to_another_host() {
    let mut world = world(Servers::Scripted, 2, 1);
    world.bring_up();
    world.reconnect();
    assert_ne!(ports(&world)[0], ports(&world)[1]);
}

/// A server that closes the handshake is behind the session, or has no leader yet.
#[test]
fn server_that_closes_handshakes_has_its_turn_after_the_others() {
    let mut world = world(Servers::Scripted, 3, 4);
    world.bring_up();
    world.reopen();
    let behind = ports(&world)[1];
    world.cut(); // it closes without a reply
    world.servers = Servers::Refuse;
    world.advance(ms(60_000));
    let ports = &ports(&world)[1..];
    let turns: Vec<usize> = (0..ports.len()).filter(|at| ports[*at] == behind).collect();
    assert!(turns.len() > 3 && turns.windows(2).all(|pair| pair[1] - pair[0] == 3), "{turns:?}");
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
            if world.end().is_some() {
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
    }
}

/// Six attempts at the steps below the largest one, and a dozen short pauses drawn below that one.
const ATTEMPTS_A_SECOND: usize = 20;

#[test]
fn new_server_list_moves_the_session_only_when_needed() {
    // With the same servers, or with none, the connection stays.
    let mut world = world(Servers::Scripted, 3, 4);
    world.bring_up();
    for unchanged in [list(1..=3), vec![]] {
        world.session.update_servers(world.instant(), unchanged);
        world.advance(ms(100));
        assert!(world.session.is_connected() && world.attempts().len() == 1);
    }

    // With other servers, the session reconnects quickly and survives. The outcome of sent requests
    // is unknown.
    let write = world.create("/a");
    world.session.update_servers(world.instant(), list(7..=9));
    // The choice balances the load of the new servers, so the session must move to exactly that one.
    let chosen = world.session.servers()[0].clone();
    let moved = world.now();
    assert_eq!(world.deadline(), Some(moved), "it is for the driver to say what was written");
    world.bring_up();
    assert!(world.now() <= moved + BACKOFF_STEP);
    assert_eq!(world.attempts()[1].1, chosen);
    let lost = ErrorKind::ConnectionLost(DisconnectReason::Rebalanced);
    assert_eq!(*world.failure(write), (lost, Outcome::Unknown));
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
    world.servers = Servers::Refuse;
    world.cut();
    world.advance(ms(3000));
    assert!(ports(&world)[1..].iter().all(|port| *port >= 7));

    // Without a connection, the session only adopts the list.
    world.session.update_servers(world.instant(), list(4..=4));
    world.advance(ms(100));
    let tried = world.attempts().len();
    world.advance(ms(3000));
    assert!(ports(&world)[tried..].iter().all(|port| *port == 4));
}

#[test]
fn handshake_at_a_delisted_server_is_abandoned() {
    let mut world = world(Servers::Scripted, 3, 4);
    let write = world.create("/a");
    world.open();
    let new = Host::new("h", 9);
    world.session.update_servers(world.instant(), vec![new.clone()]);
    world.settle();
    world.respond(&acceptance(6000)); // the reply was already in flight
    assert!(!world.session.is_connected() && world.events().is_empty());
    world.bring_up();
    assert_eq!(ports(&world)[1..], [9]);
    assert_eq!(world.stats().connected_to, Some(new));
    assert!(world.ops() == [OpCode::Create2] && world.reply(write).is_none());
}

/// The session tries a server that has served it before servers that it could not reach.
#[test]
fn last_server_that_served_is_tried_first() {
    for seed in 0..20 {
        let mut world = world(Servers::Scripted, 3, seed);
        for _ in 0..2 {
            world.advance_to_attempt();
            world.cut_for(unreachable());
        }
        let last = world.advance_to_attempt();
        world.bring_up();
        world.answered.insert(OpCode::Ping.code());
        world.advance(T);
        world.cut();
        assert_eq!(world.advance_to_attempt(), last, "the only one that ever served");

        // It accepts the session and loses it at once. Now all servers rank alike and are tried in turn.
        world.bring_up();
        world.cut_for(unreachable());
        let turns = (0..3).map(|_| {
            let host = world.advance_to_attempt();
            world.cut_for(unreachable());
            host.port()
        });
        assert_eq!(turns.collect::<BTreeSet<u16>>().len(), 3);
    }
}

/// After each attempt without an answer the server has a session that nobody uses.
#[test]
fn server_that_answers_late_gets_more_time() {
    let mut world = World::new();
    let limit = |world: &mut World| {
        world.open();
        let opened = world.now();
        world.advance_until(|world| world.session.last_disconnect().is_some() && !world.is_open())
            - opened
    };
    for expected in [T / 3, T * 2 / 3, T, T] {
        assert_eq!(limit(&mut world), expected);
    }
    world.open();
    world.advance(T - ms(1));
    world.respond(&acceptance(6000));
    assert!(world.session.is_connected());
    world.cut();
    assert_eq!(limit(&mut world), T / 3, "it is expected to answer in time again");
}
