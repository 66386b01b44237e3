//! Closing of the session by the client.

use zk_session_core::limits::CLOSE_TIMEOUT;

use crate::clean_up::list;
use crate::harness::prelude::*;

const CLOSED: Option<SessionEnd> = Some(SessionEnd::Closed);

#[test]
fn close_completes_after_earlier_requests_are_answered() {
    let mut world = World::up();
    let create = world.create("/a");
    world.close();
    world.close(); // has no effect
    assert_eq!(world.ops(), [OpCode::Create2, OpCode::CloseSession]);
    world.serve_next(OpCode::Create2);
    assert!(world.is_ok(create));
    assert_eq!(world.end(), None);
    world.accept(OpCode::CloseSession);
    assert_eq!(world.end(), CLOSED);
    world.close();
    assert!(matches!(world.events()[1..], [SessionEvent::Closed { .. }]));
}

#[test]
fn requests_after_close_are_rejected() {
    let mut world = World::up();
    world.close();
    let refused = (ended(SessionEnd::Closed), Outcome::NotApplied);
    let sweep = world.session.delete_protected_guaranteed(world.instant(), "/b", "x");
    for result in [
        world.try_submit(&get("/a", false), None).map(drop),
        world.try_delete_guaranteed("/b").map(drop),
        world.try_auth("s", "x".into()).map(drop),
        sweep,
    ] {
        assert_eq!(result, Err(refused.clone()));
    }
    assert_eq!(world.ops(), [OpCode::CloseSession]);
}

/// Clean-up that needs an answer before its next request is sent completely before the close.
/// Otherwise it would be lost: a node that is not ephemeral stays when the session ends.
#[test]
fn multi_step_clean_up_is_sent_before_close() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    world.close();
    assert_eq!(world.ops(), [OpCode::Sync, OpCode::GetChildren2]);
    list(&mut world, &["_c_1-a", "_c_2-b"]);
    assert_eq!(world.frames[0].path(), "/p/_c_1-a");
    world.accept(OpCode::Delete);
    world.accept(OpCode::CloseSession);
    assert_eq!(world.end(), CLOSED);
}

#[test]
fn clean_up_delays_close_for_at_most_half_the_close_timeout() {
    let limit = ms(6000);
    let mut world = World::up_with(|settings| settings.close_timeout = limit);
    world.delete_guaranteed("/a");
    for _ in 0..2 {
        world.reject(OpCode::Delete, ErrorCode::THROTTLED_OP);
        world.close(); // a repeated close has no effect
        world.advance(ms(1200));
    }
    let frame = world.take(OpCode::Delete);
    assert_eq!(world.advance_to_next(OpCode::CloseSession), limit / 2);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
    world.advance(ms(1200));
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    assert_eq!((world.advance_to_end(), world.end()), (limit, CLOSED));
}

#[test]
fn close_is_sent_when_connected_even_with_zero_timeout() {
    let mut world = World::up_with(|settings| settings.close_timeout = Duration::ZERO);
    world.close();
    world.tick(); // as the driver does: timeouts first, then writes
    assert_eq!(world.ops(), [OpCode::CloseSession]);
}

/// A server that sends a reply after the close request and then falls silent is left like any
/// silent server. The deadline for this must not stay in the past.
#[test]
fn server_that_falls_silent_during_close_is_left() {
    let mut world = World::up_with(|settings| settings.close_timeout = ms(60_000));
    world.create("/a");
    world.close();
    world.serve_next(OpCode::Create2);
    let due = world.advance_to_deadline();
    world.settle();
    assert!(world.deadline() > Some(due), "{:?} at {due:?}", world.deadline());
    assert!(matches!(world.events().pop(), Some(SessionEvent::Suspended { .. })));
    world.bring_up();
    assert_eq!(world.ops(), [OpCode::CloseSession], "repeated");
}

#[test]
fn close_before_the_first_connection_ends_at_once() {
    let mut world = World::new();
    let queued = world.get("/a");
    world.close();
    assert_eq!(*world.failure(queued), (ended(SessionEnd::Closed), Outcome::NotApplied));
    assert_eq!(world.events(), [SessionEvent::Closed { session_id: SessionId::NONE }]);
}

#[test]
fn close_during_the_first_handshake_waits_for_its_reply() {
    for is_lost in [false, true] {
        let mut world = World::new();
        world.create("/a");
        world.open();
        world.close();
        assert_eq!(world.end(), None, "the server may have made it already");
        if is_lost {
            world.cut();
            assert_eq!(world.end(), CLOSED);
        } else {
            world.respond(&acceptance(6000));
            assert_eq!(world.ops(), [OpCode::Create2, OpCode::CloseSession]);
        }
    }
}

#[test]
fn close_while_disconnected_reconnects_to_send_the_request() {
    let mut world = World::served();
    world.servers = Servers::Refuse;
    world.cut();
    let queued = world.create("/a");
    world.close();
    world.advance(ms(500));
    assert_eq!(world.end(), None);
    world.servers = Servers::Serve;
    world.advance_to_end();
    assert!(world.is_ok(queued), "asked for before the end");
    assert_eq!(world.times(OpCode::CloseSession).len(), 1);
    assert_eq!(world.end(), CLOSED);
}

#[test]
fn close_ends_at_the_close_timeout_without_a_reply() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent, Servers::Scripted] {
        let is_connected = servers == Servers::Scripted;
        let mut world = World::up();
        world.servers = servers;
        if !is_connected {
            world.cut();
        }
        let write = world.create("/a");
        world.advance(ms(100));
        let asked = world.now();
        world.close();
        assert_eq!(world.advance_to_end(), asked + CLOSE_TIMEOUT, "{servers:?}");
        assert_eq!(world.end(), CLOSED);
        let expected = if is_connected { Outcome::Unknown } else { Outcome::NotApplied };
        assert_eq!(world.outcome(write), expected);
    }
}

#[test]
fn close_succeeds_when_the_reconnect_finds_no_session() {
    let mut world = World::up();
    world.close();
    world.reopen();
    world.respond(&rejection());
    assert_eq!(world.end(), CLOSED);
    assert!(matches!(world.events().pop(), Some(SessionEvent::Closed { .. })));
}

#[test]
fn expiry_during_close_ends_the_session_as_closed() {
    let mut world = World::up_with(|settings| settings.close_timeout = Duration::MAX);
    world.servers = Servers::Refuse;
    world.cut();
    world.close();
    world.advance_to_end();
    assert_eq!(world.end(), CLOSED);
}

/// A driver that is dropped cannot wait for the answers that clean-up needs.
#[test]
fn close_at_once_does_not_wait_for_clean_up() {
    let mut world = World::up();
    world.sweep("/p", "x");
    world.session.close_at_once(world.instant());
    world.settle();
    assert_eq!(world.ops(), [OpCode::Sync, OpCode::GetChildren2, OpCode::CloseSession]);
}

#[test]
fn end_disconnects_only_an_existing_connection() {
    for (mut world, is_connected) in [(World::up(), true), (World::new(), false)] {
        world.session.abort();
        world.settle();
        assert_eq!(world.log.iter().any(|(_, it)| *it == Seen::Disconnect), is_connected);
    }
}
