//! How often servers are tried, and which.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::{ErrorCode, OpCode};
use zk_session::Host;
use zk_session::core::WatchKind;
use zk_session::limits::BACKOFF_MAX;

use crate::harness::{Servers, T, World, acceptance, ms};

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
fn pauses_grow_to_a_bound_and_are_drawn_over_the_whole_of_it() {
    let mut world = world(Servers::Refuse, 3, 1);
    world.advance(ms(120_000));
    let pauses = pauses(&world);
    assert!(pauses.iter().all(|pause| *pause < BACKOFF_MAX));
    assert!(pauses[0] < ms(20) && pauses[1] < ms(40) && pauses[2] < ms(80));
    let late = &pauses[10..];
    assert!(late.iter().any(|pause| *pause < BACKOFF_MAX / 4));
    assert!(late.iter().any(|pause| *pause > BACKOFF_MAX * 3 / 4));
    world.finish();
}

#[test]
fn two_clients_do_not_try_at_the_same_times() {
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
fn no_server_is_hammered_whatever_it_does_after_accepting() {
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
fn a_server_that_will_not_re_arm_the_watches_is_not_hammered() {
    let mut world = world(Servers::Scripted, 1, 7);
    world.bring_up();
    world.watch(WatchKind::Data, "/a");
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, 9, ErrorCode::OK, &());
    world.cut();
    for _ in 0..40 {
        world.bring_up();
        let frame = world.take(OpCode::SetWatches);
        world.answer(&frame, 9, ErrorCode::MARSHALLING_ERROR, &());
        assert!(!world.session.is_connected());
    }
    assert!(world.now() > ms(10_000), "{:?}", world.now());
    world.finish();
}

#[test]
fn a_connection_that_has_held_for_a_while_is_replaced_at_once() {
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
fn every_host_gets_its_turn() {
    let mut world = world(Servers::Refuse, 5, 11);
    world.advance(ms(60_000));
    let ports: Vec<u16> = world.attempts().iter().map(|(_, host)| host.port()).collect();
    let lap: BTreeSet<u16> = ports[..5].iter().copied().collect();
    assert_eq!(lap.len(), 5);
    assert!(ports.windows(6).all(|six| six[0] == six[5]));
    world.finish();
}

#[test]
fn the_first_host_differs_from_client_to_client() {
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
fn the_next_attempt_after_a_loss_goes_to_another_host() {
    let mut world = world(Servers::Scripted, 2, 1);
    world.bring_up();
    world.cut();
    world.open();
    world.respond(&acceptance(6000));
    let attempts = world.attempts();
    assert_ne!(attempts[0].1, attempts[1].1);
    world.finish();
}
