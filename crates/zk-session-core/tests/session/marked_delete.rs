//! Deletes that other clients can distinguish by their events, and watches on several nodes.

use proto::{
    AddWatchMode, Delete, Encode, ErrorCode, EventType, Multi, MultiReply, MultiResult, OpCode,
    SetData, SetWatches, SetWatches2, Stat, Zxid,
};
use zk_session_core::{ErrorKind, Limit, Outcome, WatchKind};

use crate::harness::{SINCE, T, World};

const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

fn applied() -> MultiReply {
    MultiReply { results: vec![MultiResult::Set(Stat::default()), MultiResult::Deleted] }
}

fn rejected(code: ErrorCode) -> MultiReply {
    let behind = MultiResult::Error(ErrorCode::RUNTIME_INCONSISTENCY);
    MultiReply { results: vec![MultiResult::Error(code), behind] }
}

/// Takes the transaction, and answers it.
fn answer(world: &mut World, code: ErrorCode, body: &impl Encode) {
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), code, body);
}

#[test]
fn marked_delete_is_one_transaction_that_changes_the_data_first() {
    let mut world = World::up();
    let n = world.delete_marked("/a");
    let frame = world.take(OpCode::Multi);
    let set = SetData { path: "/a".into(), data: Some((&[]).into()), version: -1 };
    let delete = Delete { path: "/a".into(), version: -1 };
    assert_eq!(frame.read::<Multi<'_>>(), Multi::new(&[set.into(), delete.into()]));
    world.answer(&frame, Zxid(9), ErrorCode::OK, &applied());
    assert!(world.is_ok(n));
    assert_eq!(world.ops(), []);
    world.finish();
}

#[test]
fn rejected_transaction_is_followed_by_a_plain_delete() {
    // A reply that is no transaction's counts as a rejection: to delete again does no harm.
    for unreadable in [false, true] {
        let mut world = World::up();
        let n = world.delete_marked("/a");
        match unreadable {
            true => answer(&mut world, ErrorCode::OK, &()),
            false => answer(&mut world, ErrorCode::OK, &rejected(ErrorCode::NO_AUTH)),
        }
        assert_eq!(world.reply(n), None);
        let frame = world.take(OpCode::Delete);
        world.answer(&frame, Zxid(9), ErrorCode::OK, &());
        assert!(world.is_ok(n));
        world.finish();
    }
}

#[test]
fn missing_node_is_success_only_after_a_lost_transaction() {
    let mut world = World::up();
    let n = world.delete_marked("/a");
    answer(&mut world, ErrorCode::OK, &rejected(ErrorCode::NO_NODE));
    let gone = (ErrorKind::Server(ErrorCode::NO_NODE), Outcome::NotApplied);
    assert_eq!(*world.failure(n), gone);

    let n = world.delete_marked("/a");
    drop(world.take(OpCode::Multi));
    world.cut();
    world.bring_up();
    // The node of that path may be another one by now, so the second delete has no mark.
    let delete = world.take(OpCode::Delete);
    world.answer(&delete, Zxid(9), ErrorCode::NO_NODE, &());
    assert!(world.is_ok(n));
    world.finish();
}

#[test]
fn marked_delete_is_repeated_after_a_throttled_attempt() {
    let mut world = World::up();
    let n = world.delete_marked("/a");
    answer(&mut world, ErrorCode::THROTTLED_OP, &());
    world.advance(T / 5);
    answer(&mut world, ErrorCode::OK, &applied());
    assert!(world.is_ok(n));
    world.finish();
}

#[test]
fn path_that_fits_only_a_plain_delete_is_deleted_without_a_mark() {
    let mut world = World::up();
    let path = format!("/{}", "a".repeat(proto::FRAME_LEN_MAX_SERVER * 2 / 3));
    let n = world.delete_marked(&path);
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(n));
    world.finish();
}

#[test]
fn watches_on_several_nodes_are_set_by_one_request() {
    let mut world = World::up();
    let nodes = [("/a", WatchKind::Children), ("/a", WatchKind::Data), ("/b", WatchKind::Children)];
    let (n, watches) = world.watch_nodes(&nodes).unwrap();
    let frame = world.take(OpCode::SetWatches);
    let request = frame.read::<SetWatches<'_>>();
    assert_eq!(
        (&*request.data, &*request.child),
        (&["/a".into()][..], &["/a".into(), "/b".into()][..])
    );
    assert_eq!(request.relative_zxid, SINCE);
    // An event of a missing node precedes the reply.
    world.notify(DELETED, "/b");
    assert_eq!(world.event_zxid(watches[2]), None);
    assert_eq!(world.reply(n), None);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(n));

    world.notify_of(Zxid(17), CHANGED, "/a");
    assert_eq!(world.fired(watches[0]), None);
    world.notify_of(Zxid(17), DELETED, "/a");
    assert_eq!(
        [watches[1], watches[0]].map(|n| world.event_zxid(n)),
        [Some(Zxid(17)), Some(Zxid(17))]
    );
    world.finish();
}

