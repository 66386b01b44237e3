//! The lease with timeouts that servers grant, shorter or longer than the one before.

use proto::{ErrorCode, OpCode, Zxid};
use zk_session_core::LeaseAssumptions;

use crate::harness::{T, World, ms};
use crate::lease::LEASE;

/// The server grants a shorter timeout than requested, and the configured margin is too large for it.
#[test]
fn lease_is_impossible_with_a_timeout_that_is_too_short() {
    let assumptions = LeaseAssumptions::new().margin(ms(1500));
    let mut world = World::with(|settings| settings.lease_assumptions = assumptions);
    world.open();
    assert_eq!(world.session.lease_impossible(), None);
    world.respond(&crate::script::acceptance(3000));
    assert!(world.session.lease_impossible().is_some());
    world.claim();
    world.prove();
    world.accept(OpCode::Multi);
    assert_eq!(world.lease(), None);
    assert_eq!(world.times(OpCode::Multi).len(), 1, "and nothing is asked for it");
}

/// The lease was promised before a server granted a timeout that makes it impossible.
#[test]
fn lease_that_became_impossible_lasts_as_long_as_promised() {
    let assumptions = LeaseAssumptions::new().margin(ms(1500));
    let mut world = World::up_with(|settings| settings.lease_assumptions = assumptions);
    world.claim();
    world.prove();
    while world.frames.iter().any(|frame| frame.op == OpCode::Multi) {
        world.accept(OpCode::Multi);
    }
    let promised = world.session.lease_promised_until(world.instant()).unwrap();
    world.reopen();
    world.respond(&crate::script::acceptance(3000));
    assert!(world.session.lease_impossible().is_some());
    assert_eq!(world.session.term_to_bind(world.instant()), None);
    let (_, until) = world.session.lease(world.instant()).expect("it was promised");
    assert!(until >= promised);
    assert!(world.deadline().is_some_and(|due| due <= world.now() + (until - world.instant())));
    world.advance(until - world.instant());
    assert_eq!(world.session.lease(world.instant()), None);
    world.prove();
    world.answer_next(OpCode::Multi, Zxid(10), ErrorCode::OK, &());
    assert_eq!(world.session.lease(world.instant()), None);
}

#[test]
fn shorter_granted_timeout_shortens_the_lease_permanently() {
    let mut world = World::up();
    world.prove();
    world.accept(OpCode::Multi);
    world.advance(ms(500));
    world.reopen();
    let reconnected = world.now();
    world.respond(&crate::script::acceptance(3000));
    let lease = ms(3000 - 253);
    assert_eq!(
        world.lease(),
        Some(reconnected + lease),
        "it was granted 6 s before, and a leader counts 3 s now"
    );
    world.advance(ms(500));
    world.reconnect(); // 6 s again, but a new leader may still use the shortest timeout
    world.prove();
    world.answer_next(OpCode::Multi, Zxid(10), ErrorCode::OK, &());
    assert!(
        world.lease() <= Some(world.now() + lease) && world.lease() > Some(reconnected + lease)
    );
}

/// The leader may still use the timeout from the session's creation.
#[test]
fn handshake_with_a_longer_timeout_does_not_prolong_the_lease() {
    let mut world = World::up();
    world.prove();
    world.serve_next(OpCode::Multi);
    let before = world.lease().unwrap();
    world.advance(ms(1000));
    world.reopen();
    world.respond(&crate::script::acceptance(40_000));
    assert_eq!(world.lease(), Some(before));
    world.prove();
    world.serve_next(OpCode::Multi);
    assert_eq!(world.lease(), Some(world.now() + LEASE));
}

/// A leader counts with the shortest timeout that the session was ever granted.
#[test]
fn pings_keep_the_pace_of_the_shortest_granted_timeout() {
    let mut world = World::up_with(|settings| {
        settings.lease_assumptions = LeaseAssumptions::new().expiry_pass(T * 2);
    });
    world.reopen();
    world.respond(&crate::script::acceptance(60_000));
    let up = world.now();
    world.advance(T);
    assert_eq!(world.times(OpCode::Ping), [up + T / 3]);
}
