//! Re-registration of watches on a new connection.

use proto::FRAME_LEN_MAX_SERVER;
use zk_session_core::WatchKind::{self, Children, Data, Exists};

use crate::harness::prelude::*;

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
    for (kind, path, code) in [
        (Data, "/data", ErrorCode::OK),
        (Exists, "/there", ErrorCode::OK),
        (Exists, "/missing", ErrorCode::NO_NODE),
        (Children, "/parent", ErrorCode::OK),
        (Data, "/none", ErrorCode::NO_NODE),
        (Children, "/none", ErrorCode::NO_NODE),
        (Exists, "/forbidden", ErrorCode::NO_AUTH),
    ] {
        arm(&mut world, kind, path, code);
    }
    world.cut();
    world.claim();
    world.get("/queued");
    world.bring_up();
    use OpCode::{GetData, Multi};
    assert_eq!(world.ops(), [OpCode::Auth, OpCode::SetWatches, Multi, GetData]);
    assert_eq!(world.rearmed(), [(Zxid(50), "/data /there | /missing | /parent".to_owned())]);
}

#[test]
fn only_watches_in_use_are_reregistered() {
    let mut world = World::up();
    let [fired, dropped, kept] =
        ["/fired", "/dropped", "/kept"].map(|path| arm(&mut world, Data, path, ErrorCode::OK));
    world.notify(EventType::NODE_DELETED, "/fired");
    assert!(world.fired(fired).is_some());
    world.drop_watch(dropped, "/dropped");
    world.watch(Data, "/lost");
    world.reconnect();
    assert_eq!(world.rearmed(), [(Zxid(50), "/kept |  | ".to_owned())]);
    world.notify(EventType::NODE_DELETED, "/kept");
    assert!(world.fired(kept).is_some());
    world.reconnect();
    assert_eq!(world.ops(), []);
}

/// zookeeper-client K2: the session ended with more than 128 KiB of watched paths.
#[test]
fn k2_hundred_thousand_watches_survive_a_reconnect() {
    let mut world = World::up();
    let path = |n: usize| format!("/{n:059}");
    let count = 100_000;
    for n in 0..count {
        world.log.clear();
        arm(&mut world, [Data, Exists, Children][n % 3], &path(n), ErrorCode::OK);
    }
    world.cut();
    world.get("/queued");
    world.bring_up();
    let rearming: Vec<_> = world.frames.drain(..).collect();
    // Each path has 64 bytes with its length, in chunks of 128 KiB.
    assert_eq!(rearming.len(), 49);
    let mut rearmed = BTreeSet::new();
    for frame in &rearming {
        assert!(frame.body.len() < 132 * 1024, "far below what a server accepts");
        let chunk: SetWatches<'_> = frame.read();
        for path in chunk.data.iter().chain(&chunk.exist).chain(&chunk.child) {
            assert!(rearmed.insert(path.to_string()), "{path} twice");
        }
        world.answer(frame, Zxid(60), ErrorCode::OK, &());
    }
    assert!(rearmed.into_iter().eq((0..count).map(path)));
    assert!(world.session.is_connected());
    assert_eq!(world.ops(), [OpCode::GetData], "once for each connection, and callers last");
    world.notify(EventType::NODE_DATA_CHANGED, &path(0));
    assert_eq!(world.log.iter().filter(|(_, seen)| matches!(seen, Seen::Watch(..))).count(), 1);
}

/// Returns the zxids of the requests that set watches, and the number of their data watches.
fn chunks(world: &World) -> Vec<(Zxid, usize)> {
    let count = |(zxid, paths): (Zxid, String)| (zxid, paths.matches('/').count());
    world.rearmed().into_iter().map(count).collect()
}

/// The server does not watch the nodes of the second request. The Java client never hears of a
/// change between the two zxids.
#[test]
fn watches_of_a_lost_request_count_from_their_own_zxid() {
    let mut world = World::up();
    for n in 0..4000 {
        arm(&mut world, Data, &format!("/{n:059}"), ErrorCode::OK);
    }
    world.reconnect();
    let [(_, first), (_, second)] = chunks(&world)[..] else { panic!() };
    world.answer_next(OpCode::SetWatches, Zxid(70), ErrorCode::OK, &());
    world.reconnect();
    assert_eq!(chunks(&world), [(Zxid(50), first), (Zxid(50), second)]);

    // Watches that are set later count from a later zxid. Their callers know the changes before it.
    while !world.rearmed().is_empty() {
        world.answer_next(OpCode::SetWatches, Zxid(80), ErrorCode::OK, &());
    }
    world.cut();
    world.watch_nodes(&[("/since", Data)]).unwrap();
    world.bring_up();
    assert_eq!(chunks(&world)[..3], [(SINCE, 1), (Zxid(80), first), (Zxid(80), second)]);
}

/// The replies to older requests arrive before the server has set the watch.
#[test]
fn watch_that_is_set_by_itself_counts_from_its_own_zxid() {
    let mut world = World::up();
    let stream = world.stream(AddWatchMode::Persistent, "/a");
    let watches = [("/a", 0), ("/b", 1)].map(|(path, mark)| {
        let watch = world.watch(Data, path);
        let is_marked = world.frames.back().unwrap().body.last() == Some(&mark);
        assert!(is_marked, "the stream was to cover the one on {path}");
        (path, watch)
    });
    world.answer_next(OpCode::AddWatch, Zxid(7), ErrorCode::MARSHALLING_ERROR, &());
    for zxid in [8, 15] {
        world.answer_next(OpCode::GetData, Zxid(zxid), ErrorCode::OK, &());
    }
    let all = [(Zxid(8), "/a |  | ".to_owned()), (Zxid(15), "/b |  | ".to_owned())];
    assert_eq!(world.rearmed(), all[..1]);
    world.reconnect();
    assert_eq!(world.rearmed(), all);
    for (path, watch) in watches {
        world.notify(EventType::NODE_DATA_CHANGED, path);
        assert!(world.fired(watch).is_some(), "{path}");
    }
    assert_eq!(world.told(stream), []);
}

#[test]
fn long_paths_are_reregistered_in_frames_below_the_limit() {
    let mut world = World::up();
    for (n, len) in [(0, 100_000), (1, 700_000), (2, 700_000)] {
        arm(&mut world, Data, &format!("/{n}{}", "x".repeat(len)), ErrorCode::OK);
    }
    world.reconnect();
    assert_eq!(world.ops().len(), 3);
    assert!(world.frames.iter().all(|frame| frame.body.len() < FRAME_LEN_MAX_SERVER));
}

/// A server with a small `jute.maxbuffer` would close every connection.
#[test]
fn watches_are_set_again_in_requests_that_the_server_accepts() {
    let max = 4_000;
    let mut world = World::with(|settings| settings.max_request_len = max);
    world.start_serving();
    for number in 0..500 {
        world.watch(Data, &format!("/{number}"));
    }
    world.cut();
    world.advance(ms(1_000));
    assert!(world.session.is_connected());
    let again = world.seen.iter().filter(|(_, frame)| frame.op == OpCode::SetWatches);
    let lens: Vec<usize> = again.map(|(_, frame)| frame.body.len()).collect();
    assert!(lens.len() > 1 && lens.iter().all(|len| *len <= max), "{lens:?}");
}
