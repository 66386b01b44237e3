//! Deletes that other clients can distinguish by their events, and watches on several nodes.

use proto::{Multi, MultiReply, MultiResult};
use zk_session_core::WatchKind::{Children, Data};

use crate::harness::prelude::*;

const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

fn answer(world: &mut World, results: Vec<MultiResult>) {
    world.answer_next(OpCode::Multi, Zxid(9), ErrorCode::OK, &MultiReply { results });
}

fn applied(world: &mut World) {
    answer(world, vec![MultiResult::Set(Stat::default()), MultiResult::Deleted]);
}

fn rejected(world: &mut World, code: ErrorCode) {
    answer(world, [code, ErrorCode::RUNTIME_INCONSISTENCY].map(MultiResult::Error).to_vec());
}

/// Checks the paths of the next request that sets one-shot watches.
fn sets(world: &World, paths: &str) {
    assert_eq!(world.rearmed()[0], (SINCE, paths.to_owned()));
}

/// Takes the request that sets persistent watches again. Their paths are also those of its data watches.
fn streams_again(world: &mut World, paths: &[&str]) -> crate::script::Frame {
    let frame = world.take(OpCode::SetWatches2);
    let again = frame.read::<SetWatches2<'_>>();
    assert_eq!((again.persistent, again.data), (paths_of(paths), paths_of(paths)));
    frame
}

fn paths_of<'a>(paths: &[&'a str]) -> Vec<std::borrow::Cow<'a, str>> {
    paths.iter().map(|path| (*path).into()).collect()
}

