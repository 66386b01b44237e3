//! Pings, and the detection of silent connections.

use zk_session_core::limits::{INFLIGHT_BYTES_MAX, PING_INTERVAL_MAX};

use crate::harness::prelude::*;
use crate::script;

/// Longest time without a packet to the server.
const PING: Duration = Duration::from_millis(2000);
/// Longest time without a byte of the server.
const SILENCE: Duration = Duration::from_millis(4000);

fn set(world: &mut World, path: &str, data: &[u8]) -> u32 {
    world.submit(&SetData { path: path.into(), data: Some(data.into()), version: -1 }, None)
}

#[test]
fn ping_is_sent_after_a_third_of_the_timeout() {
    let mut world = World::up();
    assert_eq!(world.advance_to_ping(), T / 3);
    assert_eq!(world.take(OpCode::Ping).xid, -2);

    let mut world = World::new();
    world.open();
    world.respond(&acceptance(300_000));
    assert_eq!(world.advance_to_ping(), PING_INTERVAL_MAX, "at most");
}

#[test]
fn requests_postpone_the_ping_and_events_do_not() {
    let mut idle = World::up();
    let interval = idle.advance_to_ping();
    let mut world = World::up();
    world.advance(interval / 2);
    world.get("/a");
    world.advance(interval / 2);
    world.notify(EventType::NODE_CREATED, "/x");
    assert_eq!(world.advance_to_ping(), interval * 3 / 2);
}

#[test]
fn ping_is_not_repeated_while_one_is_outstanding() {
    let mut world = World::up();
    let sent = world.advance_to_ping();
    for _ in 0..2 {
        world.advance(T / 4);
        world.notify(EventType::NODE_CREATED, "/x"); // the connection is alive
    }
    assert_eq!(world.times(OpCode::Ping), [sent]);
    world.deliver(&pong());
    world.tick();
    assert_eq!(world.times(OpCode::Ping), [sent, sent + T / 2]);
}

#[test]
fn answered_pings_keep_the_session_alive() {
    let mut world = World::up_answering(&[OpCode::Ping, OpCode::Sync]);
    world.advance(T * 100);
    assert!(world.session.is_connected());
    let mut sent = [world.times(OpCode::Ping), world.times(OpCode::Sync)].concat();
    sent.sort();
    assert!(sent.len() < 600, "{} pings and syncs", sent.len());
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] <= PING));
}

#[test]
fn connection_closes_two_thirds_of_timeout_after_last_byte() {
    let mut world = World::up();
    world.advance(ms(1000));
    // The first byte of a frame that is never completed.
    world.deliver(&[0]);
    let last = world.now();
    assert_eq!(world.advance_to_disconnect(), last + T * 2 / 3);
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
}

/// After a blocked runtime or a paused process, the session has received no bytes, but it has sent
/// no ping either.
#[test]
fn idle_server_is_pinged_before_its_connection_is_closed() {
    let mut world = World::up();
    for answers in [true, false] {
        world.freeze(T * 3 / 4);
        world.tick();
        assert!(world.session.is_connected());
        assert_eq!(world.times(OpCode::Ping).pop(), Some(world.now()));
        if answers {
            world.deliver(&pong());
        }
    }
    let asked = world.now();
    assert_eq!(world.advance_to_disconnect(), asked + T / 3);
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
}

#[test]
fn slowly_arriving_reply_keeps_the_connection() {
    for hosts in [1, 3] {
        let mut world = World::up_with(|settings| {
            settings.hosts = (0..hosts).map(|n| Host::new("h", n)).collect();
        });
        let read = world.get("/a");
        let frame = world.take(OpCode::GetData);
        let mut out = BytesMut::new();
        let data = Some(Bytes::from_static(&[7; 100]));
        let reply = DataReply { data, stat: Stat::default() };
        script::reply(&mut out, frame.xid, Zxid(7), ErrorCode::OK, &reply);
        for byte in &out {
            world.advance(T / 20);
            world.deliver(&[*byte]);
        }
        assert!(world.now() > T * 9 && world.session.is_connected());
        assert!(world.is_ok(read));

        // The server has received pings, although it has not answered them.
        let pings = world.times(OpCode::Ping);
        assert!(pings.len() > 9 && pings.windows(2).all(|pair| pair[1] - pair[0] <= T / 2));
        let long_ago = world.now();
        for _ in &pings {
            world.deliver(&pong());
        }
        world.advance(PING);
        assert!(*world.times(OpCode::Ping).last().unwrap() >= long_ago, "and it goes on");
        world.advance_to_disconnect();
        assert_eq!(world.cause(), DisconnectReason::IdleTimeout, "until there is silence");
    }
}

