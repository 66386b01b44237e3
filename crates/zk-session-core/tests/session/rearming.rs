//! Re-registration of watches on a new connection.

use std::collections::BTreeSet;

use proto::{AddWatchMode, ErrorCode, EventType, FRAME_LEN_MAX_SERVER, OpCode, SetWatches, Zxid};
use zk_session_core::WatchKind;
use zk_session_core::{DisconnectReason, Outcome};

use crate::harness::{SINCE, Seen, World, ms};

/// Sends a request with a watch and answers it with this code.
fn arm(world: &mut World, kind: WatchKind, path: &str, code: ErrorCode) -> u32 {
    let n = world.watch(kind, path);
    let frame = world.frames.pop_front().unwrap();
    world.answer(&frame, Zxid(50), code, &());
    n
}

/// In kazoo #170, watches were not re-registered. In kazoo #218 and go #83, queued requests were
/// sent before the watches were set.
#[test]
fn watches_are_reregistered_after_auth_and_before_requests() {
    let mut world = World::up();
    world.auth("digest");
    world.accept(OpCode::Auth);
    arm(&mut world, WatchKind::Data, "/data", ErrorCode::OK);
    arm(&mut world, WatchKind::Exists, "/there", ErrorCode::OK);
    arm(&mut world, WatchKind::Exists, "/missing", ErrorCode::NO_NODE);
    arm(&mut world, WatchKind::Children, "/parent", ErrorCode::OK);
    arm(&mut world, WatchKind::Data, "/none", ErrorCode::NO_NODE);
    arm(&mut world, WatchKind::Children, "/none", ErrorCode::NO_NODE);
    arm(&mut world, WatchKind::Exists, "/forbidden", ErrorCode::NO_AUTH);
    world.cut();
    world.claim();
    world.get("/queued");
    world.bring_up();
    use OpCode::{GetData, Multi, SetWatches as Rearm};
    assert_eq!(world.ops(), [OpCode::Auth, Rearm, Multi, GetData]);
    world.take(OpCode::Auth);
    let frame = world.take(Rearm);
    let rearm: SetWatches<'_> = frame.read();
    assert_eq!(rearm.relative_zxid, Zxid(50));
    assert_eq!(rearm.data, ["/data", "/there"]);
    assert_eq!(rearm.exist, ["/missing"]);
    assert_eq!(rearm.child, ["/parent"]);
}

#[test]
fn set_watches_is_not_sent_without_watches() {
    let mut world = World::up();
    let watch = arm(&mut world, WatchKind::Data, "/a", ErrorCode::OK);
    world.notify(EventType::NODE_DELETED, "/a");
    assert!(world.fired(watch).is_some());
    world.reconnect();
    assert_eq!(world.ops(), []);
}

