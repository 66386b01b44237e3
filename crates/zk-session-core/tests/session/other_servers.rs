//! The session finds a healthy server before it expires, regardless of the other servers.

use crate::harness::prelude::*;
use crate::read_only::{self, probed};

fn world(count: u16, seed: u128) -> World {
    World::with(|settings| {
        settings.hosts = hosts(count);
        settings.seed = seed;
    })
}

/// Keeps a connection for three seconds, so that its server counts as one that serves.
fn serve(world: &mut World) {
    for _ in 0..3 {
        world.advance(ms(1000));
        world.deliver(&pong());
    }
}

/// Connects to one of two servers, after the other one refused a connection at the start.
fn up_at_the_only_one_that_served() -> (World, Host) {
    let mut world = world(2, 1);
    world.advance_to_attempt();
    world.cut_for(unreachable());
    let here = world.advance_to_attempt();
    world.bring_up();
    serve(&mut world);
    (world, here)
}

#[test]
fn server_that_stops_answering_is_left_for_the_other() {
    type Act = fn(&mut World);
    let acts: [(Act, DisconnectReason); 3] = [
        (|_| {}, DisconnectReason::IdleTimeout),
        (|world| world.deliver(&pong()), DisconnectReason::RequestTimeout),
        (|world| world.notify(EventType::NODE_CREATED, "/x"), DisconnectReason::RequestTimeout),
    ];
    for (act, cause) in acts {
        let (mut world, here) = up_at_the_only_one_that_served();
        world.get("/a");
        while world.is_open() {
            world.advance(ms(300));
            act(&mut world);
        }
        assert_eq!(world.cause(), cause);
        assert_ne!(world.advance_to_attempt(), here, "{:?}", world.attempts());
        assert_eq!(world.end(), None);
    }
}

/// The kernel of a frozen server accepts connections, and its process answers none.
#[test]
fn frozen_server_leaves_a_third_of_the_timeout_for_the_other() {
    let (mut world, frozen) = up_at_the_only_one_that_served();
    let last_heard = world.now();
    while world.advance_to_attempt() == frozen {
        world.open();
        world.advance_to_deadline();
    }
    assert!(world.now() - last_heard < T, "{:?}", world.attempts());
}

/// The healthy server, which served last, fails all attempts for twelve seconds and then recovers.
#[test]
fn healthy_server_is_found_beside_read_only_and_silent_ones() {
    let (timeout, outage) = (30_000, ms(12_000));
    for (seed, turned) in (0..20).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let mut world = world(3, seed);
        let well = world.advance_to_attempt();
        world.open_with(|response| response.timeout_ms = timeout);
        serve(&mut world);
        let hole = hosts(3).into_iter().filter(|host| *host != well).nth(turned);
        let start = world.now();
        world.cut();
        loop {
            let asked = world.advance_to_attempt();
            assert_eq!(world.end(), None, "{seed}: {:?}", world.attempts());
            if Some(&asked) == hole.as_ref() {
                world.advance_to_deadline();
            } else if asked != well {
                world.open_with(|response| {
                    response.timeout_ms = timeout;
                    response.read_only = Some(true);
                });
            } else if world.now() < start + outage {
                world.cut();
            } else {
                break;
            }
        }
        assert!(world.now() < start + ms(30_000));
    }
}

/// By default, a caller waits ten seconds for the first connection.
#[test]
fn second_server_is_tried_soon_when_the_first_is_silent() {
    let mut world = World::with(|settings| {
        settings.hosts = hosts(3);
        settings.session_timeout = ms(40_000);
    });
    world.advance(ms(10_000));
    assert!(world.attempts().len() > 1, "{:?}", world.attempts());
}

#[test]
fn stats_name_the_serving_server_until_it_is_left() {
    let mut world = World::up();
    let here = world.stats().connected_to;
    let new = Host::new("new", 1);
    world.session.update_servers(world.instant(), vec![new.clone()]);
    assert_eq!(world.stats().connected_to, here);
    world.tick();
    world.bring_up();
    assert_eq!(world.stats().connected_to, Some(new));
}

#[test]
fn probe_result_of_a_delisted_server_is_ignored() {
    let mut world = read_only::world(hosts(2));
    read_only::open(&mut world);
    let here = world.attempts()[0].1.clone();
    world.advance(ms(100));
    let other = Host::new("h", 3 - here.port());
    world.session.update_servers(world.instant(), vec![here, Host::new("x", 9)]);
    world.tick();
    probed(&mut world, &other, ProbeAnswer::ReadWrite);
    assert!(world.session.is_connected());
}

#[test]
fn list_with_the_own_server_does_not_move_the_session() {
    for seed in 0..60 {
        let mut world = world(2, seed);
        world.bring_up();
        let here = world.stats().connected_to;
        let named_twice = [1, 2, 2].map(|port| Host::new("h", port)).to_vec();
        world.session.update_servers(world.instant(), named_twice);
        world.tick();
        assert!(world.session.is_connected(), "{seed}");
        // It is relisted before it is left.
        for list in [vec![Host::new("new", 1)], here.clone().into_iter().collect()] {
            world.session.update_servers(world.instant(), list);
        }
        world.tick();
        assert_eq!(world.stats().connected_to, here);
    }
}
