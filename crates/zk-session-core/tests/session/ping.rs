//! Pings, and the detection of silent connections.

use bytes::{Bytes, BytesMut};
use proto::{DataReply, ErrorCode, EventType, OpCode, SetData, Stat, Zxid};
use zk_session_core::WatchKind;
use zk_session_core::limits::INFLIGHT_BYTES_MAX;
use zk_session_core::{DisconnectReason, Host, SessionEnd};

use crate::harness::{Servers, T, World, ms, pong};
use crate::script;
use crate::script::acceptance;

#[test]
fn ping_is_sent_after_a_third_of_the_timeout() {
    let mut world = World::up();
    world.advance(T / 3 - ms(1));
    assert_eq!(world.times(OpCode::Ping), []);
    world.advance(ms(1));
    assert_eq!(world.times(OpCode::Ping), [T / 3]);
    assert_eq!(world.take(OpCode::Ping).xid, -2);
    world.finish();
}

#[test]
fn requests_postpone_the_ping_and_events_do_not() {
    let mut world = World::up();
    world.advance(ms(1500));
    world.get("/a");
    world.advance(ms(1000));
    world.notify(EventType::NODE_CREATED, "/x");
    world.advance(ms(999));
    assert_eq!(world.times(OpCode::Ping), []);
    world.advance(ms(1));
    assert_eq!(world.times(OpCode::Ping), [ms(3500)]);
    world.finish();
}

#[test]
fn ping_is_not_repeated_while_one_is_outstanding() {
    let mut world = World::up();
    world.advance(ms(2000));
    for _ in 0..2 {
        world.advance(ms(1500));
        world.notify(EventType::NODE_CREATED, "/x"); // the connection is alive
    }
    assert_eq!(world.times(OpCode::Ping), [ms(2000)]);
    world.deliver(&pong());
    world.tick();
    assert_eq!(world.times(OpCode::Ping), [ms(2000), ms(5000)]);
    world.finish();
}

#[test]
fn answered_pings_keep_the_session_alive() {
    let mut world = World::up();
    world.answered.extend([OpCode::Ping, OpCode::Sync].map(OpCode::code));
    world.advance(T * 100);
    assert!(world.session.is_connected());
    let mut sent = [world.times(OpCode::Ping), world.times(OpCode::Sync)].concat();
    sent.sort();
    assert!(sent.len() < 500, "{} pings and syncs", sent.len());
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] <= T / 3));
    world.finish();
}

#[test]
fn ping_interval_is_capped_with_a_long_timeout() {
    let mut world = World::new();
    world.open();
    world.respond(&acceptance(300_000));
    world.advance(ms(10_000));
    assert_eq!(world.times(OpCode::Ping), [ms(10_000)]);
    world.finish();
}

#[test]
fn connection_closes_two_thirds_of_timeout_after_last_byte() {
    let mut world = World::up();
    world.advance(ms(1000));
    // The first byte of a frame that is never completed.
    world.deliver(&[0]);
    let last = world.now();
    world.advance(ms(3999));
    assert!(world.session.is_connected());
    assert_eq!(world.advance_to_deadline(), last + T * 2 / 3);
    assert!(!world.session.is_connected());
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
    world.finish();
}

/// After a blocked runtime or a paused process, the session has received no bytes, but it has sent
/// no ping either.
#[test]
fn idle_server_is_pinged_before_its_connection_is_closed() {
    let mut world = World::up();
    world.freeze(T * 3 / 4);
    world.tick();
    assert!(world.session.is_connected());
    let asked = world.now();
    assert_eq!(world.times(OpCode::Ping), [asked]);
    world.deliver(&pong());
    world.freeze(T * 3 / 4);
    world.tick();
    assert!(world.session.is_connected(), "asked again");
    let asked = world.now();
    assert_eq!(world.advance_to_deadline(), asked + T / 3);
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
    world.finish();
}

