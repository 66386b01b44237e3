//! Closing of the session by the client.

use std::time::Duration;

use proto::{ChildList, ChildrenReply, ErrorCode, OpCode, SessionId, Stat, Zxid};
use zk_session_core::{Outcome, SessionEnd, SessionEvent};

use crate::harness::{Servers, World, ended, get, ms};
use crate::script::rejection;

#[test]
fn close_completes_after_earlier_requests_are_answered() {
    let mut world = World::up();
    let create = world.create("/a");
    world.close();
    let first = world.take(OpCode::Create2);
    let last = world.take(OpCode::CloseSession);
    assert_eq!(world.ops(), []);
    world.serve(&first);
    assert!(world.is_ok(create));
    assert_eq!(world.session.end_reason(), None);
    world.answer(&last, Zxid(9), ErrorCode::OK, &());
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    assert!(matches!(world.events().pop(), Some(SessionEvent::Closed { .. })));
    world.finish();
}

#[test]
fn requests_after_close_are_rejected() {
    let mut world = World::up();
    world.close();
    let refused = (ended(SessionEnd::Closed), Outcome::NotApplied);
    assert_eq!(world.try_submit(&get("/a", false), None), Err(refused.clone()));
    let to = world.number();
    let late = world.session.delete_guaranteed(world.instant(), "/b", Some(to.into()));
    assert_eq!(late, Err(refused.clone()));
    assert_eq!(
        world.session.delete_protected_guaranteed(world.instant(), "/b", "x"),
        Err(refused.clone())
    );
    let to = world.number();
    let late = world.session.add_credential(world.instant(), "s", "x".into(), to);
    assert_eq!(late, Err(refused));
    world.settle();
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.finish();
}

/// Clean-up that needs an answer before its next request is sent completely before the close.
/// Otherwise it would be lost: a node that is not ephemeral stays when the session ends.
#[test]
fn multi_step_clean_up_is_sent_before_close() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    world.close();
    assert_eq!(world.ops(), []);
    let children = ChildList::from_names(["_c_1-a", "_c_2-b"]);
    let reply = ChildrenReply { children, stat: Stat::default() };
    world.answer(&list, Zxid(9), ErrorCode::OK, &reply);
    let delete = world.take(OpCode::Delete);
    assert_eq!(delete.path(), "/p/_c_1-a");
    let last = world.take(OpCode::CloseSession);
    world.answer(&delete, Zxid(9), ErrorCode::OK, &());
    world.answer(&last, Zxid(9), ErrorCode::OK, &());
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    world.finish();
}

#[test]
fn clean_up_delays_close_for_at_most_half_the_close_timeout() {
    let mut world = World::with(|settings| settings.close_timeout = ms(6000));
    world.bring_up();
    world.delete_guaranteed("/a");
    for _ in 0..2 {
        let frame = world.take(OpCode::Delete);
        world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
        world.close(); // a repeated close has no effect
        world.advance(ms(1200));
    }
    let frame = world.take(OpCode::Delete);
    world.advance_to(ms(3000));
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
    world.advance(ms(1200));
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.advance_to(ms(6000));
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    world.finish();
}

#[test]
fn close_is_sent_when_connected_even_with_zero_timeout() {
    let mut world = World::with(|settings| settings.close_timeout = Duration::ZERO);
    world.bring_up();
    world.close();
    world.tick(); // as the driver does: timeouts first, then writes
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.finish();
}

/// A server that sends a reply after the close request and then falls silent is left like any
/// silent server. The deadline for this must not stay in the past.
#[test]
fn server_that_falls_silent_during_close_is_left() {
    let mut world = World::with(|settings| settings.close_timeout = ms(60_000));
    world.bring_up();
    world.create("/a");
    world.close();
    let create = world.take(OpCode::Create2);
    world.serve(&create);
    let due = world.advance_to_deadline();
    world.settle();
    assert!(world.deadline() > Some(due), "{:?} at {due:?}", world.deadline());
    assert!(matches!(world.events().pop(), Some(SessionEvent::Suspended { .. })));
    world.bring_up();
    assert_eq!(world.ops(), [OpCode::CloseSession]);
}

#[test]
fn second_close_has_no_effect() {
    let mut world = World::up();
    world.close();
    world.close();
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    let frame = world.take(OpCode::CloseSession);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.close();
    assert_eq!(world.events().len(), 2);
    world.finish();
}

#[test]
fn close_before_the_first_connection_ends_at_once() {
    let mut world = World::new();
    let queued = world.get("/a");
    world.close();
    assert_eq!(*world.failure(queued), (ended(SessionEnd::Closed), Outcome::NotApplied));
    assert_eq!(world.events(), [SessionEvent::Closed { session_id: SessionId::NONE }]);
    world.finish();
}

#[test]
fn close_during_the_first_handshake_waits_for_its_reply() {
    let mut world = World::new();
    let queued = world.create("/a");
    world.open();
    world.close();
    assert_eq!(world.session.end_reason(), None, "the server may have made it already");
    world.respond(&crate::script::acceptance(6000));
    assert_eq!(world.ops(), [OpCode::Create2, OpCode::CloseSession]);
    assert_eq!(world.reply(queued), None);
    world.finish();

    let mut lost = World::new();
    lost.open();
    lost.close();
    lost.cut();
    assert_eq!(lost.session.end_reason(), Some(SessionEnd::Closed));
    lost.finish();
}

#[test]
fn close_while_disconnected_reconnects_to_send_the_request() {
    let mut world = World::served();
    world.servers = Servers::Refuse;
    world.cut();
    let queued = world.create("/a");
    world.close();
    world.advance(ms(500));
    assert_eq!(world.session.end_reason(), None);
    world.servers = Servers::Serve;
    world.advance(ms(1400));
    assert!(world.is_ok(queued), "asked for before the end");
    assert_eq!(world.times(OpCode::CloseSession).len(), 1);
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    world.finish();
}

#[test]
fn close_while_disconnected_ends_at_the_close_timeout() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::served();
        world.servers = servers;
        world.cut();
        let queued = world.create("/a");
        world.advance(ms(100));
        world.close();
        world.advance(ms(1999));
        assert_eq!(world.session.end_reason(), None, "{servers:?}");
        world.advance(ms(1));
        assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
        assert_eq!(world.outcome(queued), Outcome::NotApplied);
        world.finish();
    }
}

#[test]
fn close_ends_at_the_close_timeout_without_a_reply() {
    let mut world = World::up();
    let write = world.create("/a");
    world.close();
    world.advance(ms(2000));
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    assert_eq!(world.outcome(write), Outcome::Unknown);
    world.finish();
}

#[test]
fn close_succeeds_when_the_reconnect_finds_no_session() {
    let mut world = World::up();
    world.close();
    world.cut();
    world.open();
    world.respond(&rejection());
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    assert!(matches!(world.events().pop(), Some(SessionEvent::Closed { .. })));
    world.finish();
}

#[test]
fn close_request_is_repeated_after_a_reconnect() {
    let mut world = World::up();
    world.close();
    world.cut();
    world.bring_up();
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.finish();
}

#[test]
fn expiry_during_close_ends_the_session_as_closed() {
    let mut world = World::with(|settings| settings.close_timeout = Duration::MAX);
    world.bring_up();
    world.servers = Servers::Refuse;
    world.cut();
    world.close();
    world.advance(ms(20_000));
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    world.finish();
}
