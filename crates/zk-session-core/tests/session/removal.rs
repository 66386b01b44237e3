//! Removal of dropped watches from servers that reject it or have long paths.

use zk_session_core::limits::{PRUNED_AT_ONCE, REMOVAL_DELAY, REMOVALS_AT_ONCE};

use crate::harness::prelude::*;

/// Connects to a server that answers the requests that set watches by itself.
fn world() -> World {
    World::up_answering(&[OpCode::GetData, OpCode::GetChildren2, OpCode::AddWatch])
}

/// Sets a data watch and drops it.
fn drop_one(world: &mut World, path: &str) {
    let watch = world.watch(WatchKind::Data, path);
    world.drop_watch(watch, path);
}

/// Advances until dropped watches are removed. Returns the number of all removals.
fn removals(world: &mut World) -> usize {
    world.advance(REMOVAL_DELAY);
    world.times(OpCode::RemoveWatches).len()
}

#[test]
fn removal_is_not_repeated_after_a_rejection() {
    for code in [ErrorCode::UNIMPLEMENTED, ErrorCode::MARSHALLING_ERROR] {
        let mut world = world();
        drop_one(&mut world, "/a");
        assert_eq!(removals(&mut world), 1);
        world.reject(OpCode::RemoveWatches, code);
        drop_one(&mut world, "/b");
        assert_eq!(removals(&mut world), 1, "{code}: nor of another watch");
    }
}

/// When a stream is dropped, the session re-registers the watches that it covered. The server closes
/// the connection when a frame exceeds its limit.
#[test]
fn watches_on_a_long_path_are_reregistered_in_small_frames() {
    let mut world = world();
    let path = format!("/{}", "x".repeat(600_000));
    let stream = world.stream(AddWatchMode::Persistent, &path);
    world.watch(WatchKind::Data, &path);
    world.watch(WatchKind::Children, &path);
    world.drop_watch(stream, &path);
    world.advance(REMOVAL_DELAY);
    let armed: Vec<usize> = world.frames.iter().map(|frame| frame.body.len()).collect();
    assert!(armed.iter().all(|len| *len < 1_000_000), "{armed:?}");
}

/// A persistent watch next to a recursive one sets no watch of its own, so there is none to remove.
#[test]
fn persistent_watch_covered_by_a_recursive_one_is_not_removed() {
    let mut world = world();
    let modes = [AddWatchMode::PersistentRecursive, AddWatchMode::Persistent];
    let [recursive, persistent] = modes.map(|mode| world.stream(mode, "/a"));
    for (stream, count) in [(persistent, 0), (recursive, 1)] {
        world.drop_watch(stream, "/a");
        assert_eq!(removals(&mut world), count);
    }
}

/// The one-shot watch that a dropped stream covered is set again, and no other watch.
#[test]
fn covered_watch_is_set_before_its_stream_is_removed() {
    for mode in [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive] {
        let mut world = world();
        let stream = world.stream(mode, "/a");
        world.watch(WatchKind::Data, "/a");
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
        let mut world = world();
        let watches: Vec<u32> = (0..count).map(|_| world.watch(WatchKind::Data, "/a")).collect();
        assert_eq!(world.stats().one_shot_watches, count);
        world.drop_watch(watches[0], "/a");
        assert_eq!(world.stats().one_shot_watches, left);
        world.advance(REMOVAL_DELAY);
        assert_eq!(world.stats().one_shot_watches, count - 1);
    }
}

#[test]
fn watch_in_use_schedules_no_removal() {
    let mut world = world();
    let watch = world.watch(WatchKind::Data, "/a");
    assert!(world.deadline() > Some(world.now() + REMOVAL_DELAY), "only that of the next ping");
    world.drop_watch(watch, "/a");
    let due = world.now() + REMOVAL_DELAY;
    assert_eq!(world.deadline(), Some(due));
    world.advance(REMOVAL_DELAY / 2);
    drop_one(&mut world, "/b");
    assert_eq!(world.deadline(), Some(due), "a later drop does not postpone the removal");
}

#[test]
fn watches_abandoned_during_an_outage_are_not_counted() {
    let mut world = world();
    let mut watches: Vec<u32> =
        ["/a", "/a", "/b"].iter().map(|path| world.watch(WatchKind::Data, path)).collect();
    watches.push(world.stream(AddWatchMode::Persistent, "/c"));
    watches.push(world.stream(AddWatchMode::PersistentRecursive, "/d"));
    world.cut();
    watches.iter().for_each(|watch| world.abandon(*watch));
    world.bring_up();
    let stats = world.stats();
    let left = [stats.one_shot_watches, stats.persistent_watches, stats.recursive_watches];
    assert_eq!((left, world.ops()), ([0; 3], vec![]));
}

#[test]
fn more_removals_than_at_once_follow_a_moment_later() {
    let mut world = world();
    world.answered.insert(OpCode::RemoveWatches.code());
    for n in 0..=REMOVALS_AT_ONCE {
        drop_one(&mut world, &format!("/{n}"));
    }
    assert_eq!(removals(&mut world), REMOVALS_AT_ONCE);
    assert_eq!(removals(&mut world), REMOVALS_AT_ONCE + 1);
}
