//! The lease with timeouts that servers grant, shorter or longer than the one before.

use crate::harness::prelude::*;
use crate::lease::LEASE;

/// Returns a session whose margin is too large for a timeout of three seconds.
fn with_large_margin() -> World {
    World::with(|settings| settings.lease_assumptions = LeaseAssumptions::new().margin(ms(1500)))
}

fn reconnect(world: &mut World, timeout_ms: i32) {
    world.cut_if_open();
    world.open_with(|response| response.timeout_ms = timeout_ms);
}

#[test]
fn lease_is_impossible_with_a_timeout_that_is_too_short() {
    let mut world = with_large_margin();
    assert_eq!(world.session.lease_impossible(), None);
    reconnect(&mut world, 3000);
    assert!(world.session.lease_impossible().is_some());
    world.claim();
    assert_eq!(world.ops(), [], "nothing is asked for it");
    world.renew();
    assert_eq!(world.lease(), None);
}

/// The lease was promised before a server granted a timeout that makes it impossible.
#[test]
fn lease_that_became_impossible_lasts_as_long_as_promised() {
    let mut world = with_large_margin();
    world.bring_up();
    world.renew();
    let promised = world.session.lease_promised_until(world.instant()).unwrap();
    reconnect(&mut world, 3000);
    assert!(world.session.lease_impossible().is_some());
    assert_eq!(world.session.term_to_bind(world.instant()), None);
    let until = world.lease().expect("it was promised");
    assert!(world.instant() - world.now() + until >= promised);
    assert_eq!(world.advance_until(|world| world.lease().is_none()), until);
    world.renew();
    assert_eq!(world.lease(), None);
}

#[test]
fn shorter_granted_timeout_shortens_the_lease_permanently() {
    let mut world = World::up();
    world.renew();
    world.advance(ms(500));
    reconnect(&mut world, 3000);
    let shorter = world.now() + LEASE / 2;
    assert_eq!(world.lease(), Some(shorter), "a leader counts 3 s now");
    world.advance(ms(500));
    world.reconnect(); // 6 s again, but a new leader may still use the shortest timeout
    world.renew();
    assert!(world.lease() <= Some(world.now() + LEASE / 2) && world.lease() > Some(shorter));
}

/// The leader may still use the timeout from the session's creation.
#[test]
fn handshake_with_a_longer_timeout_does_not_prolong_the_lease() {
    let mut world = World::up();
    world.renew();
    let before = world.lease();
    world.advance(ms(1000));
    reconnect(&mut world, 40_000);
    assert_eq!(world.lease(), before);
    world.renew();
    assert_eq!(world.lease(), Some(world.now() + LEASE));
}

/// A leader counts with the shortest timeout that the session was ever granted.
#[test]
fn pings_keep_the_pace_of_the_shortest_granted_timeout() {
    let mut world = World::up_with(|settings| {
        settings.lease_assumptions = LeaseAssumptions::new().expiry_pass(T * 2);
    });
    let interval = world.advance_to_ping();
    reconnect(&mut world, 60_000);
    let up = world.now();
    assert_eq!(world.advance_to_ping(), up + interval);
}