#[test]
fn slowly_arriving_reply_keeps_the_connection() {
    for hosts in [1, 3] {
        let mut world = World::with(|settings| {
            settings.hosts = (0..hosts).map(|n| Host::new("h", n)).collect();
        });
        world.bring_up();
        let read = world.get("/a");
        let frame = world.take(OpCode::GetData);
        let mut out = BytesMut::new();
        let data = Some(Bytes::from_static(&[7; 100]));
        let reply = DataReply { data, stat: Stat::default() };
        script::reply(&mut out, frame.xid, Zxid(7), ErrorCode::OK, &reply);
        for byte in &out {
            world.advance(ms(300));
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
        world.advance(T / 3);
        assert!(*world.times(OpCode::Ping).last().unwrap() >= long_ago, "and it goes on");
        world.advance(T);
        assert_eq!(world.cause(), DisconnectReason::IdleTimeout, "until there is silence");
        world.finish();
    }
}

/// Pings and heartbeats do not wait behind requests for a slow line (kazoo: "responses choke pings").
#[test]
fn lease_and_session_survive_queued_megabytes() {
    let mut world = World::up();
    world.servers = Servers::Serve;
    world.claim();
    world.advance(ms(2000));
    assert!(world.lease().is_some());
    world.room = 0;
    let paths: Vec<String> = (0..100).map(|n| format!("/{n}")).collect();
    let data = vec![0; 100_000];
    let asked: Vec<u32> = paths
        .iter()
        .map(|path| {
            let data = Some(data.as_slice().into());
            world.submit(&SetData { path: path.as_str().into(), data, version: -1 }, None)
        })
        .collect();
    let (began, mut requests): (_, usize) = (world.now(), 0);
    while world.reply(asked[99]).is_none() {
        world.room = 20_000; // 200 kB a second
        world.settle();
        world.advance(ms(100));
        assert!(world.session.is_connected() && world.lease().is_some(), "{:?}", world.now());
        let sent = [OpCode::Multi, OpCode::Sync, OpCode::Ping].map(|op| world.times(op).len());
        requests = sent.iter().sum();
    }
    assert!(world.now() - began > T * 8 && requests > 100, "{requests}");
    let paths_seen = world.seen.iter().filter(|(_, frame)| frame.op == OpCode::SetData);
    assert!(paths_seen.map(|(_, frame)| frame.path()).eq(paths), "the order is kept");
    world.finish();
}

/// No reply may carry the current zxid before the session has the events of all earlier changes.
#[test]
fn heartbeat_overtakes_many_watches_and_no_credentials() {
    let mut world = World::up();
    world.claim();
    world.auth("digest");
    let path = |n: usize| format!("/{n:0>1000}");
    let watches: Vec<u32> = (0..1000).map(|n| world.watch(WatchKind::Data, &path(n))).collect();
    while let Some(frame) = world.frames.pop_front() {
        let reply = DataReply { data: None, stat: Stat::default() };
        match frame.op {
            OpCode::GetData => world.answer(&frame, Zxid(9), ErrorCode::OK, &reply),
            _ => world.serve(&frame),
        }
    }
    assert!(watches.iter().all(|n| world.is_ok(*n)));
    world.cut();
    world.room = 45 + 4;
    world.bring_up();
    world.set("/behind");
    world.advance(T / 3); // a ping and a heartbeat are due as well
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
    world.finish();
}

#[test]
fn session_expires_when_a_started_reply_never_completes() {
    let mut world = World::up();
    world.get("/a");
    let xid = world.take(OpCode::GetData).xid;
    world.advance(ms(3000));
    world.deliver(&[100_i32.to_be_bytes(), xid.to_be_bytes()].concat());
    world.servers = Servers::Refuse;
    world.advance(T * 4 / 3 - ms(1));
    assert_eq!(world.session.end_reason(), None);
    world.advance(ms(1));
    assert_eq!(world.session.end_reason(), Some(SessionEnd::ExpiredLocally { paused: None }));
    world.finish();
}

/// The reads of a busy client nearly always end within a frame, and an event may arrive in
/// pieces.
#[test]
fn endless_events_do_not_keep_an_unanswering_connection() {
    let mut event = BytesMut::new();
    script::notify(&mut event, Zxid(-1), EventType::NODE_DELETED, "/x");
    for part in [3 * event.len() - 1, event.len() / 2, 5] {
        let mut world = World::up();
        let began = world.now();
        let mut flood = event.iter().copied().cycle();
        while world.session.is_connected() && world.now() - began < T * 3 {
            world.advance(ms(100));
            let read: Vec<u8> = flood.by_ref().take(part).collect();
            world.deliver(&read);
        }
        assert_eq!(world.cause(), DisconnectReason::RequestTimeout);
        assert!(world.now() - began <= T);
        world.finish();
    }
}

#[test]
fn sent_requests_alone_do_not_keep_the_connection() {
    let mut world = World::up();
    for _ in 0..40 {
        world.get("/a");
        world.advance(ms(100));
    }
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
    world.finish();
}

/// A socket accepts megabytes at once, and no packet can overtake the bytes it has accepted.
#[test]
fn bytes_in_flight_are_bounded_to_let_pings_through() {
    let mut world = World::up();
    world.claim();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    let sent = |world: &World| world.session.stats(world.instant()).bytes_sent;
    let (before, one) = (sent(&world), 50_000);
    for n in 0..200 {
        let data = Some(Bytes::from(vec![7; one]));
        let request = SetData {
            path: format!("/{n}").into(),
            data: data.as_deref().map(Into::into),
            version: -1,
        };
        world.submit(&request, None);
    }
    let bound = u64::try_from(INFLIGHT_BYTES_MAX + 2 * one).unwrap();
    assert!(sent(&world) - before < bound, "{}", sent(&world));
    world.advance(T / 3);
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
    world.finish();
}

/// A server may grant a timeout of weeks, regardless of the requested one.
#[test]
fn silence_limit_is_capped_with_a_long_granted_timeout() {
    let mut world = World::new();
    world.open();
    world.respond(&acceptance(i32::MAX));
    let n = world.get("/a");
    world.advance(ms(39_999));
    assert!(world.session.is_connected());
    world.advance(ms(1));
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
    assert!(world.reply(n).is_some());
    world.finish();
}

/// The ping in front of a lease request shows whether the server is alive while a commit is slow.
#[test]
fn due_ping_precedes_the_lease_request_behind_an_unanswered_one() {
    let mut world = World::up();
    world.claim();
    let slow = world.get("/a");
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    let get = world.take(OpCode::GetData);
    world.advance_to(T / 16);
    assert_eq!(world.ops(), [OpCode::Ping]);
    world.advance(ms(25));
    world.serve(&get);
    assert!(world.is_ok(slow));
    world.advance_to(T / 8);
    assert_eq!(world.ops(), [OpCode::Ping, OpCode::Ping, OpCode::Sync]);
    world.finish();
}
