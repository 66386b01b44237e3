//! The session finds a healthy server before it expires, regardless of the other servers.

use std::io;

use proto::{ConnectResponse, EventType};
use zk_session_core::{DisconnectReason, Host, ProbeAnswer};

use crate::harness::{T, Wire, World, ms, pong};
use crate::script::acceptance;

fn hosts(count: u16, seed: u128) -> World {
    World::with(|settings| {
        settings.hosts = (1..=count).map(|port| Host::new("h", port)).collect();
        settings.seed = seed;
    })
}

fn ports(world: &World) -> Vec<u16> {
    world.attempts().iter().map(|(_, host)| host.port()).collect()
}

fn asked_now(world: &World) -> u16 {
    ports(world).last().copied().unwrap()
}

/// Connects to one of two servers, after the other one refused a connection at the start.
fn up_at_the_only_one_that_served() -> World {
    let mut world = hosts(2, 1);
    world.tick();
    world.cut_for(DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused));
    world.bring_up();
    for _ in 0..2 {
        world.advance(ms(1000));
        world.deliver(&pong());
    }
    world
}

#[test]
fn stalled_or_silent_server_is_left_for_the_other() {
    for silent in [false, true] {
        let mut world = up_at_the_only_one_that_served();
        let here = asked_now(&world);
        world.get("/a");
        while world.wire == Wire::Open {
            world.advance(ms(300));
            if !silent {
                world.deliver(&pong());
            }
        }
        let cause =
            if silent { DisconnectReason::IdleTimeout } else { DisconnectReason::RequestTimeout };
        assert_eq!(world.cause(), cause);
        while world.wire != Wire::Asked {
            world.advance_to_deadline();
        }
        assert_ne!(asked_now(&world), here, "{:?}", ports(&world));
    }
}

/// The kernel of a frozen server accepts connections, and its process answers none.
#[test]
fn frozen_server_leaves_a_third_of_the_timeout_for_the_other() {
    let mut world = up_at_the_only_one_that_served();
    let frozen = asked_now(&world);
    let last_heard = world.now();
    loop {
        while world.wire != Wire::Asked {
            world.advance_to_deadline();
        }
        if asked_now(&world) != frozen {
            break;
        }
        world.open();
        world.advance_to_deadline();
    }
    assert!(world.now() - last_heard < T, "{:?}", world.attempts());
}

#[test]
fn server_that_sends_only_events_is_left_for_the_other() {
    let mut world = hosts(2, 3);
    world.bring_up();
    while world.wire == Wire::Open {
        world.advance(ms(300));
        world.notify(EventType::NODE_CREATED, "/x");
    }
    while world.wire != Wire::Asked {
        world.advance_to_deadline();
    }
    assert_eq!(world.end(), None);
    assert_ne!(ports(&world)[0], asked_now(&world));
}

fn read_only(timeout_ms: i32) -> ConnectResponse {
    ConnectResponse { read_only: Some(true), ..acceptance(timeout_ms) }
}

/// The healthy server, which served last, fails all attempts for twelve seconds and then recovers.
#[test]
fn healthy_server_is_found_beside_read_only_and_silent_ones() {
    for (seed, turned) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut world = hosts(3, seed);
        world.open();
        world.respond(&acceptance(30_000));
        for _ in 0..3 {
            world.advance(ms(1000));
            world.deliver(&pong());
        }
        let well = asked_now(&world);
        let others: Vec<u16> = (1..=3).filter(|port| *port != well).collect();
        let hole = others[usize::from(turned)];
        let start = world.now();
        world.cut();
        loop {
            while world.wire != Wire::Asked {
                world.advance_to_deadline();
            }
            assert_eq!(world.end(), None, "{seed}: {:?}", world.attempts());
            match asked_now(&world) {
                port if port == hole => drop(world.advance_to_deadline()),
                port if port != well => {
                    world.open();
                    world.respond(&read_only(30_000));
                }
                _ if world.now() < start + ms(12_000) => world.cut(),
                _ => break,
            }
        }
        assert!(world.now() < start + ms(30_000));
    }
}

/// By default, a caller waits ten seconds for the first connection.
#[test]
fn second_server_is_tried_soon_when_the_first_is_silent() {
    let mut world = World::with(|settings| {
        settings.hosts = (1..=3).map(|port| Host::new("h", port)).collect();
        settings.session_timeout = ms(40_000);
    });
    world.tick();
    world.advance(ms(10_000));
    assert!(world.attempts().len() > 1, "{:?}", world.attempts());
}

#[test]
fn stats_name_the_serving_server_until_it_is_left() {
    let mut world = World::up();
    let here = world.stats().connected_to;
    world.session.update_servers(world.instant(), vec![Host::new("new", 1)]);
    assert_eq!(world.stats().connected_to, here);
    world.tick();
    world.bring_up();
    let there = world.stats().connected_to;
    assert_eq!(there, Some(Host::new("new", 1)));
}

#[test]
fn probe_result_of_a_delisted_server_is_ignored() {
    let mut world = World::with(|settings| {
        settings.hosts = (1..=2).map(|port| Host::new("h", port)).collect();
        settings.allow_read_only = true;
    });
    world.open();
    world.respond(&read_only(6000));
    let here = world.attempts()[0].1.clone();
    world.advance(ms(100));
    let other = Host::new("h", 3 - here.port());
    world.session.update_servers(world.instant(), vec![here, Host::new("x", 9)]);
    world.settle();
    world.tick();
    assert!(world.session.is_connected());
    world.session.handle_probed(world.instant(), &other, ProbeAnswer::ReadWrite);
    world.settle();
    assert!(world.session.is_connected());
}

#[test]
fn duplicate_host_in_a_new_list_does_not_move_the_session() {
    for seed in 0..60 {
        let mut world = hosts(2, seed);
        world.bring_up();
        let list = [1, 2, 2].map(|port| Host::new("h", port)).to_vec();
        world.session.update_servers(world.instant(), list);
        world.settle();
        world.tick();
        assert!(world.session.is_connected(), "{seed}");
    }
}

#[test]
fn server_relisted_before_it_is_left_keeps_the_connection() {
    let mut world = World::up();
    let (here, _) = world.attempts().into_iter().map(|(at, host)| (host, at)).next().unwrap();
    world.session.update_servers(world.instant(), vec![Host::new("new", 1)]);
    world.session.update_servers(world.instant(), vec![here.clone()]);
    world.settle();
    world.tick();
    assert!(world.session.is_connected());
    assert_eq!(world.stats().connected_to, Some(here));
}
