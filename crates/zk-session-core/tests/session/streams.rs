//! Persistent watches, with a server that sends unusual events and errors.

use crate::harness::prelude::*;

#[test]
fn unknown_events_and_unwatched_paths_are_ignored() {
    let mut world = World::up_answering(&[OpCode::AddWatch]);
    let all = world.stream(AddWatchMode::PersistentRecursive, "/");
    for path in ["", "/", "a", "//", "/a//b"] {
        world.notify(EventType(99), path);
    }
    assert_eq!(world.told(all), []);
    world.notify(EventType::NODE_DELETED, "no path at all");
    assert!(world.session.is_connected());
}

/// The server has no watch after a rejection, so the next request must set one.
#[test]
fn rejected_stream_covers_no_later_watch() {
    let mut world = World::up();
    world.set_watch(WatchKind::Children, "/a");
    world.stream(AddWatchMode::Persistent, "/a");
    world.reject(OpCode::AddWatch, ErrorCode::MARSHALLING_ERROR);
    world.watch(WatchKind::Data, "/a");
    let get = world.take(OpCode::GetData);
    assert_eq!(get.body.last(), Some(&1), "the request sets the watch");
}

#[test]
fn event_without_a_transaction_has_no_zxid() {
    let mut world = World::up();
    for (zxid, expected) in [(-1, None), (0, None), (7, Some(Zxid(7)))] {
        let watch = world.set_watch(WatchKind::Data, "/a");
        world.notify_of(Zxid(zxid), EventType::NODE_DATA_CHANGED, "/a");
        assert_eq!(world.event_zxid(watch), expected);
    }
}

/// With a recursive watch on the parent, the creation of a child is all that a server sends.
#[test]
fn child_watch_fires_with_the_events_that_its_server_sends() {
    for is_covered in [false, true] {
        let mut world = World::up_answering(&[OpCode::AddWatch, OpCode::GetChildren2]);
        if is_covered {
            world.stream(AddWatchMode::PersistentRecursive, "/a");
        }
        let watch = world.watch(WatchKind::Children, "/a");
        world.notify(EventType::NODE_CREATED, "/a/b");
        assert_eq!(world.fired(watch).is_some(), is_covered);
        if !is_covered {
            world.notify(EventType::NODE_CHILDREN_CHANGED, "/a");
        }
        assert!(world.fired(watch).is_some());
        assert_eq!(world.stats().one_shot_watches, 0);
    }
}

/// The reply to its request arrives after the last recipient is gone.
#[test]
fn abandoned_stream_is_not_registered() {
    let mut world = World::up();
    let stream = world.stream(AddWatchMode::Persistent, "/a");
    world.abandon(stream);
    world.accept(OpCode::AddWatch);
    assert_eq!(world.stats().persistent_watches, 0);
}
