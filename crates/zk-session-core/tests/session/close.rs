//! The end that the client wants.

use std::time::Duration;

use proto::{ChildList, ChildrenReply, ErrorCode, OpCode, Stat};
use zk_session_core::{Outcome, SessionEnd, SessionEvent};

use crate::harness::{Servers, World, ended, get, ms, rejection};

#[test]
fn what_was_asked_before_is_answered_and_the_end_comes_last() {
    let mut world = World::up();
    let create = world.create("/a");
    world.close();
    let first = world.take(OpCode::Create2);
    let last = world.take(OpCode::CloseSession);
    assert_eq!(world.ops(), []);
    world.serve(&first);
    assert!(world.is_ok(create));
    assert_eq!(world.session.ended(), None);
    world.answer(&last, 9, ErrorCode::OK, &());
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    assert!(matches!(world.events().pop(), Some(SessionEvent::Closed { .. })));
    world.finish();
}

#[test]
fn what_is_asked_later_is_refused() {
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

/// What must be answered before it can go on is seen to first, or it would be lost: a node
/// that is not ephemeral stays when the session ends.
#[test]
fn clean_up_that_is_not_done_with_one_request_is_seen_to_before_the_end() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, 9, ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    world.close();
    assert_eq!(world.ops(), []);
    let children = ChildList::from_names(["_c_1-a", "_c_2-b"]);
    let reply = ChildrenReply { children, stat: Stat::default() };
    world.answer(&list, 9, ErrorCode::OK, &reply);
    let delete = world.take(OpCode::Delete);
    assert_eq!(delete.path(), "/p/_c_1-a");
    let last = world.take(OpCode::CloseSession);
    world.answer(&delete, 9, ErrorCode::OK, &());
    world.answer(&last, 9, ErrorCode::OK, &());
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    world.finish();
}

#[test]
fn clean_up_holds_the_end_up_for_half_of_the_time_there_is_and_never_comes_behind() {
    let mut world = World::with(|settings| settings.close_timeout = ms(6000));
    world.bring_up();
    world.delete_guaranteed("/a");
    for _ in 0..2 {
        let frame = world.take(OpCode::Delete);
        world.answer(&frame, 9, ErrorCode::THROTTLED_OP, &());
        world.close(); // again changes nothing
        world.advance(ms(1200));
    }
    let frame = world.take(OpCode::Delete);
    world.advance_to(ms(3000));
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.answer(&frame, 9, ErrorCode::THROTTLED_OP, &());
    world.advance(ms(1200));
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.advance_to(ms(6000));
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    world.finish();
}

#[test]
fn a_server_that_is_there_is_told_however_little_time_there_is() {
    let mut world = World::with(|settings| settings.close_timeout = Duration::ZERO);
    world.bring_up();
    world.close();
    world.tick(); // as the driver does: time first, then what is to be written
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.finish();
}

/// A server that says something after it was told to close, and then nothing any more, is given
/// up like any other: the deadline for that must not stay in the past.
#[test]
fn a_server_that_falls_silent_over_the_close_is_given_up() {
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
fn closing_twice_is_closing_once() {
    let mut world = World::up();
    world.close();
    world.close();
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    let frame = world.take(OpCode::CloseSession);
    world.answer(&frame, 9, ErrorCode::OK, &());
    world.close();
    assert_eq!(world.events().len(), 2);
    world.finish();
}

#[test]
fn a_session_that_never_was_ends_at_once() {
    let mut world = World::new();
    let queued = world.get("/a");
    world.close();
    assert_eq!(*world.failure(queued), (ended(SessionEnd::Closed), Outcome::NotApplied));
    assert_eq!(world.events(), [SessionEvent::Closed { session_id: 0 }]);
    world.finish();
}

#[test]
fn a_session_about_to_be_made_is_made_and_closed() {
    let mut world = World::new();
    let queued = world.create("/a");
    world.open();
    world.close();
    assert_eq!(world.session.ended(), None, "the server may have made it already");
    world.respond(&crate::harness::acceptance(6000));
    assert_eq!(world.ops(), [OpCode::Create2, OpCode::CloseSession]);
    assert_eq!(world.reply(queued), None);
    world.finish();

    let mut lost = World::new();
    lost.open();
    lost.close();
    lost.cut();
    assert_eq!(lost.session.ended(), Some(SessionEnd::Closed));
    lost.finish();
}

#[test]
fn without_a_connection_it_tries_to_get_one_to_say_it() {
    let mut world = World::served(&[]);
    world.servers = Servers::Refuse;
    world.cut();
    let queued = world.create("/a");
    world.close();
    world.advance(ms(500));
    assert_eq!(world.session.ended(), None);
    world.servers = Servers::Serve;
    world.advance(ms(1400));
    assert!(world.is_ok(queued), "asked for before the end");
    assert!(world.server.closed);
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    world.finish();
}

#[test]
fn it_does_not_try_for_longer_than_it_was_given() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::served(&[]);
        world.servers = servers;
        world.cut();
        let queued = world.create("/a");
        world.advance(ms(100));
        world.close();
        world.advance(ms(1999));
        assert_eq!(world.session.ended(), None, "{servers:?}");
        world.advance(ms(1));
        assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
        assert_eq!(world.outcome(queued), Outcome::NotApplied);
        world.finish();
    }
}

#[test]
fn a_server_that_does_not_answer_does_not_hold_it_up() {
    let mut world = World::up();
    let write = world.create("/a");
    world.close();
    world.advance(ms(2000));
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    assert_eq!(world.outcome(write), Outcome::Unknown);
    world.finish();
}

#[test]
fn a_lost_answer_is_as_good_when_the_session_is_gone() {
    let mut world = World::up();
    world.close();
    world.cut();
    world.open();
    world.respond(&rejection());
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    assert!(matches!(world.events().pop(), Some(SessionEvent::Closed { .. })));
    world.finish();
}

#[test]
fn a_lost_request_is_made_again() {
    let mut world = World::up();
    world.close();
    world.cut();
    world.bring_up();
    assert_eq!(world.ops(), [OpCode::CloseSession]);
    world.finish();
}

#[test]
fn expiry_while_closing_is_the_end_that_was_wanted() {
    let mut world = World::with(|settings| settings.close_timeout = Duration::MAX);
    world.bring_up();
    world.servers = Servers::Refuse;
    world.cut();
    world.close();
    world.advance(ms(20_000));
    assert_eq!(world.session.ended(), Some(SessionEnd::Closed));
    world.finish();
}
