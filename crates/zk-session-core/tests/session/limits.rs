//! Limits on requests, bytes, frames and durations.

use proto::FRAME_LEN_MAX_SERVER;
use zk_session_core::limits::QUEUED_BYTES_MAX;

use crate::harness::prelude::*;

/// Client limit of the tests of long replies.
const FRAME_LEN_MAX: i32 = 1000;

fn set(data: &[u8]) -> SetData<'_> {
    SetData { path: "/a".into(), data: Some(data.into()), version: -1 }
}

fn limit_reached(limit: Limit) -> Failure {
    (ErrorKind::LimitReached(limit), Outcome::NotApplied)
}

fn is_too_large<T>(result: Result<T, Failure>) -> bool {
    matches!(result, Err((ErrorKind::TooLarge { .. }, Outcome::NotApplied)))
}

#[test]
fn queued_and_in_flight_requests_count_toward_the_limit() {
    for mut world in [World::new(), World::up()] {
        world.submit_most();
        let refused = world.try_submit(&get("/a", false), None);
        assert_eq!(refused, Err(limit_reached(Limit::Requests)));
    }
}

#[test]
fn queued_bytes_are_limited_with_and_without_a_connection() {
    for mut world in [World::new(), World::up()] {
        world.room = 0; // the server does not read
        let data = vec![0; FRAME_LEN_MAX_SERVER - 100];
        let queued = |world: &World| world.stats().queued_bytes + world.stats().unwritten_bytes;
        while QUEUED_BYTES_MAX - queued(&world) > FRAME_LEN_MAX_SERVER {
            world.submit(&set(&data), None);
        }
        // They can reach the limit exactly.
        let room = QUEUED_BYTES_MAX - queued(&world) - proto::request_frame_len(&set(&[]));
        let longer = vec![0; room + 1];
        let refused = world.try_submit(&set(&longer), None);
        assert_eq!(refused, Err(limit_reached(Limit::QueuedBytes)));
        world.submit(&set(&longer[1..]), None);
        assert_eq!(world.ops(), []);
    }
}

#[test]
fn written_bytes_do_not_count_toward_the_limit() {
    let mut world = World::up();
    let data = vec![0; FRAME_LEN_MAX_SERVER - 100];
    for _ in 0..QUEUED_BYTES_MAX / data.len() + 2 {
        world.submit(&set(&data), None);
        world.reject(OpCode::SetData, ErrorCode::NO_NODE);
    }
}

#[test]
fn request_longer_than_the_server_limit_is_rejected() {
    let mut world = World::up();
    let longest = vec![0; FRAME_LEN_MAX_SERVER - proto::request_frame_len(&set(&[]))];
    world.submit(&set(&longest), None);
    assert_eq!(world.take(OpCode::SetData).body.len() + 8, FRAME_LEN_MAX_SERVER);
    let longer = vec![0; longest.len() + 1];
    let refused = world.try_submit(&set(&longer), None).unwrap_err();
    let (len, max) = (FRAME_LEN_MAX_SERVER + 1, FRAME_LEN_MAX_SERVER);
    assert_eq!(refused, (ErrorKind::TooLarge { len, max }, Outcome::NotApplied));

    let mut world = World::up();
    world.try_auth("digest", vec![0; FRAME_LEN_MAX_SERVER / 2].into()).unwrap();
    world.take(OpCode::Auth);
    assert!(is_too_large(world.try_auth("digest", vec![0; FRAME_LEN_MAX_SERVER].into())));
}

/// Only the caller of the oversized reply gets `ReplyTooLarge`. The other callers get
/// `ConnectionLost`, because their requests may succeed on a retry.
#[test]
fn oversized_reply_fails_only_its_own_request_as_too_large() {
    let max = usize::try_from(FRAME_LEN_MAX).unwrap();
    let mut world = World::up_with(|settings| settings.max_frame_len = max);
    let too_long = |world: &mut World, xid: i32| {
        world.deliver(&[FRAME_LEN_MAX + 1, xid].map(i32::to_be_bytes).concat());
        assert!(world.incoming.is_empty());
    };
    let (read, large, write) = (world.get("/a"), world.get("/b"), world.create("/c"));
    let xid = world.frames[1].xid;
    too_long(&mut world, xid);
    let too_large = ErrorKind::ReplyTooLarge { len: max + 1, max };
    assert_eq!(*world.failure(large), (too_large.clone(), Outcome::NotApplied));
    let lost = ErrorKind::ConnectionLost(DisconnectReason::FrameTooLarge);
    assert_eq!(*world.failure(read), (lost.clone(), Outcome::NotApplied));
    assert_eq!(*world.failure(write), (lost.clone(), Outcome::Unknown));

    // An oversized frame with an unknown xid fails the pending requests with `ConnectionLost`.
    for head in [-1_i32, 0, 999] {
        world.bring_up();
        let read = world.get("/a");
        too_long(&mut world, head);
        assert_eq!(*world.failure(read), (lost.clone(), Outcome::NotApplied));
    }
    world.bring_up();
    let write = world.create("/d");
    let xid = world.frames[0].xid;
    too_long(&mut world, xid);
    assert_eq!(*world.failure(write), (too_large, Outcome::Unknown));
}

/// The frame that re-registers a watch is longer than the request that set it.
#[test]
fn watch_too_long_to_reregister_is_rejected() {
    let mut world = World::up();
    let empty = SetWatches2 { persistent: vec!["".into()], ..SetWatches2::default() };
    let longest = FRAME_LEN_MAX_SERVER - proto::request_frame_len(&empty);
    let path = |len: usize| format!("/{}", "x".repeat(len - 1));
    let (longest, longer) = (path(longest), path(longest + 1));
    assert!(is_too_large(world.try_submit(&get(&longer, true), Some(WatchKind::Data))));
    let (to, mode, now) = (world.number(), AddWatchMode::Persistent, world.instant());
    assert!(is_too_large(world.session.add_watch(now, &longer, mode, to.clone(), to)));
    world.submit(&get(&longer, false), None); // without a watch, the path is not too long
    world.reject(OpCode::GetData, ErrorCode::NO_NODE);
    world.submit(&get(&longest, true), Some(WatchKind::Data));
    world.serve_next(OpCode::GetData);
    world.stream(mode, &longest);
    world.serve_next(OpCode::AddWatch);
    world.reconnect();
    let lens: Vec<usize> = world.frames.iter().map(|frame| frame.body.len() + 8).collect();
    assert_eq!(lens.iter().max(), Some(&FRAME_LEN_MAX_SERVER));
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
    world.reopen();
    assert_eq!(world.last_connect().timeout_ms, i32::MAX);
    world.respond(&acceptance(i32::MAX));
    world.renew();
    world.advance(ms(1000));
    world.close();
    world.advance(ms(100));
    assert_eq!(world.end(), None);
}
