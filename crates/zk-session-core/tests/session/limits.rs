//! Limits on requests, bytes, frames and durations.

use std::time::Duration;

use proto::{AddWatchMode, ErrorCode, FRAME_LEN_MAX_SERVER, OpCode, SetData, SetWatches2, Zxid};
use zk_session_core::WatchKind;
use zk_session_core::limits::{QUEUED_BYTES_MAX, REQUESTS_MAX};
use zk_session_core::{DisconnectReason, ErrorKind, LeaseAssumptions, Limit, Outcome};

use crate::harness::{Servers, T, World, get, ms};

fn set(data: &[u8]) -> SetData<'_> {
    SetData { path: "/a".into(), data: Some(data.into()), version: -1 }
}

#[test]
fn queued_requests_count_toward_the_limit() {
    let mut world = World::new();
    for _ in 0..REQUESTS_MAX {
        let to = world.number();
        let now = world.instant();
        world.session.submit(now, &get("/a", false), to, None).unwrap();
    }
    let to = world.number();
    let refused = world.session.submit(world.instant(), &get("/a", false), to, None);
    let limit = ErrorKind::LimitReached(Limit::Requests);
    assert_eq!(refused, Err((limit, Outcome::NotApplied)));
}

#[test]
fn in_flight_requests_count_toward_the_limit() {
    let mut world = World::up();
    for _ in 0..REQUESTS_MAX {
        let to = world.number();
        let now = world.instant();
        world.session.submit(now, &get("/a", false), to, None).unwrap();
    }
    let to = world.number();
    let refused = world.session.submit(world.instant(), &get("/a", false), to, None);
    assert!(matches!(refused, Err((ErrorKind::LimitReached(Limit::Requests), _))));
}

#[test]
fn queued_bytes_are_limited_with_and_without_a_connection() {
    for connected in [false, true] {
        let mut world = World::new();
        if connected {
            world.bring_up();
        }
        world.room = 0; // the server does not read
        let data = vec![0; FRAME_LEN_MAX_SERVER - 100];
        let mut taken = 0;
        let refused = loop {
            match world.try_submit(&set(&data), None) {
                Ok(_) => taken += data.len(),
                Err(refused) => break refused,
            }
            assert!(taken <= QUEUED_BYTES_MAX, "connected: {connected}");
        };
        let limit = ErrorKind::LimitReached(Limit::QueuedBytes);
        assert_eq!(refused, (limit, Outcome::NotApplied));
        assert!(taken > QUEUED_BYTES_MAX - 2 * FRAME_LEN_MAX_SERVER);
        assert_eq!(world.ops(), []);
        world.finish();
    }
}

#[test]
fn written_bytes_do_not_count_toward_the_limit() {
    let mut world = World::up();
    let data = vec![0; FRAME_LEN_MAX_SERVER - 100];
    for _ in 0..70 {
        world.submit(&set(&data), None);
        let frame = world.take(OpCode::SetData);
        world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    }
    world.finish();
}

#[test]
fn request_longer_than_the_server_limit_is_rejected() {
    let mut world = World::up();
    let overhead = proto::request_frame_len(&set(&[]));
    let longest = vec![0; FRAME_LEN_MAX_SERVER - overhead];
    world.submit(&set(&longest), None);
    assert_eq!(world.take(OpCode::SetData).body.len() + 8, FRAME_LEN_MAX_SERVER);
    let longer = vec![0; longest.len() + 1];
    let refused = world.try_submit(&set(&longer), None).unwrap_err();
    let too_large =
        ErrorKind::TooLarge { len: FRAME_LEN_MAX_SERVER + 1, max: FRAME_LEN_MAX_SERVER };
    assert_eq!(refused, (too_large, Outcome::NotApplied));
    world.finish();
}

