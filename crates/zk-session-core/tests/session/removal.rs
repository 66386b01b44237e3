//! Removal of dropped watches from servers that reject it or have long paths.

use proto::{
    AddWatchMode, AddWatchReply, ChildList, ChildrenReply, DataReply, ErrorCode, OpCode, Stat, Zxid,
};
use zk_session_core::WatchKind;
use zk_session_core::limits::{PRUNED_AT_ONCE, REMOVAL_DELAY, REMOVALS_AT_ONCE};

use crate::harness::{World, ms};

#[test]
fn remove_watches_is_not_repeated_when_unimplemented() {
    let mut world = World::up();
    for n in 0..2 {
        let path = format!("/{n}");
        let watch = world.set_watch(WatchKind::Data, &path);
        world.drop_watch(watch, &path);
        world.advance(ms(150));
        if n == 0 {
            world.answer_next(OpCode::RemoveWatches, Zxid(-1), ErrorCode::UNIMPLEMENTED, &());
        }
    }
    assert_eq!(world.times(OpCode::RemoveWatches).len(), 1);
}

/// When a stream is dropped, the session re-registers the watches that it covered. The server closes
/// the connection when a frame exceeds its limit.
#[test]
fn watches_on_a_long_path_are_reregistered_in_small_frames() {
    let mut world = World::up();
    let path = format!("/{}", "x".repeat(600_000));
    let stream = world.stream(AddWatchMode::Persistent, &path);
    world.answer_next(
        OpCode::AddWatch,
        Zxid(9),
        ErrorCode::OK,
        &AddWatchReply { err: ErrorCode::OK },
    );
    world.watch(WatchKind::Data, &path);
    world.answer_next(
        OpCode::GetData,
        Zxid(9),
        ErrorCode::OK,
        &DataReply { data: None, stat: Stat::default() },
    );
    world.watch(WatchKind::Children, &path);
    let frame = world.frames.pop_front().unwrap();
    let children = ChildrenReply { children: ChildList::default(), stat: Stat::default() };
    world.answer(&frame, Zxid(9), ErrorCode::OK, &children);
    world.drop_watch(stream, &path);
    world.advance(REMOVAL_DELAY);
    let armed: Vec<usize> = world.frames.iter().map(|frame| frame.body.len()).collect();
    assert!(armed.iter().all(|len| *len < 1_000_000), "{armed:?}");
}

/// A persistent watch next to a recursive one sets no watch of its own, so there is none to remove.
#[test]
fn persistent_watch_covered_by_a_recursive_one_is_not_removed() {
    let mut world = World::up();
    world.answered.insert(OpCode::AddWatch.code());
    let recursive = world.stream(AddWatchMode::PersistentRecursive, "/a");
    let persistent = world.stream(AddWatchMode::Persistent, "/a");
    world.drop_watch(persistent, "/a");
    world.advance(REMOVAL_DELAY * 2);
    assert_eq!(world.times(OpCode::RemoveWatches), []);
    world.drop_watch(recursive, "/a");
    world.advance(REMOVAL_DELAY * 2);
    assert_eq!(world.times(OpCode::RemoveWatches).len(), 1);
}

/// The one-shot watch that a dropped stream covered is set again, and no other watch.
#[test]
fn covered_watch_is_set_before_its_stream_is_removed() {
    for mode in [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive] {
        let mut world = World::up();
        world.answered.insert(OpCode::AddWatch.code());
        let stream = world.stream(mode, "/a");
        world.set_watch(WatchKind::Data, "/a");
        world.drop_watch(stream, "/a");
        world.advance(REMOVAL_DELAY);
        assert_eq!(world.ops(), [OpCode::SetWatches, OpCode::RemoveWatches], "{mode:?}");
        assert_eq!(world.times(OpCode::AddWatch).len(), 1);
    }
}

/// A search visits all watches of a path. If very many are dropped, one search finds them later.
#[test]
fn many_watches_of_one_path_are_pruned_together() {
    for (count, left) in
        [(PRUNED_AT_ONCE, PRUNED_AT_ONCE - 1), (PRUNED_AT_ONCE + 1, PRUNED_AT_ONCE + 1)]
    {
        let mut world = World::up();
        world.answered.extend([OpCode::GetData.code(), OpCode::RemoveWatches.code()]);
        let watches: Vec<u32> = (0..count).map(|_| world.watch(WatchKind::Data, "/a")).collect();
        let counted = |world: &World| world.stats().one_shot_watches;
        assert_eq!(counted(&world), count);
        world.drop_watch(watches[0], "/a");
        assert_eq!(counted(&world), left);
        world.advance(REMOVAL_DELAY);
        assert_eq!(counted(&world), count - 1);
    }
}

#[test]
fn watch_in_use_schedules_no_removal() {
    let mut world = World::up();
    let watch = world.set_watch(WatchKind::Data, "/a");
    assert!(world.deadline() > Some(world.now() + REMOVAL_DELAY), "only that of the next ping");
    world.drop_watch(watch, "/a");
    let due = world.now() + REMOVAL_DELAY;
    assert_eq!(world.deadline(), Some(due));
    world.advance(REMOVAL_DELAY / 2);
    let other = world.set_watch(WatchKind::Data, "/b");
    world.drop_watch(other, "/b");
    assert_eq!(world.deadline(), Some(due), "a later drop does not postpone the removal");
}

#[test]
fn watches_abandoned_during_an_outage_are_not_counted() {
    let mut world = World::up();
    world.answered.extend([OpCode::GetData.code(), OpCode::AddWatch.code()]);
    let watches = [
        world.watch(WatchKind::Data, "/a"),
        world.watch(WatchKind::Data, "/a"),
        world.watch(WatchKind::Data, "/b"),
        world.stream(AddWatchMode::Persistent, "/c"),
        world.stream(AddWatchMode::PersistentRecursive, "/d"),
    ];
    world.cut();
    watches.iter().for_each(|watch| world.abandon(*watch));
    world.bring_up();
    let stats = world.stats();
    let left = [stats.one_shot_watches, stats.persistent_watches, stats.recursive_watches];
    assert_eq!((left, world.ops()), ([0; 3], vec![]));
}

#[test]
fn more_removals_than_at_once_follow_a_moment_later() {
    let mut world = World::up();
    world.answered.extend([OpCode::GetData, OpCode::RemoveWatches].map(OpCode::code));
    let paths: Vec<String> = (0..=REMOVALS_AT_ONCE).map(|n| format!("/{n}")).collect();
    let watches: Vec<u32> = paths.iter().map(|it| world.watch(WatchKind::Data, it)).collect();
    for (watch, path) in watches.into_iter().zip(&paths) {
        world.drop_watch(watch, path);
    }
    world.advance(REMOVAL_DELAY);
    assert_eq!(world.times(OpCode::RemoveWatches).len(), REMOVALS_AT_ONCE);
    world.advance(REMOVAL_DELAY);
    assert_eq!(world.times(OpCode::RemoveWatches).len(), REMOVALS_AT_ONCE + 1);
}