/// No reply may carry the current zxid before the session has the events of all earlier changes.
#[test]
fn heartbeat_overtakes_many_watches_and_no_credentials() {
    let mut world = World::up();
    world.claim();
    world.serve_next(OpCode::Multi);
    world.auth("digest");
    world.serve_next(OpCode::Auth);
    for n in 0..1000 {
        world.set_watch(WatchKind::Data, &format!("/{n:0>1000}"));
    }
    world.cut();
    world.room = 45 + 4;
    world.bring_up();
    world.set("/behind");
    world.advance(PING); // a ping and a heartbeat are due as well
    world.room = usize::MAX;
    world.settle();
    let mut ops = Vec::new();
    while let Some(frame) = world.frames.pop_front() {
        ops.push(frame.op);
        world.serve(&frame); // with so many bytes in flight the rest waits for replies
    }
    let armed = ops.iter().rposition(|op| *op == OpCode::SetWatches).unwrap();
    let proof = ops.iter().position(|op| *op == OpCode::Multi).unwrap();
    let set = ops.iter().position(|op| *op == OpCode::SetData).unwrap();
    assert_eq!(ops[0], OpCode::Auth);
    assert!(armed >= 8 && proof < armed && armed < set, "{ops:?}");
}

#[test]
fn session_expires_when_a_started_reply_never_completes() {
    let mut world = World::up();
    world.get("/a");
    let xid = world.take(OpCode::GetData).xid;
    world.advance(T / 2);
    world.deliver(&[100, xid].map(i32::to_be_bytes).concat());
    world.servers = Servers::Refuse;
    assert_eq!(world.advance_to_end(), T / 2 + T * 4 / 3);
    assert_eq!(world.end(), Some(SessionEnd::ExpiredLocally { paused: None }));
}

/// The reads of a busy client nearly always end within a frame, and an event may arrive in
/// pieces.
#[test]
fn endless_events_do_not_keep_an_unanswering_connection() {
    let mut event = BytesMut::new();
    script::notify(&mut event, Zxid(-1), EventType::NODE_DELETED, "/x");
    for part in [3 * event.len() - 1, event.len() / 2, 5] {
        let mut world = World::up();
        let mut flood = event.iter().copied().cycle();
        while world.session.is_connected() && world.now() < T * 3 {
            world.advance(ms(100));
            let read: Vec<u8> = flood.by_ref().take(part).collect();
            world.deliver(&read);
        }
        assert_eq!(world.cause(), DisconnectReason::RequestTimeout);
        assert!(world.now() <= T);
    }
}

#[test]
fn sent_requests_alone_do_not_keep_the_connection() {
    let mut world = World::up();
    while world.session.is_connected() {
        world.get("/a");
        world.advance(ms(100));
    }
    assert_eq!((world.now(), world.cause()), (SILENCE, DisconnectReason::IdleTimeout));
}

/// A socket accepts megabytes at once, and no packet can overtake the bytes it has accepted.
#[test]
fn bytes_in_flight_are_bounded_to_let_pings_through() {
    let mut world = World::up();
    world.claim();
    world.serve_next(OpCode::Multi);
    let sent = |world: &World| world.stats().bytes_sent;
    let (before, one) = (sent(&world), 50_000);
    for n in 0..200 {
        set(&mut world, &format!("/{n}"), &vec![7; one]);
    }
    world.auth("digest"); // bounds the writes behind it as well
    let bound = u64::try_from(INFLIGHT_BYTES_MAX + 2 * one).unwrap();
    assert!(sent(&world) - before < bound, "{}", sent(&world));
    world.advance(PING);
    assert!(world.times(OpCode::Ping).len() + world.times(OpCode::Sync).len() > 2);
    let mut answered = 0;
    while let Some(frame) = world.frames.pop_front() {
        assert!(sent(&world) - before < bound + answered * 51_000);
        if frame.op == OpCode::SetData {
            answered += 1;
            world.serve(&frame);
        }
    }
    assert_eq!(answered, 200);
}

/// A server may grant a timeout of weeks, regardless of the requested one.
#[test]
fn silence_limit_is_capped_with_a_long_granted_timeout() {
    let mut world = World::new();
    world.open();
    world.respond(&acceptance(i32::MAX));
    world.get("/a");
    assert_eq!(world.advance_to_disconnect(), ms(40_000));
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
}

/// The ping in front of a lease request shows whether the server is alive while a commit is slow.
#[test]
fn due_ping_precedes_the_lease_request_behind_an_unanswered_one() {
    let mut world = World::up();
    world.claim();
    let slow = world.get("/a");
    world.serve_next(OpCode::Multi);
    let get = world.take(OpCode::GetData);
    world.advance_to(T / 16);
    assert_eq!(world.ops(), [OpCode::Ping]);
    world.advance(ms(25));
    world.serve(&get);
    assert!(world.is_ok(slow));
    world.advance_to(T / 8);
    assert_eq!(world.ops(), [OpCode::Ping, OpCode::Ping, OpCode::Sync]);
}