#[test]
fn watches_on_several_nodes_survive_a_lost_connection() {
    let mut world = World::up();
    let (lost, watch) = world.watch_nodes(&[("/a", WatchKind::Data)]).unwrap();
    world.cut();
    assert_eq!(world.outcome(lost), Outcome::NotApplied);
    let (n, late) = world.watch_nodes(&[("/b", WatchKind::Children)]).unwrap();
    world.bring_up();
    let frame = world.take(OpCode::SetWatches);
    let request = frame.read::<SetWatches<'_>>();
    assert_eq!((&*request.data, &*request.child), (&["/a".into()][..], &["/b".into()][..]));
    assert_eq!(request.relative_zxid, SINCE);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    let frame = world.take(OpCode::SetWatches);
    let request = frame.read::<SetWatches<'_>>();
    assert_eq!((&*request.data, &*request.child), (&[][..], &["/b".into()][..]));
    assert_eq!(request.relative_zxid, SINCE);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(n));
    world.notify_of(Zxid(17), CHANGED, "/a");
    world.notify_of(Zxid(18), DELETED, "/b");
    assert_eq!([watch[0], late[0]].map(|n| world.event_zxid(n)), [Some(Zxid(17)), Some(Zxid(18))]);
    world.finish();
}

#[test]
fn watches_beyond_the_limit_are_rejected_together() {
    let mut world = World::with(|settings| settings.max_watches = 2);
    world.bring_up();
    let three = [("/a", WatchKind::Data), ("/b", WatchKind::Data), ("/c", WatchKind::Data)];
    let limit = (ErrorKind::LimitReached(Limit::Watches), Outcome::NotApplied);
    assert_eq!(world.watch_nodes(&three).unwrap_err(), limit);
    assert_eq!(world.ops(), []);
    assert!(world.watch_nodes(&three[..2]).is_ok());
    world.finish();
}

#[test]
fn watches_that_fit_no_frame_are_rejected_together() {
    let mut world = World::up();
    let long = format!("/{}", "a".repeat(proto::FRAME_LEN_MAX_SERVER));
    let refused = world.watch_nodes(&[("/a", WatchKind::Data), (&long, WatchKind::Data)]);
    assert!(matches!(refused, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    assert_eq!((world.ops(), world.session.stats(world.instant()).one_shot_watches), (vec![], 0));
    world.finish();
}

/// Before 3.9.0 the request replaces a persistent watch on its node. Other nodes need no repetition.
#[test]
fn stream_on_one_of_several_watched_nodes_is_set_again() {
    let mut world = World::up();
    let (_, watches) = world.watch_nodes(&[("/b", WatchKind::Data)]).unwrap();
    let frame = world.take(OpCode::SetWatches);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert_eq!(world.ops(), []);
    world.answered.insert(OpCode::AddWatch.code());
    world.stream(AddWatchMode::Persistent, "/a");
    world.watch_nodes(&[("/a", WatchKind::Data), ("/b", WatchKind::Data)]).unwrap();
    world.take(OpCode::SetWatches);
    let frame = world.take(OpCode::SetWatches2);
    let again = frame.read::<SetWatches2<'_>>();
    assert_eq!((&*again.persistent, &*again.data), (&["/a".into()][..], &["/a".into()][..]));
    assert_eq!(world.ops(), []);
    drop(watches);
    world.finish();
}

/// A stream is set again after them, also if its request waited for the connection too.
#[test]
fn stream_on_nodes_watched_without_a_connection_is_set_last() {
    let mut world = World::up();
    world.answered.insert(OpCode::AddWatch.code());
    world.stream(AddWatchMode::Persistent, "/a");
    world.answered.clear();
    world.cut();
    world.stream(AddWatchMode::Persistent, "/b");
    let (n, watches) =
        world.watch_nodes(&[("/a", WatchKind::Data), ("/b", WatchKind::Data)]).unwrap();
    world.bring_up();
    let frame = world.take(OpCode::SetWatches2);
    let all = frame.read::<SetWatches2<'_>>();
    assert_eq!((&*all.persistent, &*all.child), (&["/a".into()][..], &[][..]));
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    let add = world.take(OpCode::AddWatch);
    world.answer(&add, Zxid(9), ErrorCode::OK, &());
    let frame = world.take(OpCode::SetWatches);
    let nodes = frame.read::<SetWatches<'_>>();
    assert_eq!((&*nodes.data, &*nodes.child), (&["/a".into(), "/b".into()][..], &[][..]));
    let again = world.take(OpCode::SetWatches2);
    let streams = again.read::<SetWatches2<'_>>();
    let both = &["/a".into(), "/b".into()][..];
    assert_eq!((&*streams.persistent, &*streams.data), (both, both));
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.answer(&again, Zxid(9), ErrorCode::OK, &());
    assert!(world.is_ok(n));
    world.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert!(world.fired(watches[0]).is_some_and(Result::is_ok));
    world.finish();
}

/// The server executes them in order, and the stream would be replaced.
#[test]
fn stream_under_way_is_set_again_after_watched_nodes() {
    let mut world = World::up();
    world.stream(AddWatchMode::Persistent, "/a");
    world.watch_nodes(&[("/a", WatchKind::Data)]).unwrap();
    let add = world.take(OpCode::AddWatch);
    world.take(OpCode::SetWatches);
    let frame = world.take(OpCode::SetWatches2);
    let again = frame.read::<SetWatches2<'_>>();
    assert_eq!((&*again.persistent, &*again.data), (&["/a".into()][..], &["/a".into()][..]));
    world.serve(&add);
    world.finish();
}
