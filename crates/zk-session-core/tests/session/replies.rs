//! Replies are matched to their requests by xid, and arrive in the order of the requests.

use crate::harness::prelude::*;
use crate::script;

#[test]
fn xids_start_at_one_and_continue_after_a_reconnect() {
    let mut world = World::up();
    for expected in 1..=4 {
        world.get("/a");
        assert_eq!(world.take(OpCode::GetData).xid, expected, "no old reply can ever match");
        if expected == 3 {
            world.reconnect();
        }
    }
}

#[test]
fn auth_and_throttled_replies_may_overtake_other_replies() {
    let mut world = World::up();
    let create = world.create("/a");
    let set = world.set("/a");
    let auth = world.auth("digest");
    let (first, second) = (world.take(OpCode::Create2), world.take(OpCode::SetData));
    world.accept(OpCode::Auth);
    assert!(world.is_ok(auth) && world.reply(create).is_none());
    assert_eq!(world.stats().in_flight, 2);
    world.answer(&second, Zxid(-1), ErrorCode::THROTTLED_OP, &());
    let throttled = ErrorKind::Server(ErrorCode::THROTTLED_OP);
    assert_eq!(*world.failure(set), (throttled, Outcome::NotApplied));
    world.answer(&first, Zxid(7), ErrorCode::OK, &());
    assert!(world.is_ok(create));
    assert!(world.session.is_connected());
}

/// Replies arrive in the order of the requests, so a skipped reply never arrives.
#[test]
fn out_of_order_reply_is_dropped_and_closes_the_connection() {
    for code in [ErrorCode::OK, ErrorCode::NO_NODE] {
        let mut world = World::up();
        let lost = world.create("/a");
        let sets = [world.set("/b"), world.set("/c")];
        world.take(OpCode::Create2);
        let mut out = BytesMut::new();
        let replies = [Zxid(9), Zxid(12)].map(|zxid| (world.take(OpCode::SetData), zxid));
        for (frame, zxid) in &replies {
            script::reply(&mut out, frame.xid, *zxid, code, &());
        }
        world.deliver(&out);
        assert_eq!(world.cause(), DisconnectReason::OutOfOrder(replies[0].0.xid));
        assert_eq!([lost, sets[0], sets[1]].map(|n| world.outcome(n)), [Outcome::Unknown; 3]);
        world.open();
        let seen = world.last_connect().last_zxid_seen;
        assert_eq!(seen, Zxid(12), "the next server must not be behind it");
    }
}

