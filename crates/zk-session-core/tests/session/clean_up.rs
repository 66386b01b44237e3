//! Clean-up: guaranteed deletes and sweeps, which the session repeats until a server answers them.

use std::collections::BTreeSet;

use proto::{ChildList, ChildrenReply, Delete, ErrorCode, OpCode, Stat, Zxid};
use zk_session_core::limits::{BACKLOG_BYTES_MAX, CLEAN_UPS_MAX, QUEUED_BYTES_MAX};
use zk_session_core::{DisconnectReason, ErrorKind, Limit, Outcome, SessionEnd, SessionEvent};

use crate::harness::{Servers, T, World, ended, ms};

fn children(names: &[&str]) -> ChildrenReply {
    ChildrenReply { children: ChildList::from_names(names), stat: Stat::default() }
}

#[test]
fn guaranteed_delete_is_repeated_until_it_is_answered() {
    let mut world = World::up();
    let n = world.delete_guaranteed("/a");
    for _ in 0..4 {
        let frame = world.take(OpCode::Delete);
        assert_eq!((frame.path().as_str(), frame.read::<Delete<'_>>().version), ("/a", -1));
        world.cut();
        assert_eq!(world.reply(n), None);
        world.bring_up();
    }
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(n));
    world.cut();
    world.bring_up();
    assert_eq!(world.ops(), [], "done is done");
    world.finish();
}

#[test]
fn missing_node_is_success_only_after_a_lost_attempt() {
    let gone = (ErrorKind::Server(ErrorCode::NO_NODE), Outcome::NotApplied);
    let mut world = World::up();
    let n = world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    assert_eq!(*world.failure(n), gone);

    let n = world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &()); // the server did not attempt it
    world.advance(T / 5);
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    assert_eq!(*world.failure(n), gone);

    let n = world.delete_guaranteed("/a");
    world.cut();
    world.bring_up();
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    assert!(world.is_ok(n));

    let nobody = world.delete_guaranteed("/a");
    world.abandon(nobody);
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    let failed = |e: &SessionEvent| matches!(e, SessionEvent::CleanUpFailed { .. });
    assert!(!world.events().iter().any(failed));
    world.finish();
}

/// Another client has deleted the node: the request of this one never left.
#[test]
fn missing_node_is_no_success_after_an_unsent_attempt() {
    let mut world = World::up();
    world.room = 0;
    let n = world.delete_guaranteed("/a");
    world.cut();
    world.room = usize::MAX;
    world.bring_up();
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    assert_eq!(*world.failure(n), (ErrorKind::Server(ErrorCode::NO_NODE), Outcome::NotApplied));
    world.finish();
}

#[test]
fn rejected_delete_fails_its_caller_or_emits_an_event() {
    let mut world = World::up();
    let told = world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::NOT_EMPTY, &());
    assert_eq!(
        *world.failure(told),
        (ErrorKind::Server(ErrorCode::NOT_EMPTY), Outcome::NotApplied)
    );

    world.session.delete_guaranteed(world.instant(), "/b", None).unwrap();
    world.settle();
    let gone = world.delete_guaranteed("/c");
    world.abandon(gone);
    for path in ["/b", "/c"] {
        let frame = world.take(OpCode::Delete);
        world.answer(&frame, Zxid(9), ErrorCode::NO_AUTH, &());
        let failed =
            SessionEvent::CleanUpFailed { path: path.to_owned(), code: ErrorCode::NO_AUTH };
        assert_eq!(world.events().pop(), Some(failed));
    }
    world.finish();
}

#[test]
fn throttled_delete_is_retried_after_a_pause() {
    let mut world = World::up();
    let n = world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
    world.advance(T / 10 - ms(1));
    assert_eq!(world.ops(), []);
    world.advance(T / 10);
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(n));
    world.finish();
}

