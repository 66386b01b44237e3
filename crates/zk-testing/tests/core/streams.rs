//! Events of persistent watches, on servers of 3.9 and of earlier versions.

use proto::{AddWatchMode, EventType, OpCode};
use zk_session_core::SessionEnd;
use zk_session_core::{WatchEvent, WatchKind, WatchStreamItem};

use crate::harness::ms;
use crate::server::{World, served, served_by_old};

const ONE: AddWatchMode = AddWatchMode::Persistent;
const ALL: AddWatchMode = AddWatchMode::PersistentRecursive;

const CREATED: EventType = EventType::NODE_CREATED;
const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;
const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

fn event(event_type: EventType, path: &str) -> Result<WatchStreamItem, SessionEnd> {
    Ok(WatchStreamItem::Changed(WatchEvent { event_type, path: path.to_owned(), zxid: None }))
}

/// Creates a session that is connected to a server of 3.9, or of an earlier version if `is_old`.
fn served_by_either(is_old: bool, paths: &[&str]) -> World {
    if is_old { served_by_old(paths) } else { served(paths) }
}

fn reconnect(world: &mut World) {
    world.cut();
    world.advance(ms(1500));
    assert!(world.session.is_connected());
}

/// zookeeper-client K1: persistent watches were silent after the first reconnect.
#[test]
fn k1_stream_continues_after_a_reconnect_with_a_gap() {
    for is_old in [false, true] {
        let mut world = served_by_either(is_old, &["/a", "/b"]);
        let (one, all) = (world.stream(ONE, "/a"), world.stream(ALL, "/b"));
        let seen = world.seen.len();
        reconnect(&mut world);
        let ops: Vec<_> = world.seen[seen..].iter().map(|(_, frame)| frame.op).collect();
        assert_eq!(ops[0], OpCode::SetWatches2);
        world.others(|server, out| {
            server.change("/a", out);
            server.make("/b/c", out);
        });
        assert_eq!(world.told(one), [Ok(WatchStreamItem::Gap), event(CHANGED, "/a")]);
        assert_eq!(world.told(all), [Ok(WatchStreamItem::Gap), event(CREATED, "/b/c")]);
        world.finish();
    }
}

#[test]
fn set_watches_2_is_sent_only_for_persistent_watches() {
    let mut world = served_by_old(&["/a"]);
    world.watch(WatchKind::Data, "/a");
    let stream = world.stream(ONE, "/a");
    world.drop_watch(stream, "/a");
    reconnect(&mut world);
    assert!(world.times(OpCode::SetWatches2).is_empty());
    assert_eq!(world.times(OpCode::SetWatches).len(), 1);
    world.finish();
}

/// ZOOKEEPER-4466: before 3.9.0, a one-shot watch replaces a persistent one, and a persistent watch
/// replaces a recursive one.
#[test]
fn all_watch_kinds_on_a_path_get_their_events_on_any_server() {
    let kinds: [&[u8]; 6] = [b"dcpr", b"rpcd", b"prdc", b"pdrc", b"cdp", b"drc"];
    for (order, is_old, over_a_cut) in kinds
        .into_iter()
        .flat_map(|k| [(k, false), (k, true)])
        .flat_map(|(k, old)| [(k, old, false), (k, old, true)])
    {
        let mut world = served_by_either(is_old, &["/a"]);
        let (mut one_shots, mut streams) = (vec![], vec![]);
        for kind in order {
            match kind {
                b'd' => one_shots.push((CHANGED, world.watch(WatchKind::Data, "/a"))),
                b'c' => one_shots.push((CHILDREN, world.watch(WatchKind::Children, "/a"))),
                b'p' => streams.push((ONE, world.stream(ONE, "/a"))),
                _ => streams.push((ALL, world.stream(ALL, "/a"))),
            }
        }
        if over_a_cut {
            reconnect(&mut world);
        }
        for _ in 0..2 {
            world.others(|server, out| {
                server.change("/a", out);
                server.make("/a/b", out);
                server.remove("/a/b", out);
            });
        }
        let told = format!("{} old {is_old} cut {over_a_cut}", order.escape_ascii());
        for (event_type, n) in one_shots {
            let fired = world.fired(n).unwrap_or_else(|| panic!("{told} {event_type:?}"));
            assert_eq!(fired.as_ref().unwrap().event_type, event_type, "{told}");
        }
        for (mode, n) in streams {
            let mut expected = match mode {
                ONE => vec![event(CHANGED, "/a"), event(CHILDREN, "/a"), event(CHILDREN, "/a")],
                _ => vec![event(CHANGED, "/a"), event(CREATED, "/a/b"), event(DELETED, "/a/b")],
            };
            expected.extend(expected.clone());
            let heard = world.told(n);
            let mut events: Vec<_> =
                heard.into_iter().filter(|one| *one != Ok(WatchStreamItem::Gap)).collect();
            if mode == ONE && order.contains(&b'r') {
                events.dedup(); // it may get child events twice
                expected.dedup();
            }
            assert_eq!(events, expected, "{told} {mode:?}");
        }
        world.finish();
    }
}

#[test]
fn stream_ends_with_the_session_exactly_once() {
    let mut world = served(&["/a"]);
    let stream = world.stream(ONE, "/a");
    world.server.expire();
    reconnect_in_vain(&mut world);
    assert_eq!(world.told(stream), [Err(SessionEnd::Expired)]);
    world.finish();
}

fn reconnect_in_vain(world: &mut World) {
    world.cut();
    world.advance(ms(1500));
    assert!(world.session.end_reason().is_some());
}