/// The session must get the events of all changes made while the watches were not set.
#[test]
fn skipped_set_watches_is_repeated_from_the_old_zxid() {
    let mut world = World::up();
    let watch = world.watch(WatchKind::Data, "/a");
    world.answer_next(OpCode::GetData, Zxid(5), ErrorCode::OK, &());
    world.reconnect();
    world.take(OpCode::SetWatches); // its reply is lost
    world.claim();
    world.take(OpCode::Ping);
    world.accept(OpCode::Multi); // heartbeat replies may overtake
    world.get("/b");
    world.answer_next(OpCode::GetData, Zxid(10), ErrorCode::OK, &());
    world.bring_up();
    assert_eq!(world.last_connect().last_zxid_seen, Zxid(10));
    let armed = world.take(OpCode::SetWatches);
    assert_eq!(armed.read::<SetWatches<'_>>().relative_zxid, Zxid(5));
    assert!(world.fired(watch).is_none());
}

#[test]
fn unknown_xid_closes_the_connection_not_the_session() {
    for xid in [0, 1, 3, 77, -3, -4, -8, i32::MIN, i32::MAX, i32::MAX - 1] {
        let mut world = World::up();
        world.get("/a");
        world.accept(OpCode::GetData); // another reply to the first request is not expected either
        let read = world.get("/a");
        let mut out = BytesMut::new();
        script::reply(&mut out, xid, Zxid(9), ErrorCode::OK, &());
        world.deliver(&out);
        let cause = DisconnectReason::UnknownXid(xid);
        let lost = (ErrorKind::ConnectionLost(cause), Outcome::NotApplied);
        assert_eq!(*world.failure(read), lost, "{xid}");
        world.bring_up();
    }
}

#[test]
fn reply_is_delivered_with_its_zxid_and_whole_body() {
    let mut world = World::up();
    assert!(!world.session.awaits_reply());
    let read = world.get("/a");
    assert!(world.session.awaits_reply());
    world.answer_next(OpCode::GetData, Zxid(9), ErrorCode::OK, &Stat::default());
    let reply = world.reply(read).unwrap().as_ref().unwrap();
    assert_eq!((reply.zxid, reply.body.len()), (Zxid(9), Stat::LEN));
    assert!(!world.session.awaits_reply());
}

#[test]
fn session_expired_reply_ends_the_session() {
    let mut world = World::up();
    let (read, write) = (world.get("/a"), world.set("/b"));
    world.reject(OpCode::GetData, ErrorCode::SESSION_EXPIRED);
    assert_eq!(world.failure(read).0, ended(SessionEnd::Expired));
    assert_eq!(world.outcome(write), Outcome::Unknown);
    assert_eq!(world.end(), Some(SessionEnd::Expired));
}

/// The session has moved to another server. It has not ended, and the caller may retry the
/// rejected request. The server also closes the connection, and the next handshake resumes the
/// session.
#[test]
fn moved_session_is_resumed_at_the_next_handshake() {
    let mut world = World::up();
    let refused = world.create("/a");
    world.answer_next(OpCode::Create2, Zxid::ZERO, ErrorCode::SESSION_MOVED, &());
    let moved = ErrorKind::Server(ErrorCode::SESSION_MOVED);
    assert_eq!(*world.failure(refused), (moved, Outcome::NotApplied));
    assert!(world.end().is_none());
    world.reconnect();
    assert_eq!(world.last_connect().session_id, ID);
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
}

#[test]
fn event_is_delivered_before_the_reply_that_follows_it() {
    let mut world = World::up();
    let watch = world.set_watch(WatchKind::Data, "/a");
    let read = world.get("/a");
    let frame = world.take(OpCode::GetData);
    let mut both = BytesMut::new();
    script::notify(&mut both, Zxid(-1), EventType::NODE_DATA_CHANGED, "/a");
    script::reply(&mut both, frame.xid, Zxid(10), ErrorCode::OK, &());
    world.deliver(&both);
    let [.., (_, fired), (_, answered)] = &world.log[..] else { panic!("two outputs") };
    assert!(matches!(fired, Seen::Watch(n, Ok(_)) if *n == watch));
    assert!(matches!(answered, Seen::Reply(n, Ok(_)) if *n == read));
}

#[test]
fn watch_is_set_by_the_reply_and_fires_once() {
    let mut world = World::up();
    let missing = world.watch(WatchKind::Data, "/gone");
    let exists = world.watch(WatchKind::Exists, "/gone");
    world.notify(EventType::NODE_CREATED, "/gone");
    assert_eq!(world.fired(exists), None, "not registered yet");
    for op in [OpCode::GetData, OpCode::Exists] {
        world.reject(op, ErrorCode::NO_NODE);
    }
    world.notify(EventType::NODE_CREATED, "/other");
    world.notify(EventType(99), "/gone");
    assert_eq!(world.fired(exists), None);
    world.notify(EventType::NODE_CREATED, "/gone");
    let event = world.fired(exists).unwrap().as_ref().unwrap();
    assert_eq!((event.event_type, event.path.as_str()), (EventType::NODE_CREATED, "/gone"));
    world.notify(EventType::NODE_CREATED, "/gone"); // a second event fires nothing
    assert_eq!(world.fired(missing), None, "a refused getData leaves no watch");
}

/// The harness of these tests relies on it: a driver that loses an output loses a reply.
#[test]
#[should_panic(expected = "the outputs are drained after each call")]
fn invariants_include_drained_outputs() {
    let mut world = World::up();
    world.session.abort();
    world.session.check_invariants();
}

#[test]
fn random_numbers_below_a_bound_vary() {
    let mut world = World::new();
    let drawn: Vec<u64> = (0..50).map(|_| world.session.random_below(1_000)).collect();
    assert!(drawn.iter().all(|it| *it < 1_000) && drawn.iter().any(|it| *it > 1), "{drawn:?}");
    assert_eq!(world.session.random_below(0), 0);
}