#[test]
fn retries_of_throttled_deletes_are_spread_at_random() {
    let pause = |seed| {
        let mut world = World::with(|settings| settings.seed = seed);
        world.bring_up();
        world.delete_guaranteed("/a");
        let frame = world.take(OpCode::Delete);
        world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
        world.advance(T);
        let times = world.times(OpCode::Delete);
        world.finish();
        times[1] - times[0]
    };
    let pauses: BTreeSet<_> = (0..20).map(pause).collect();
    assert!(pauses.len() > 15, "{pauses:?}");
    assert!(pauses.iter().all(|it| (T / 10..T / 5).contains(it)));
}

#[test]
fn sweep_with_an_oversized_list_is_not_repeated() {
    let mut world = World::with(|settings| settings.max_frame_len = 1000);
    world.bring_up();
    world.sweep("/p", "_c_1");
    let patient = world.delete_guaranteed("/a");
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    world.deliver(&[&1001_i32.to_be_bytes()[..], &list.xid.to_be_bytes()].concat());
    assert_eq!(world.cause(), DisconnectReason::FrameTooLarge);
    let code = ErrorCode::MARSHALLING_ERROR;
    let failed = SessionEvent::CleanUpFailed { path: "/p".to_owned(), code };
    assert!(world.events().contains(&failed));
    world.bring_up();
    let frame = world.take(OpCode::Delete); // other clean-up continues
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(patient) && world.ops().is_empty());
    world.finish();
}

#[test]
fn unsent_guaranteed_delete_reports_not_applied() {
    let mut world = World::up();
    let sent = world.delete_guaranteed("/a");
    world.servers = Servers::Refuse;
    world.cut();
    let unsent = world.delete_guaranteed("/b");
    world.advance(T * 2);
    assert_eq!(world.outcome(sent), Outcome::Unknown);
    assert_eq!(world.outcome(unsent), Outcome::NotApplied);
    world.finish();
}

#[test]
fn throttled_delete_is_sent_once_on_a_new_connection() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
    world.cut();
    world.bring_up();
    world.advance(T / 2);
    assert_eq!(world.times(OpCode::Delete).len(), 2);
    world.finish();
}

#[test]
fn sweep_deletes_only_children_with_the_prefix() {
    let mut world = World::up();
    world.sweep("/locks", "_c_1-");
    let sync = world.take(OpCode::Sync);
    assert_eq!(sync.path(), "/locks");
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    let names = ["_c_1-lock-0000000003", "_c_2-lock-0000000001", "x_c_1-", "_c_1-b", ""];
    world.answer(&list, Zxid(9), ErrorCode::OK, &children(&names));
    assert_eq!(world.take(OpCode::Delete).path(), "/locks/_c_1-lock-0000000003");
    world.cut(); // neither delete was answered
    world.bring_up();
    let paths = [OpCode::Delete; 2].map(|op| world.take(op).path());
    assert_eq!(paths, ["/locks/_c_1-lock-0000000003", "/locks/_c_1-b"]);
    assert_eq!(world.ops(), [], "the list is not taken again");
    world.finish();
}

#[test]
fn node_is_deleting_until_a_server_answers_its_delete() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    world.delete_marked("/b");
    world.sweep("/c", "x");
    let are = |world: &World| {
        ["/a", "/b", "/c/x1", "/c", "/"].map(|path| world.session.is_deleting(path))
    };
    assert_eq!(are(&world), [true, true, false, false, false]);
    world.cut(); // no delete was answered
    assert_eq!(are(&world), [true, true, false, false, false]);
    world.bring_up();
    for expected in [[false, true, false, false, false], [false; 5]] {
        let delete = world.take(OpCode::Delete); // the second has no mark any more
        world.answer(&delete, Zxid(9), ErrorCode::OK, &());
        assert_eq!(are(&world), expected);
    }
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    world.answer(&list, Zxid(9), ErrorCode::OK, &children(&["x1", "y1"]));
    assert_eq!(are(&world), [false, false, true, false, false], "the sweep has found it");
    let found = world.take(OpCode::Delete);
    world.answer(&found, Zxid(9), ErrorCode::OK, &());
    world.delete_marked("/b");
    let marked = world.take(OpCode::Multi);
    world.answer(&marked, Zxid(9), ErrorCode::NO_AUTH, &());
    assert_eq!(are(&world), [false, true, false, false, false], "without the mark now");
    let plain = world.take(OpCode::Delete);
    world.answer(&plain, Zxid(9), ErrorCode::NOT_EMPTY, &());
    assert_eq!(are(&world), [false; 5], "a rejection is an answer");
    world.finish();
}

