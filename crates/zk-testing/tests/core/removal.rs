//! Removal of dropped watches from the server.

use bytes::BytesMut;
use proto::{AddWatchMode, OpCode, RemoveWatches, WatcherType};
use zk_session_core::limits::{PRUNED_AT_ONCE, REMOVAL_DELAY};
use zk_session_core::{Settings, WatchKind};

use crate::harness::ms;
use crate::server::{Server, World, served, served_by_old};

const ONE: AddWatchMode = AddWatchMode::Persistent;
const ALL: AddWatchMode = AddWatchMode::PersistentRecursive;

/// Advances time by 150 ms and returns all removals that the server has received.
fn removals(world: &mut World) -> Vec<(String, WatcherType)> {
    world.advance(ms(150));
    let removals = world.seen.iter().filter(|(_, frame)| frame.op == OpCode::RemoveWatches);
    let removals = removals.map(|(_, frame)| {
        let RemoveWatches { path, watcher_type } = frame.read();
        (path.into_owned(), watcher_type)
    });
    removals.collect()
}

#[test]
fn last_watch_of_a_kind_is_removed_with_its_type() {
    let mut world = served(&["/a"]);
    let data = world.watch(WatchKind::Data, "/a");
    let exists = world.watch(WatchKind::Exists, "/a");
    let child = world.watch(WatchKind::Children, "/a");
    world.drop_watch(data, "/a");
    assert_eq!(removals(&mut world), [], "exists is in the same table");
    world.drop_watch(exists, "/a");
    assert_eq!(removals(&mut world), [("/a".to_owned(), WatcherType::Data)]);
    world.drop_watch(child, "/a");
    assert_eq!(removals(&mut world)[1], ("/a".to_owned(), WatcherType::Children));
    assert_eq!(world.server.watches(), 0);
    world.finish();
}

#[test]
fn fired_watch_is_not_removed() {
    let mut world = served(&["/a"]);
    let watch = world.watch(WatchKind::Data, "/a");
    world.remove_node("/a");
    world.drop_watch(watch, "/a");
    assert_eq!(removals(&mut world), []);
    // The watch is dropped first, as on the release of a lock, and the client's own delete fires it.
    let mut world = served(&["/a"]);
    let watch = world.watch(WatchKind::Exists, "/a");
    world.drop_watch(watch, "/a");
    world.delete("/a");
    assert_eq!(removals(&mut world), []);
    world.finish();
}

#[test]
fn watch_dropped_before_its_reply_is_removed_after_it() {
    let mut world = served(&["/a"]);
    world.unanswered.insert(OpCode::GetData.code());
    let watch = world.watch(WatchKind::Data, "/a");
    world.drop_watch(watch, "/a");
    assert_eq!(removals(&mut world), []);
    world.unanswered.clear();
    world.settle();
    assert_eq!(removals(&mut world).len(), 1);
    assert_eq!(world.server.watches(), 0);
    world.finish();
}

#[test]
fn watch_of_a_timed_out_request_is_removed_after_its_reply() {
    let change = |settings: &mut Settings| settings.request_timeout = Some(ms(500));
    let mut world = World::of(Server::new(&["/a"]), change);
    world.start_serving();
    world.unanswered.insert(OpCode::GetData.code());
    let watch = world.watch(WatchKind::Data, "/a");
    world.advance(ms(500));
    assert!(world.reply(watch).is_some(), "it timed out");
    assert_eq!(removals(&mut world), []);
    world.unanswered.clear();
    world.settle();
    assert_eq!(removals(&mut world), [("/a".to_owned(), WatcherType::Data)]);
    assert_eq!(world.fired(watch), None);
    world.finish();
}

