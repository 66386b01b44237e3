//! Statistics of the session.

use std::time::Duration;

use bytes::BytesMut;
use proto::{DataReply, ErrorCode, OpCode, SessionId, Stat, Zxid};
use zk_session_core::{ErrorKind, WatchKind};

use crate::harness::{World, ms, pong};
use crate::script::ID;

#[test]
fn stats_count_requests_bytes_watches_and_losses() {
    let mut world = World::new();
    world.server.missing.insert("/n/none".to_owned());
    let stats = |world: &World| world.session.stats(world.instant());
    world.create("/n/b");
    let waiting = stats(&world);
    assert_eq!((waiting.queued, waiting.in_flight, waiting.session_id), (1, 0, SessionId::NONE));
    assert!(waiting.queued_bytes > 40 && waiting.connected_to.is_none());
    assert_eq!((waiting.frames_sent, waiting.bytes_sent, waiting.lease_left), (0, 0, None));

    world.start_serving();
    world.watch(WatchKind::Data, "/n/a");
    world.watch(WatchKind::Exists, "/n/none");
    world.watch(WatchKind::Children, "/n");
    let up = stats(&world);
    assert_eq!(up.session_id, ID);
    assert_eq!((up.queued, up.queued_bytes, up.in_flight, up.unwritten_bytes), (0, 0, 0, 0));
    assert_eq!((up.frames_sent, up.frames_received), (5, 5), "a handshake, four requests");
    assert_eq!(up.bytes_sent, u64::try_from(world.transmitted.len()).unwrap());
    let watches = (up.one_shot_watches, up.recursive_watches, up.persistent_watches);
    assert_eq!(watches, (3, 0, 0));
    assert_eq!(up.connected_to.unwrap().port(), 1);
    assert!(up.lease_left.is_some(), "a write was answered");

    world.unanswered.insert(OpCode::GetData.code());
    world.get("/n/a");
    assert_eq!(stats(&world).in_flight, 1);
    world.cut();
    let lost = stats(&world);
    assert_eq!((lost.connections_lost, lost.in_flight), (1, 0));
    assert!(lost.connected_to.is_none());
    world.room = 10;
    world.advance(ms(100));
    assert!(stats(&world).unwritten_bytes > 0);
    world.finish();
}

#[test]
fn heartbeat_and_ping_round_trips_are_measured() {
    let mut world = World::up();
    world.claim();
    let heartbeat = world.take(OpCode::Multi);
    world.advance(ms(30));
    let reply = proto::MultiReply { results: vec![] };
    world.answer(&heartbeat, Zxid(9), ErrorCode::OK, &reply);
    let stats = world.session.stats(world.instant());
    assert_eq!((stats.heartbeat_round_trip, stats.ping_round_trip), (Some(ms(30)), None));
    world.session.unclaim_lease();
    while world.times(OpCode::Ping).is_empty() {
        world.advance(ms(100));
    }
    let sent = world.times(OpCode::Ping)[0];
    world.advance(ms(7));
    world.deliver(&pong());
    let stats = world.session.stats(world.instant());
    assert_eq!(stats.ping_round_trip, Some(world.now() - sent));
    assert_eq!(latency(&world), (0, ms(0)), "neither is an ordinary request");
    world.finish();
}

#[test]
fn request_latency_is_the_time_from_sending_to_reply() {
    let mut world = World::new();
    let queued = world.create("/n");
    world.advance(ms(400));
    world.bring_up();
    world.advance(ms(3));
    let create = world.take(OpCode::Create2);
    world.serve(&create);
    assert!(world.is_ok(queued));
    assert_eq!(latency(&world), (1, ms(3)), "the time without a connection does not count");

    world.get("/a");
    let get = world.take(OpCode::GetData);
    world.advance(ms(40));
    world.answer(&get, Zxid(9), ErrorCode::NO_NODE, &());
    assert_eq!(latency(&world), (2, ms(43)), "a reply with an error counts");

    world.get("/a");
    world.advance(ms(1));
    world.cut();
    assert_eq!(latency(&world), (2, ms(43)), "a lost request has no reply");
    let stats = world.session.stats(world.instant());
    let within = |bound| stats.request_latency.buckets().find(|it| it.0 == ms(bound)).unwrap().1;
    assert_eq!([within(2), within(5), within(20), within(50)], [0, 1, 1, 2]);
    world.finish();
}

#[test]
fn request_latency_counts_late_replies_and_guaranteed_deletes() {
    let mut world = World::with(|settings| settings.request_timeout = Some(ms(100)));
    world.bring_up();
    let late = world.get("/a");
    world.advance(ms(100));
    assert_eq!(world.failure(late).0, ErrorKind::TimedOut);
    world.advance(ms(50));
    let get = world.take(OpCode::GetData);
    world.serve(&get);
    assert_eq!(latency(&world), (1, ms(150)));
    world.delete_guaranteed("/n");
    world.advance(ms(7));
    let delete = world.take(OpCode::Delete);
    world.serve(&delete);
    assert_eq!(latency(&world), (2, ms(157)));
    world.finish();
}

#[test]
fn auth_answered_out_of_order_is_not_counted_in_flight() {
    let mut world = World::up();
    world.get("/a");
    world.auth("digest");
    let get = world.take(OpCode::GetData);
    let auth = world.take(OpCode::Auth);
    world.answer(&auth, Zxid::ZERO, ErrorCode::OK, &());
    assert_eq!(world.session.stats(world.instant()).in_flight, 1);
    world.serve(&get);
    assert_eq!(world.session.stats(world.instant()).in_flight, 0);
    world.finish();
}

/// While a long reply arrives, the session keeps sending pings, although none is answered yet.
#[test]
fn ping_round_trip_counts_from_the_ping_it_answers() {
    let mut world = World::up();
    world.get("/a");
    let get = world.take(OpCode::GetData);
    let mut reply = BytesMut::new();
    let data = DataReply { data: Some(vec![0; 5000].into()), stat: Stat::default() };
    crate::script::reply(&mut reply, get.xid, Zxid(9), ErrorCode::OK, &data);
    let mut bytes = reply.iter();
    while world.times(OpCode::Ping).len() < 2 {
        world.advance(ms(100));
        world.deliver(&[*bytes.next().unwrap()]);
    }
    world.deliver(bytes.as_slice());
    world.deliver(&pong());
    world.advance(ms(10));
    world.deliver(&pong());
    let second = world.times(OpCode::Ping)[1];
    let round_trip = world.session.stats(world.instant()).ping_round_trip;
    assert_eq!(round_trip, Some(world.now() - second));
}

/// Returns the number of replies in the histogram, and the sum of their times.
fn latency(world: &World) -> (u64, Duration) {
    let latency = world.session.stats(world.instant()).request_latency;
    (latency.count(), latency.sum())
}