#[test]
fn sweep_of_the_root_is_repeated_after_a_reconnect() {
    let mut world = World::up();
    world.sweep("/", "a");
    world.cut();
    world.bring_up();
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    world.answer(&list, Zxid(9), ErrorCode::OK, &children(&["ab", "b"]));
    assert_eq!(world.take(OpCode::Delete).path(), "/ab");
    world.finish();
}

#[test]
fn sweep_ignores_a_missing_parent_and_reports_a_rejection() {
    let mut world = World::up();
    world.sweep("/a", "x");
    world.sweep("/b", "x");
    for code in [ErrorCode::NO_NODE, ErrorCode::NO_AUTH] {
        let sync = world.take(OpCode::Sync);
        world.answer(&sync, Zxid(9), ErrorCode::OK, &());
        let list = world.take(OpCode::GetChildren2);
        world.answer(&list, Zxid(9), code, &());
    }
    let failed = SessionEvent::CleanUpFailed { path: "/b".to_owned(), code: ErrorCode::NO_AUTH };
    assert_eq!(world.events()[1..], [failed]);
    world.finish();
}

#[test]
fn clean_up_ends_with_the_session() {
    let mut world = World::up();
    let n = world.delete_guaranteed("/a");
    world.sweep("/a", "x");
    world.session.abort();
    world.settle();
    assert_eq!(*world.failure(n), (ended(SessionEnd::Closed), Outcome::Unknown));
    let to = world.number();
    let late = world.session.delete_guaranteed(world.instant(), "/b", Some(to.into()));
    assert_eq!(late, Err((ended(SessionEnd::Closed), Outcome::NotApplied)));
    world.finish();
}