#[test]
fn credentials_longer_than_the_server_limit_are_rejected() {
    let mut world = World::up();
    let to = world.number();
    let auth = vec![0; FRAME_LEN_MAX_SERVER].into();
    let refused = world.session.add_credential(world.instant(), "digest", auth, to);
    assert!(matches!(refused, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    world.finish();
}

#[test]
fn frame_longer_than_the_client_limit_closes_the_connection() {
    let mut world = World::with(|settings| settings.max_frame_len = 1000);
    world.bring_up();
    let read = world.get("/a");
    world.deliver(&1001_i32.to_be_bytes());
    let kind = ErrorKind::ConnectionLost(DisconnectReason::FrameTooLarge);
    assert_eq!(*world.failure(read), (kind, Outcome::NotApplied));
    assert!(world.incoming.is_empty());
    world.finish();
}

/// Only the caller of the oversized reply gets `ReplyTooLarge`. The other callers get
/// `ConnectionLost`, because their requests may succeed on a retry.
#[test]
fn oversized_reply_fails_only_its_own_request_as_too_large() {
    let mut world = World::with(|settings| settings.max_frame_len = 1000);
    world.bring_up();
    let (read, large, write) = (world.get("/a"), world.get("/b"), world.create("/c"));
    world.take(OpCode::GetData);
    let frame = world.take(OpCode::GetData);
    world.deliver(&[&1001_i32.to_be_bytes()[..], &frame.xid.to_be_bytes()].concat());
    let too_large = ErrorKind::ReplyTooLarge { len: 1001, max: 1000 };
    assert_eq!(*world.failure(large), (too_large.clone(), Outcome::NotApplied));
    let lost = ErrorKind::ConnectionLost(DisconnectReason::FrameTooLarge);
    assert_eq!(*world.failure(read), (lost.clone(), Outcome::NotApplied));
    assert_eq!(*world.failure(write), (lost.clone(), Outcome::Unknown));

    // An oversized frame with an unknown xid fails the pending requests with `ConnectionLost`.
    for head in [-1_i32, 0, 999] {
        world.bring_up();
        let read = world.get("/a");
        world.deliver(&[&1001_i32.to_be_bytes()[..], &head.to_be_bytes()].concat());
        assert_eq!(*world.failure(read), (lost.clone(), Outcome::NotApplied));
    }
    world.bring_up();
    let write = world.create("/d");
    let frame = world.take(OpCode::Create2);
    world.deliver(&[&1001_i32.to_be_bytes()[..], &frame.xid.to_be_bytes()].concat());
    assert_eq!(*world.failure(write), (too_large, Outcome::Unknown));
    world.finish();
}

/// The frame that re-registers a watch is longer than the request that set it.
#[test]
fn watch_too_long_to_reregister_is_rejected() {
    let mut world = World::up();
    let empty = SetWatches2 { persistent: vec!["".into()], ..SetWatches2::default() };
    let longest = FRAME_LEN_MAX_SERVER - proto::request_frame_len(&empty);
    let path = |len: usize| format!("/{}", "x".repeat(len - 1));
    let refused = world.try_submit(&get(&path(longest + 1), true), Some(WatchKind::Data));
    assert!(matches!(refused, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    world.submit(&get(&path(longest + 1), false), None); // without a watch, the path is not too long
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
    let n = world.submit(&get(&path(longest), true), Some(WatchKind::Data));
    let frame = world.take(OpCode::GetData);
    let reply = proto::DataReply { data: None, stat: proto::Stat::default() };
    world.answer(&frame, Zxid(9), ErrorCode::OK, &reply);
    let stream = world.stream(AddWatchMode::Persistent, &path(longest));
    let frame = world.take(OpCode::AddWatch);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &proto::AddWatchReply { err: ErrorCode::OK });
    assert!(world.is_ok(n) && world.is_ok(stream));
    let to = world.number();
    let mode = AddWatchMode::Persistent;
    let path = path(longest + 1);
    let refused = world.session.add_watch(world.instant(), &path, mode, to.clone(), to);
    assert!(matches!(refused, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied))));
    world.cut();
    world.bring_up();
    let lens: Vec<usize> = world.frames.iter().map(|frame| frame.body.len() + 8).collect();
    assert!(lens.iter().all(|len| *len <= FRAME_LEN_MAX_SERVER), "{lens:?}");
    assert_eq!(lens.iter().max(), Some(&FRAME_LEN_MAX_SERVER));
    world.finish();
}

#[test]
fn maximum_durations_are_clamped_without_overflow() {
    let mut world = World::with(|settings| {
        settings.session_timeout = Duration::MAX;
        settings.close_timeout = Duration::MAX;
        settings.lease_assumptions = LeaseAssumptions::new().margin(Duration::MAX);
    });
    world.servers = Servers::Silent;
    world.advance(T);
    world.servers = Servers::Scripted;
    world.cut();
    world.open();
    assert_eq!(world.last_connect().timeout_ms, i32::MAX);
    world.respond(&crate::script::acceptance(i32::MAX));
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.serve(&frame);
    world.advance(ms(1000));
    world.close();
    world.advance(ms(100));
    assert_eq!(world.session.end_reason(), None);
    world.finish();
}

#[test]
fn queued_bytes_can_reach_their_limit_exactly() {
    let mut world = World::new();
    let data = vec![0; FRAME_LEN_MAX_SERVER - 100];
    let queued = |world: &World| world.session.stats(world.instant()).queued_bytes;
    while QUEUED_BYTES_MAX - queued(&world) > FRAME_LEN_MAX_SERVER {
        world.submit(&set(&data), None);
    }
    let room = QUEUED_BYTES_MAX - queued(&world);
    let overhead = proto::request_frame_len(&set(&[]));
    let longer = vec![0; room - overhead + 1];
    let limit = (ErrorKind::LimitReached(Limit::QueuedBytes), Outcome::NotApplied);
    assert_eq!(world.try_submit(&set(&longer), None), Err(limit));
    world.submit(&set(&longer[1..]), None);
    world.finish();
}

#[test]
fn large_credentials_below_the_server_limit_are_sent() {
    let mut world = World::up();
    let to = world.number();
    let auth = vec![0; FRAME_LEN_MAX_SERVER / 2].into();
    let result = world.session.add_credential(world.instant(), "digest", auth, to.clone());
    world.admitted(to, result).unwrap();
    world.take(OpCode::Auth);
}
