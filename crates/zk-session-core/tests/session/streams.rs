//! Persistent watches, with a server that sends unusual events and errors.

use proto::{AddWatchMode, ErrorCode, EventType, OpCode, SetWatches, Zxid};
use zk_session_core::WatchKind;

use crate::harness::World;

#[test]
fn unknown_events_and_unwatched_paths_are_ignored() {
    let mut world = World::up();
    world.answered.insert(OpCode::AddWatch.code());
    let all = world.stream(AddWatchMode::PersistentRecursive, "/");
    for path in ["", "/", "a", "//", "/a//b"] {
        world.notify(EventType(99), path);
    }
    assert_eq!(world.told(all), []);
    world.notify(EventType::NODE_DELETED, "no path at all");
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn rejected_stream_leaves_the_covered_watch_set() {
    let mut world = World::up();
    let stream = world.stream(AddWatchMode::Persistent, "/a");
    let one_shot = world.watch(WatchKind::Data, "/a");
    let add = world.take(OpCode::AddWatch);
    let get = world.take(OpCode::GetData);
    assert_eq!(get.body.last(), Some(&0), "the stream was to cover it");
    world.answer(&add, Zxid(7), ErrorCode::MARSHALLING_ERROR, &());
    world.answer(&get, Zxid(8), ErrorCode::OK, &());
    let frame = world.take(OpCode::SetWatches);
    let rearm: SetWatches<'_> = frame.read();
    assert_eq!((rearm.relative_zxid, rearm.data), (Zxid(8), vec!["/a".into()]));
    world.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert!(world.fired(one_shot).is_some());
    assert_eq!(world.told(stream), []);
    world.finish();
}