#[test]
fn dropped_watches_are_not_reregistered() {
    let mut world = World::up();
    let dropped = arm(&mut world, WatchKind::Data, "/a", ErrorCode::OK);
    arm(&mut world, WatchKind::Data, "/b", ErrorCode::OK);
    world.drop_watch(dropped, "/a");
    world.reconnect();
    let frame = world.take(OpCode::SetWatches);
    assert_eq!(frame.read::<SetWatches<'_>>().data, ["/b"]);
}

#[test]
fn lost_request_leaves_no_watch() {
    let mut world = World::up();
    let lost = world.watch(WatchKind::Data, "/a");
    world.cut();
    assert_eq!(world.outcome(lost), Outcome::NotApplied);
    world.bring_up();
    assert_eq!(world.ops(), []);
}

#[test]
fn many_watches_are_reregistered_in_frames_below_the_limit() {
    let mut world = World::up();
    let mut expected = BTreeSet::new();
    for n in 0..4000 {
        let path = format!("/{n:059}");
        let kind = [WatchKind::Data, WatchKind::Exists, WatchKind::Children][n % 3];
        arm(&mut world, kind, &path, ErrorCode::OK);
        expected.insert(path);
    }
    world.reconnect();
    let frames: Vec<_> = world.frames.drain(..).collect();
    assert!(frames.len() >= 2);
    let mut rearmed = BTreeSet::new();
    for frame in &frames {
        assert_eq!(frame.op, OpCode::SetWatches);
        assert!(frame.body.len() < FRAME_LEN_MAX_SERVER / 4);
        let chunk: SetWatches<'_> = frame.read();
        for path in chunk.data.iter().chain(&chunk.exist).chain(&chunk.child) {
            assert!(rearmed.insert(path.to_string()), "{path} twice");
        }
    }
    assert_eq!(rearmed, expected);
}

/// zookeeper-client K2: the session ended with more than 128 KiB of watched paths.
#[test]
fn k2_hundred_thousand_watches_survive_a_reconnect() {
    let mut world = World::up();
    let kinds = [WatchKind::Data, WatchKind::Exists, WatchKind::Children];
    let path = |n: usize| format!("/{n:059}");
    let count = 100_000;
    for n in 0..count {
        world.log.clear();
        arm(&mut world, kinds[n % 3], &path(n), ErrorCode::OK);
    }
    world.cut();
    world.get("/queued");
    world.bring_up();
    let rearming: Vec<_> = world.frames.drain(..).collect();
    let bytes: usize = rearming.iter().map(|frame| frame.body.len()).sum();
    // Each path has 64 bytes with its length, and each chunk of 128 KiB adds 20 bytes.
    assert_eq!(rearming.len(), 49);
    assert_eq!(bytes, count * 64 + rearming.len() * (8 + 3 * 4));
    for frame in &rearming {
        assert!(frame.body.len() < 132 * 1024, "far below what a server accepts");
        world.answer(frame, Zxid(60), ErrorCode::OK, &());
    }
    assert!(world.session.is_connected());
    assert_eq!(world.ops(), [OpCode::GetData], "once for each connection, and callers last");
    world.notify(EventType::NODE_DATA_CHANGED, &path(0));
    assert_eq!(world.log.iter().filter(|(_, seen)| matches!(seen, Seen::Watch(..))).count(), 1);
}

/// Returns the frames that set watches, as pairs of their zxid and the number of their data watches.
fn rearmed(world: &World) -> Vec<(Zxid, usize)> {
    let frames = world.frames.iter().filter(|frame| frame.op == OpCode::SetWatches);
    let chunks = frames.map(|frame| frame.read::<SetWatches<'_>>());
    chunks.map(|chunk| (chunk.relative_zxid, chunk.data.len())).collect()
}

/// The server does not watch the nodes of the second request. The Java client never hears of a
/// change between the two zxids.
#[test]
fn watches_of_a_lost_request_count_from_their_own_zxid() {
    let mut world = World::up();
    for n in 0..4000 {
        arm(&mut world, WatchKind::Data, &format!("/{n:059}"), ErrorCode::OK);
    }
    world.reconnect();
    let [(_, first), (_, second)] = rearmed(&world)[..] else { panic!() };
    world.answer_next(OpCode::SetWatches, Zxid(70), ErrorCode::OK, &());
    world.reconnect();
    assert_eq!(rearmed(&world), [(Zxid(50), first), (Zxid(50), second)]);

    // Watches that are set later count from a later zxid. Their callers know the changes before it.
    while world.frames.iter().any(|frame| frame.op == OpCode::SetWatches) {
        world.answer_next(OpCode::SetWatches, Zxid(80), ErrorCode::OK, &());
    }
    world.cut();
    let since = world.watch_nodes(&[("/since", WatchKind::Data)]);
    assert!(since.is_ok());
    world.bring_up();
    assert_eq!(rearmed(&world)[..3], [(SINCE, 1), (Zxid(80), first), (Zxid(80), second)]);
}

/// The replies to older requests arrive before the server has set the watch.
#[test]
fn watch_that_is_set_by_itself_counts_from_its_own_zxid() {
    let mut world = World::up();
    world.stream(AddWatchMode::Persistent, "/a");
    let one_shot = world.watch(WatchKind::Data, "/a");
    let later = world.watch(WatchKind::Data, "/b");
    world.answer_next(OpCode::AddWatch, Zxid(7), ErrorCode::MARSHALLING_ERROR, &());
    for zxid in [8, 15] {
        world.answer_next(OpCode::GetData, Zxid(zxid), ErrorCode::OK, &());
    }
    assert_eq!(rearmed(&world), [(Zxid(8), 1)]);
    world.reconnect();
    assert_eq!(rearmed(&world), [(Zxid(8), 1), (Zxid(15), 1)]);
    for (path, watch) in [("/a", one_shot), ("/b", later)] {
        world.notify(EventType::NODE_DATA_CHANGED, path);
        assert!(world.fired(watch).is_some(), "{path}");
    }
}

#[test]
fn long_paths_are_reregistered_in_frames_below_the_limit() {
    let mut world = World::up();
    let long = |n: u32| format!("/{n}{}", "x".repeat(700_000));
    let short = format!("/{}", "s".repeat(100_000));
    for path in [short, long(1), long(2)] {
        arm(&mut world, WatchKind::Data, &path, ErrorCode::OK);
    }
    world.reconnect();
    assert_eq!(world.ops().len(), 3);
    for frame in &world.frames {
        assert!(frame.body.len() < FRAME_LEN_MAX_SERVER);
    }
}

#[test]
fn server_that_rejects_set_watches_is_left() {
    let mut world = World::up();
    let watch = arm(&mut world, WatchKind::Data, "/a", ErrorCode::OK);
    world.reconnect();
    world.answer_next(OpCode::SetWatches, Zxid(60), ErrorCode::MARSHALLING_ERROR, &());
    assert_eq!(world.cause(), DisconnectReason::Refused(ErrorCode::MARSHALLING_ERROR));
    world.bring_up();
    world.take(OpCode::SetWatches);
    world.notify(EventType::NODE_DELETED, "/a");
    assert!(world.fired(watch).is_some());
}

/// A server with a small `jute.maxbuffer` would close every connection.
#[test]
fn watches_are_set_again_in_requests_that_the_server_accepts() {
    let max = 4_000;
    let mut world = World::with(|settings| settings.max_request_len = max);
    world.start_serving();
    for number in 0..500 {
        world.watch(WatchKind::Data, &format!("/{number}"));
    }
    world.cut();
    world.advance(ms(1_000));
    assert!(world.session.is_connected());
    let again = world.seen.iter().filter(|(_, frame)| frame.op == OpCode::SetWatches);
    let lens: Vec<usize> = again.map(|(_, frame)| frame.body.len()).collect();
    assert!(lens.len() > 1 && lens.iter().all(|len| *len <= max), "{lens:?}");
}