#[test]
fn removal_of_an_unknown_watch_keeps_the_connection() {
    let mut world = served(&["/a"]);
    let watch = world.watch(WatchKind::Data, "/a");
    let mut event = BytesMut::new();
    world.server.remove("/a", &mut event); // the watch fires, and the event is in flight
    world.drop_watch(watch, "/a");
    assert_eq!(removals(&mut world).len(), 1);
    world.deliver(&event);
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn watch_dropped_while_disconnected_needs_no_removal() {
    let mut world = served(&["/a"]);
    let watch = world.watch(WatchKind::Data, "/a");
    world.cut();
    world.drop_watch(watch, "/a");
    world.advance(ms(2000));
    assert_eq!(removals(&mut world), []);
    assert_eq!(world.server.watches(), 0);
    world.finish();
}

#[test]
fn persistent_watch_is_removed_with_its_own_type() {
    let mut world = served(&["/a"]);
    let watch = world.watch(WatchKind::Data, "/a");
    let (one, all) = (world.stream(ONE, "/a"), world.stream(ALL, "/a"));
    world.drop_watch(all, "/a");
    let recursive = ("/a".to_owned(), WatcherType::PersistentRecursive);
    assert_eq!(removals(&mut world), [recursive]);
    world.drop_watch(watch, "/a");
    assert_eq!(removals(&mut world).len(), 1, "before 3.9 it would take the stream along");
    world.drop_watch(one, "/a");
    assert_eq!(removals(&mut world)[1], ("/a".to_owned(), WatcherType::Any));
    assert_eq!(world.server.watches(), 0);
    world.finish();
}

/// Servers before 3.9.0 reject the watcher type of a single mode. The session then removes the stream
/// together with all other watches on its path.
#[test]
fn old_server_removes_a_stream_with_all_watches_on_its_path() {
    let mut world = served_by_old(&["/a", "/b"]);
    let one = world.stream(ONE, "/a");
    let watch = world.watch(WatchKind::Data, "/a");
    world.drop_watch(one, "/a");
    assert_eq!(removals(&mut world), [("/a".to_owned(), WatcherType::Persistent)]);
    world.drop_watch(watch, "/a");
    assert_eq!(removals(&mut world)[1], ("/a".to_owned(), WatcherType::Any));
    assert_eq!(world.server.watches(), 0);
    // From now on, a stream that is dropped beside other watches sends no removal.
    let one = world.stream(ONE, "/b");
    let watch = world.watch(WatchKind::Data, "/b");
    world.drop_watch(one, "/b");
    assert_eq!(removals(&mut world).len(), 2);
    world.remove_node("/b");
    assert!(world.fired(watch).is_some());
    world.finish();
}

#[test]
fn many_watches_are_removed_in_batches() {
    let mut world = served(&["/a"]);
    let numbers: Vec<_> = (0..2_500)
        .map(|n| (format!("/x{n}"), world.watch(WatchKind::Exists, &format!("/x{n}"))))
        .collect();
    for (path, n) in numbers {
        world.drop_watch(n, &path);
    }
    world.advance(ms(100));
    assert_eq!(world.times(OpCode::RemoveWatches).len(), 1_000);
    world.advance(ms(200));
    assert_eq!(world.times(OpCode::RemoveWatches).len(), 2_500);
    assert_eq!(world.server.watches(), 0);
    world.finish();
}

#[test]
fn watches_are_not_removed_after_close() {
    let mut world = served(&["/a"]);
    let watch = world.watch(WatchKind::Data, "/a");
    world.drop_watch(watch, "/a");
    world.unanswered.insert(OpCode::CloseSession.code());
    world.close();
    assert_eq!(removals(&mut world), []);
    world.unanswered.clear();
    world.settle();
    world.finish();
}

/// The server rejects the watcher type only after the last other watch on the path has fired. The
/// session then removes all watches on the path.
#[test]
fn rejected_removal_is_repeated_when_no_watch_is_left() {
    let mut world = served_by_old(&["/n"]);
    let stream = world.stream(AddWatchMode::PersistentRecursive, "/n");
    let list = world.watch(WatchKind::Children, "/n");
    world.unanswered.insert(OpCode::RemoveWatches.code());
    world.drop_watch(stream, "/n");
    world.advance(REMOVAL_DELAY);
    world.others(|server, out| server.make("/n/x", out));
    assert!(world.fired(list).is_some());
    world.unanswered.clear();
    world.settle();
    world.advance(ms(3000));
    assert_eq!(world.server.watches(), 0);
    world.finish();
}

#[test]
fn many_dropped_watches_on_a_path_are_removed_together() {
    let mut world = served(&["/n"]);
    let watches: Vec<u32> =
        (0..PRUNED_AT_ONCE + 10).map(|_| world.watch(WatchKind::Data, "/n")).collect();
    let list = world.watch(WatchKind::Children, "/n");
    world.drop_watch(list, "/n");
    let one_shots = |world: &World| world.session.stats(world.instant()).one_shot_watches;
    assert_eq!(one_shots(&world), watches.len() + 1);
    world.advance(REMOVAL_DELAY);
    assert_eq!(one_shots(&world), watches.len());
    assert_eq!(world.server.watches(), 1, "the list is watched for nobody");
    for watch in watches {
        world.drop_watch(watch, "/n");
    }
    world.advance(REMOVAL_DELAY);
    assert_eq!((one_shots(&world), world.server.watches()), (0, 0));
    world.finish();
}
