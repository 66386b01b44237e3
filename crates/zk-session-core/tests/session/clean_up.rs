//! Clean-up: guaranteed deletes and sweeps, which the session repeats until a server answers them.

use proto::{ChildList, ChildrenReply};
use zk_session_core::limits::{BACKLOG_BYTES_MAX, CLEAN_UPS_MAX, QUEUED_BYTES_MAX};

use crate::harness::prelude::*;

const NO_NODE: Failure = (ErrorKind::Server(ErrorCode::NO_NODE), Outcome::NotApplied);

/// Answers the requests of a sweep before its deletes.
pub(crate) fn list(world: &mut World, names: &[&str]) {
    world.accept(OpCode::Sync);
    answer_list(world, ErrorCode::OK, names);
}

fn answer_list(world: &mut World, code: ErrorCode, names: &[&str]) {
    let children = ChildList::from_names(names);
    let reply = ChildrenReply { children, stat: Stat::default() };
    world.answer_next(OpCode::GetChildren2, Zxid(9), code, &reply);
}

/// Takes the deletes that the server received, and returns their paths.
fn deletes(world: &mut World) -> Vec<String> {
    assert!(world.ops().iter().all(|op| *op == OpCode::Delete), "{:?}", world.ops());
    world.frames.drain(..).map(|frame| frame.path()).collect()
}

fn failed(path: &str, code: ErrorCode) -> SessionEvent {
    SessionEvent::CleanUpFailed { path: path.to_owned(), code }
}

fn delete_unwatched(world: &mut World, path: &str) -> Result<(), Failure> {
    let result = world.session.delete_guaranteed(world.instant(), path, None);
    world.settle();
    result
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
    world.accept(OpCode::Delete);
    assert!(world.is_ok(n));
    world.reconnect();
    assert_eq!(world.ops(), [], "done is done");
}

#[test]
fn missing_node_is_success_only_after_a_lost_attempt() {
    let mut world = World::up();
    let n = world.delete_guaranteed("/a");
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert_eq!(*world.failure(n), NO_NODE);

    let n = world.delete_guaranteed("/a");
    world.reject(OpCode::Delete, ErrorCode::THROTTLED_OP); // the server did not attempt it
    world.advance(T / 5);
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert_eq!(*world.failure(n), NO_NODE);

    // Another client has deleted the node: the request of this one never left.
    world.room = 0;
    let n = world.delete_guaranteed("/a");
    world.cut();
    world.room = usize::MAX;
    world.bring_up();
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert_eq!(*world.failure(n), NO_NODE);

    let n = world.delete_guaranteed("/a");
    world.reconnect();
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert!(world.is_ok(n));

    let before = world.events().len();
    let gone = world.delete_guaranteed("/a");
    world.abandon(gone);
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert_eq!(world.events().len(), before, "it is deleted");
}

#[test]
fn rejected_delete_fails_its_caller_or_emits_an_event() {
    let mut world = World::up();
    let told = world.delete_guaranteed("/a");
    world.reject(OpCode::Delete, ErrorCode::NOT_EMPTY);
    let rejected = (ErrorKind::Server(ErrorCode::NOT_EMPTY), Outcome::NotApplied);
    assert_eq!(*world.failure(told), rejected);

    delete_unwatched(&mut world, "/b").unwrap();
    let gone = world.delete_guaranteed("/c");
    world.abandon(gone);
    for path in ["/b", "/c"] {
        world.reject(OpCode::Delete, ErrorCode::NO_AUTH);
        assert_eq!(world.events().pop(), Some(failed(path, ErrorCode::NO_AUTH)));
    }
}

#[test]
fn throttled_delete_is_retried_after_a_random_pause() {
    let pause = |seed| {
        let mut world = World::up_with(|settings| settings.seed = seed);
        let n = world.delete_guaranteed("/a");
        world.reject(OpCode::Delete, ErrorCode::THROTTLED_OP);
        let retried = world.advance_to_next(OpCode::Delete);
        world.accept(OpCode::Delete);
        assert!(world.is_ok(n));
        retried
    };
    let pauses: BTreeSet<_> = (0..20).map(pause).collect();
    assert!(pauses.len() > 15, "{pauses:?}");
    assert!(pauses.iter().all(|it| (T / 10..T / 5).contains(it)));
}