#[test]
fn marked_delete_is_one_transaction_that_changes_the_data_first() {
    let mut world = World::up();
    let n = world.delete_marked("/a");
    let set = SetData { path: "/a".into(), data: Some((&[]).into()), version: -1 };
    let delete = Delete { path: "/a".into(), version: -1 };
    assert_eq!(world.frames[0].read::<Multi<'_>>(), Multi::new(&[set.into(), delete.into()]));
    world.reject(OpCode::Multi, ErrorCode::THROTTLED_OP);
    world.advance(T / 5);
    applied(&mut world);
    assert!(world.is_ok(n));
    assert_eq!(world.ops(), []);
}

#[test]
fn rejected_transaction_is_followed_by_a_plain_delete() {
    // A reply that is no transaction's counts as a rejection: to delete again does no harm.
    for unreadable in [false, true] {
        let mut world = World::up();
        let n = world.delete_marked("/a");
        if unreadable {
            world.accept(OpCode::Multi);
        } else {
            rejected(&mut world, ErrorCode::NO_AUTH);
        }
        assert_eq!(world.reply(n), None);
        world.accept(OpCode::Delete);
        assert!(world.is_ok(n));
    }
    // As does a path that fits no transaction.
    let mut world = World::up();
    let path = format!("/{}", "a".repeat(proto::FRAME_LEN_MAX_SERVER * 2 / 3));
    world.delete_marked(&path);
    world.accept(OpCode::Delete);
}

#[test]
fn missing_node_is_success_only_after_a_lost_transaction() {
    let mut world = World::up();
    let n = world.delete_marked("/a");
    rejected(&mut world, ErrorCode::NO_NODE);
    let gone = (ErrorKind::Server(ErrorCode::NO_NODE), Outcome::NotApplied);
    assert_eq!(*world.failure(n), gone);

    let n = world.delete_marked("/a");
    world.reconnect();
    // The node of that path may be another one by now, so the second delete has no mark.
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert!(world.is_ok(n));
}

#[test]
fn watches_on_several_nodes_are_set_by_one_request() {
    let mut world = World::up();
    let (n, watches) =
        world.watch_nodes(&[("/a", Children), ("/a", Data), ("/b", Children)]).unwrap();
    sets(&world, "/a |  | /a /b");
    // An event of a missing node precedes the reply.
    world.notify(DELETED, "/b");
    assert_eq!(world.event_zxid(watches[2]), None);
    assert_eq!(world.reply(n), None);
    world.accept(OpCode::SetWatches);
    assert!(world.is_ok(n));

    world.notify_of(Zxid(17), CHANGED, "/a");
    assert_eq!(world.fired(watches[0]), None);
    world.notify_of(Zxid(17), DELETED, "/a");
    assert_eq!([watches[1], watches[0]].map(|n| world.event_zxid(n)), [Some(Zxid(17)); 2]);
}

#[test]
fn watches_on_several_nodes_survive_a_lost_connection() {
    let mut world = World::up();
    let (lost, watch) = world.watch_nodes(&[("/a", Data)]).unwrap();
    world.cut();
    assert_eq!(world.outcome(lost), Outcome::NotApplied);
    let (n, late) = world.watch_nodes(&[("/b", Children)]).unwrap();
    world.bring_up();
    sets(&world, "/a |  | /b");
    world.accept(OpCode::SetWatches);
    sets(&world, " |  | /b");
    world.accept(OpCode::SetWatches);
    assert!(world.is_ok(n));
    world.notify_of(Zxid(17), CHANGED, "/a");
    world.notify_of(Zxid(18), DELETED, "/b");
    assert_eq!([watch[0], late[0]].map(|n| world.event_zxid(n)), [Some(Zxid(17)), Some(Zxid(18))]);
}

#[test]
fn watches_beyond_a_limit_are_rejected_together() {
    let mut world = World::up_with(|settings| settings.max_watches = 2);
    let three = [("/a", Data), ("/b", Data), ("/c", Data)];
    let limit = (ErrorKind::LimitReached(Limit::Watches), Outcome::NotApplied);
    assert_eq!(world.watch_nodes(&three).unwrap_err(), limit);
    let long = format!("/{}", "a".repeat(proto::FRAME_LEN_MAX_SERVER));
    let refused = world.watch_nodes(&[("/a", Data), (&long, Data)]);
    assert!(matches!(refused, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    assert_eq!((world.ops(), world.stats().one_shot_watches), (vec![], 0));
    assert!(world.watch_nodes(&three[..2]).is_ok());
}

/// Before 3.9.0 the request replaces a persistent watch on its node. Other nodes need no repetition.
#[test]
fn stream_on_one_of_several_watched_nodes_is_set_again() {
    // The server executes them in order, so that the stream may also be under way.
    for under_way in [false, true] {
        let mut world = World::up();
        world.watch_nodes(&[("/b", Data)]).unwrap();
        world.accept(OpCode::SetWatches);
        assert_eq!(world.ops(), []);
        world.stream(AddWatchMode::Persistent, "/a");
        if !under_way {
            world.serve_next(OpCode::AddWatch);
        }
        world.watch_nodes(&[("/a", Data), ("/b", Data)]).unwrap();
        if under_way {
            world.serve_next(OpCode::AddWatch);
        }
        world.take(OpCode::SetWatches);
        streams_again(&mut world, &["/a"]);
        assert_eq!(world.ops(), []);
    }
}

/// A stream is set again after them, also if its request waited for the connection too.
#[test]
fn stream_on_nodes_watched_without_a_connection_is_set_last() {
    let mut world = World::up();
    world.stream(AddWatchMode::Persistent, "/a");
    world.serve_next(OpCode::AddWatch);
    world.cut();
    world.stream(AddWatchMode::Persistent, "/b");
    let (n, watches) = world.watch_nodes(&[("/a", Data), ("/b", Data)]).unwrap();
    world.bring_up();
    let frame = world.take(OpCode::SetWatches2);
    let all = frame.read::<SetWatches2<'_>>();
    assert_eq!((all.persistent, all.child), (paths_of(&["/a"]), vec![]));
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.accept(OpCode::AddWatch);
    sets(&world, "/a /b |  | ");
    let set = world.take(OpCode::SetWatches);
    let again = streams_again(&mut world, &["/a", "/b"]);
    for frame in [set, again] {
        world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    }
    assert!(world.is_ok(n));
    world.notify(CHANGED, "/a");
    assert!(world.fired(watches[0]).is_some_and(Result::is_ok));
}
