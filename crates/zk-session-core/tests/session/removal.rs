//! Removal of dropped watches from servers that reject it or have long paths.

use proto::{
    AddWatchMode, AddWatchReply, ChildList, ChildrenReply, DataReply, ErrorCode, OpCode, Stat, Zxid,
};
use zk_session_core::WatchKind;
use zk_session_core::limits::REMOVAL_DELAY;

use crate::harness::{World, ms};

#[test]
fn remove_watches_is_not_repeated_when_unimplemented() {
    let mut world = World::up();
    for n in 0..2 {
        let path = format!("/{n}");
        let watch = world.watch(WatchKind::Data, &path);
        let get = world.take(OpCode::GetData);
        world.answer(&get, Zxid(5), ErrorCode::OK, &());
        world.drop_watch(watch, &path);
        world.advance(ms(150));
        if n == 0 {
            let remove = world.take(OpCode::RemoveWatches);
            world.answer(&remove, Zxid(-1), ErrorCode::UNIMPLEMENTED, &());
        }
    }
    assert_eq!(world.times(OpCode::RemoveWatches).len(), 1);
    world.finish();
}

/// When a stream is dropped, the session re-registers the watches that it covered. The server closes
/// the connection when a frame exceeds its limit.
#[test]
fn watches_on_a_long_path_are_reregistered_in_small_frames() {
    let mut world = World::up();
    let path = format!("/{}", "x".repeat(600_000));
    let stream = world.stream(AddWatchMode::Persistent, &path);
    let frame = world.take(OpCode::AddWatch);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &AddWatchReply { err: ErrorCode::OK });
    world.watch(WatchKind::Data, &path);
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &DataReply { data: None, stat: Stat::default() });
    world.watch(WatchKind::Children, &path);
    let frame = world.frames.pop_front().unwrap();
    let children = ChildrenReply { children: ChildList::default(), stat: Stat::default() };
    world.answer(&frame, Zxid(9), ErrorCode::OK, &children);
    world.drop_watch(stream, &path);
    world.advance(REMOVAL_DELAY);
    let armed: Vec<usize> = world.frames.iter().map(|frame| frame.body.len()).collect();
    assert!(armed.iter().all(|len| *len < 1_000_000), "{armed:?}");
}