#[test]
fn throttled_delete_is_sent_once_at_once_after_a_reconnect() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    world.reject(OpCode::Delete, ErrorCode::THROTTLED_OP);
    world.reconnect();
    assert_eq!(deletes(&mut world), ["/a"]);
    world.advance(T / 4);
    assert_eq!(world.times(OpCode::Delete).len(), 2);
}

/// Otherwise n deletes that a busy server throttles would become n * n / 2 requests.
#[test]
fn new_delete_does_not_hasten_the_retry_of_a_throttled_one() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    world.reject(OpCode::Delete, ErrorCode::THROTTLED_OP);
    world.delete_guaranteed("/b");
    assert_eq!(deletes(&mut world), ["/b"]);
    world.advance(T / 5);
    assert_eq!(deletes(&mut world), ["/a"]);
}

#[test]
fn unsent_guaranteed_delete_reports_not_applied() {
    let mut world = World::up();
    let sent = world.delete_guaranteed("/a");
    world.servers = Servers::Refuse;
    world.cut();
    let unsent = world.delete_guaranteed("/b");
    world.advance_to_end();
    let outcomes = [world.outcome(sent), world.outcome(unsent)];
    assert_eq!(outcomes, [Outcome::Unknown, Outcome::NotApplied]);
}

#[test]
fn node_is_deleting_until_a_server_answers_its_delete() {
    let mut world = World::up();
    world.delete_guaranteed("/a");
    world.delete_marked("/b");
    world.sweep("/c", "x");
    let deleting = |world: &World| {
        let paths = ["/a", "/b", "/c/x1", "/c", "/"];
        paths.into_iter().filter(|path| world.session.is_deleting(path)).collect::<Vec<_>>()
    };
    assert_eq!(deleting(&world), ["/a", "/b"]);
    world.cut(); // no delete was answered
    assert_eq!(deleting(&world), ["/a", "/b"]);
    world.bring_up();
    for left in [&["/b"][..], &[]] {
        world.accept(OpCode::Delete); // the second has no mark any more
        assert_eq!(deleting(&world), left);
    }
    list(&mut world, &["x1", "y1"]);
    assert_eq!(deleting(&world), ["/c/x1"], "the sweep has found it");
    world.accept(OpCode::Delete);
    world.delete_marked("/b");
    world.reject(OpCode::Multi, ErrorCode::NO_AUTH);
    assert_eq!(deleting(&world), ["/b"], "without the mark now");
    world.reject(OpCode::Delete, ErrorCode::NOT_EMPTY);
    assert_eq!(deleting(&world), [""; 0], "a rejection is an answer");
}

#[test]
fn sweep_deletes_only_children_with_the_prefix() {
    let mut world = World::up();
    world.sweep("/locks", "_c_1-");
    assert_eq!(world.frames[0].path(), "/locks");
    let names = ["_c_1-lock-0000000003", "_c_2-lock-0000000001", "x_c_1-", "_c_1-b", ""];
    list(&mut world, &names);
    assert_eq!(deletes(&mut world)[0], "/locks/_c_1-lock-0000000003");
    world.reconnect(); // neither delete was answered
    for path in ["/locks/_c_1-lock-0000000003", "/locks/_c_1-b"] {
        assert_eq!(world.frames[0].path(), path, "without another list");
        world.accept(OpCode::Delete);
    }
    world.sweep("/", "a");
    list(&mut world, &["ab", "b"]);
    assert_eq!(deletes(&mut world), ["/ab"]);
}

/// The list of a server that lags behind may lack the node, which would then stay.
#[test]
fn sweep_is_repeated_if_it_is_interrupted_before_its_list() {
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    world.reconnect();
    world.reject(OpCode::Sync, ErrorCode::THROTTLED_OP);
    answer_list(&mut world, ErrorCode::OK, &["_c_1-a"]);
    assert_eq!(deletes(&mut world), [""; 0]);
    world.advance(T / 5);
    list(&mut world, &["_c_1-a"]);
    assert_eq!(deletes(&mut world), ["/p/_c_1-a"]);
}

#[test]
fn sweep_ignores_a_missing_parent_and_reports_a_rejection() {
    let mut world = World::up();
    world.sweep("/a", "x");
    world.sweep("/b", "x");
    for code in [ErrorCode::NO_NODE, ErrorCode::NO_AUTH] {
        world.accept(OpCode::Sync);
        answer_list(&mut world, code, &["x1"]);
    }
    assert_eq!(world.events()[1..], [failed("/b", ErrorCode::NO_AUTH)]);
    assert_eq!(world.times(OpCode::Delete), []);
}