#[test]
fn clean_up_with_an_oversized_path_is_rejected_at_once() {
    let mut world = World::up();
    let path = format!("/{}", "x".repeat(1 << 20));
    let to = world.number();
    let result = world.session.delete_guaranteed(world.instant(), &path, Some(to.into()));
    assert!(matches!(result, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    let result = world.session.delete_protected_guaranteed(world.instant(), &path, "x");
    assert!(matches!(result, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    world.settle();
    assert_eq!(world.ops(), []);
    world.finish();
}

#[test]
fn sweep_backlog_takes_long_lists_and_skips_oversized_names() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    let too_long = format!("_c_1{}", "x".repeat(2 << 20));
    let many = (0..CLEAN_UPS_MAX + 10).map(|n| format!("_c_1{n}"));
    let names: Vec<String> = many.chain([too_long]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.answer(&list, Zxid(9), ErrorCode::OK, &children(&names));
    let stats = world.session.stats(world.instant());
    assert_eq!(stats.clean_up_pending, CLEAN_UPS_MAX + 10);
    assert!(world.frames.iter().all(|frame| frame.path().len() < 64));
}

/// Otherwise n deletes that a busy server throttles would become n * n / 2 requests.
#[test]
fn new_delete_does_not_hasten_the_retry_of_a_throttled_one() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
    world.delete_guaranteed("/b");
    assert_eq!(world.take(OpCode::Delete).path(), "/b");
    assert_eq!(world.ops(), []);
    world.advance(T / 5);
    assert_eq!(world.take(OpCode::Delete).path(), "/a");
    world.finish();
}

#[test]
fn throttled_delete_is_sent_at_once_after_a_reconnect() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::THROTTLED_OP, &());
    world.cut();
    world.bring_up();
    assert_eq!(world.take(OpCode::Delete).path(), "/a");
    world.finish();
}

#[test]
fn clean_up_beyond_its_byte_limits_ends_the_session() {
    let mut world = World::new();
    world.servers = Servers::Refuse;
    let path = |n: usize| format!("/{n:03}{}", "x".repeat(1_000_000));
    let most = QUEUED_BYTES_MAX / 1_000_004;
    for n in 0..most {
        world.session.delete_guaranteed(world.instant(), &path(n), None).unwrap();
    }
    world.settle();
    assert_eq!(world.events(), []);
    let to = Some(world.number().into());
    let refused = world.session.delete_guaranteed(world.instant(), &path(most), to);
    assert_eq!(refused, Err((ErrorKind::LimitReached(Limit::CleanUpBytes), Outcome::Unknown)));
    world.settle();
    assert_eq!(world.events(), [SessionEvent::CleanUpBacklog { nodes: 1 }]);
    // Beyond both limits, no clean-up is kept and the session ends, so that its nodes do not stay.
    let mut count = most + 1;
    let closed = loop {
        match world.session.delete_guaranteed(world.instant(), &path(count), None) {
            Ok(()) => count += 1,
            Err(closed) => break closed,
        }
    };
    assert_eq!(count, most + BACKLOG_BYTES_MAX / 1_000_060);
    assert_eq!(closed, (ended(SessionEnd::CleanUpOverflow), Outcome::NotApplied));
    world.settle();
    world.advance(T * 2);
    assert_eq!(world.session.end_reason(), Some(SessionEnd::CleanUpOverflow));
    world.finish();
}

#[test]
fn answered_deletes_make_room_for_as_many_bytes() {
    let mut world = World::up();
    let path = format!("/{}", "x".repeat(1_000_000));
    for _ in 0..QUEUED_BYTES_MAX / path.len() + 1 {
        world.delete_guaranteed(&path);
        let frame = world.take(OpCode::Delete);
        world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    }
    assert_eq!(world.session.stats(world.instant()).clean_up_pending, 0);
    world.finish();
}

/// The list of a server that lags behind may lack the node, which would then stay.
#[test]
fn sweep_is_repeated_if_the_server_rejects_its_sync() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    for (rejected, expected) in [(true, 0), (false, 1)] {
        let sync = world.take(OpCode::Sync);
        let code = if rejected { ErrorCode::THROTTLED_OP } else { ErrorCode::OK };
        world.answer(&sync, Zxid(9), code, &());
        let list = world.take(OpCode::GetChildren2);
        world.answer(&list, Zxid(9), ErrorCode::OK, &children(&["_c_1-a"]));
        assert_eq!(world.times(OpCode::Delete).len(), expected);
        world.advance(T / 5);
    }
    world.finish();
}

#[test]
fn sweep_deletes_nothing_if_its_list_is_rejected() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    world.answer(&list, Zxid(9), ErrorCode::NO_AUTH, &children(&["_c_1-a"]));
    assert_eq!(world.times(OpCode::Delete), []);
    world.finish();
}

#[test]
fn sweep_deletes_the_longest_name_that_fits_a_frame() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    let sync = world.take(OpCode::Sync);
    world.answer(&sync, Zxid(9), ErrorCode::OK, &());
    let list = world.take(OpCode::GetChildren2);
    let overhead = proto::request_frame_len(&Delete { path: "/p/".into(), version: -1 });
    let longest = format!("_c_1{}", "x".repeat(proto::FRAME_LEN_MAX_SERVER - overhead - 4));
    let longer = format!("{longest}x");
    world.answer(&list, Zxid(9), ErrorCode::OK, &children(&[&longer, &longest]));
    assert_eq!(world.take(OpCode::Delete).path(), format!("/p/{longest}"));
    assert_eq!(world.ops(), []);
    world.finish();
}

/// A session that is closed after an overflow is not replaced by a session manager.
#[test]
fn close_after_a_clean_up_overflow_ends_as_closed() {
    for closes in [false, true] {
        let mut world = World::up();
        let path = format!("/{}", "x".repeat(1_000_000));
        while world.session.delete_guaranteed(world.instant(), &path, None).is_ok() {}
        if closes {
            world.close();
        }
        world.settle();
        world.advance(T * 2);
        let end = if closes { SessionEnd::Closed } else { SessionEnd::CleanUpOverflow };
        assert_eq!(world.session.end_reason(), Some(end));
    }
}