#[test]
fn sweep_with_an_oversized_list_is_not_repeated() {
    let mut world = World::up_with(|settings| settings.max_frame_len = 1000);
    world.sweep("/p", "_c_1");
    let patient = world.delete_guaranteed("/a");
    world.accept(OpCode::Sync);
    let list = world.take(OpCode::GetChildren2);
    world.deliver(&[1001, list.xid].map(i32::to_be_bytes).concat());
    assert_eq!(world.cause(), DisconnectReason::FrameTooLarge);
    assert!(world.events().contains(&failed("/p", ErrorCode::MARSHALLING_ERROR)));
    world.bring_up();
    world.accept(OpCode::Delete); // other clean-up continues
    assert!(world.is_ok(patient) && world.ops().is_empty());
}

#[test]
fn sweep_takes_long_lists_and_skips_oversized_names() {
    let overhead = proto::request_frame_len(&Delete { path: "/p/".into(), version: -1 });
    let longest = format!("_c_1{}", "x".repeat(proto::FRAME_LEN_MAX_SERVER - overhead - 4));
    let longer = format!("{longest}x");
    let mut world = World::up();
    world.sweep("/p", "_c_1");
    list(&mut world, &[&longer, &longest]);
    assert_eq!(deletes(&mut world), [format!("/p/{longest}")]);

    let mut world = World::up();
    world.sweep("/p", "_c_1");
    let names: Vec<String> = (0..CLEAN_UPS_MAX + 10).map(|n| format!("_c_1{n}")).collect();
    list(&mut world, &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(world.stats().clean_up_pending, CLEAN_UPS_MAX + 10, "behind the limit, too");
}

#[test]
fn clean_up_ends_with_the_session() {
    let mut world = World::up();
    let n = world.delete_guaranteed("/a");
    world.sweep("/a", "x");
    world.session.abort();
    world.settle();
    assert_eq!(*world.failure(n), (ended(SessionEnd::Closed), Outcome::Unknown));
    let late = world.try_delete_guaranteed("/b");
    assert_eq!(late, Err((ended(SessionEnd::Closed), Outcome::NotApplied)));
}

#[test]
fn clean_up_with_an_oversized_path_is_rejected_at_once() {
    let mut world = World::up();
    let path = format!("/{}", "x".repeat(1 << 20));
    let sweep = world.session.delete_protected_guaranteed(world.instant(), &path, "x");
    for result in [world.try_delete_guaranteed(&path).map(drop), sweep] {
        assert!(matches!(result, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    }
    assert_eq!(world.ops(), []);
}

#[test]
fn clean_up_beyond_its_byte_limits_ends_the_session() {
    let mut world = World::new();
    world.servers = Servers::Refuse;
    let path = format!("/{}", "x".repeat(1_000_000));
    let most = QUEUED_BYTES_MAX / path.len();
    for _ in 0..most {
        delete_unwatched(&mut world, &path).unwrap();
    }
    assert_eq!(world.events(), []);
    let refused = world.try_delete_guaranteed(&path);
    assert_eq!(refused, Err((ErrorKind::LimitReached(Limit::CleanUpBytes), Outcome::Unknown)));
    assert_eq!(world.events(), [SessionEvent::CleanUpBacklog { nodes: 1 }]);
    // Beyond both limits, no clean-up is kept and the session ends, so that its nodes do not stay.
    let mut count = most + 1;
    let closed = loop {
        match delete_unwatched(&mut world, &path) {
            Ok(()) => count += 1,
            Err(closed) => break closed,
        }
    };
    assert_eq!(count, most + BACKLOG_BYTES_MAX / 1_000_060);
    assert_eq!(closed, (ended(SessionEnd::CleanUpOverflow), Outcome::NotApplied));
    world.advance(T * 2);
    assert_eq!(world.end(), Some(SessionEnd::CleanUpOverflow));
}

/// A session that is closed after an overflow is not replaced by a session manager.
#[test]
fn close_after_a_clean_up_overflow_ends_as_closed() {
    let mut world = World::up();
    let path = format!("/{}", "x".repeat(1_000_000));
    while world.session.delete_guaranteed(world.instant(), &path, None).is_ok() {}
    world.close();
    world.advance(T * 2);
    assert_eq!(world.end(), Some(SessionEnd::Closed));
}
