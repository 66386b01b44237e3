//! Statistics of the session.

use crate::harness::prelude::*;

/// Returns the number of replies in the histogram, and the sum of their times.
fn latency(world: &World) -> (u64, Duration) {
    let latency = world.stats().request_latency;
    (latency.count(), latency.sum())
}

#[test]
fn stats_count_requests_bytes_watches_and_losses() {
    let mut world = World::new();
    world.server.missing.insert("/n/none".to_owned());
    world.create("/n/b");
    let waiting = world.stats();
    assert_eq!((waiting.queued, waiting.in_flight, waiting.session_id), (1, 0, SessionId::NONE));
    assert!(waiting.queued_bytes > 40 && waiting.connected_to.is_none());
    assert_eq!((waiting.frames_sent, waiting.bytes_sent, waiting.lease_left), (0, 0, None));

    world.start_serving();
    world.watch(WatchKind::Data, "/n/a");
    world.watch(WatchKind::Exists, "/n/none");
    world.watch(WatchKind::Children, "/n");
    let up = world.stats();
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
    assert_eq!(world.stats().in_flight, 1);
    world.cut();
    let lost = world.stats();
    assert_eq!((lost.connections_lost, lost.in_flight), (1, 0));
    assert!(lost.connected_to.is_none());
    world.room = 10;
    world.advance(ms(100));
    assert!(world.stats().unwritten_bytes > 0);
}

#[test]
fn heartbeat_and_ping_round_trips_are_measured() {
    let mut world = World::up();
    world.claim();
    world.advance(ms(30));
    world.serve_next(OpCode::Multi);
    let stats = world.stats();
    assert_eq!((stats.heartbeat_round_trip, stats.ping_round_trip), (Some(ms(30)), None));
    assert_eq!(latency(&world), (0, ms(0)), "it is no ordinary request");

    // The answer to a ping of a lost connection never arrives. A later answer is not for that ping.
    let mut world = World::up();
    world.advance_to_ping();
    world.reconnect();
    world.advance_to_ping();
    world.advance(ms(7));
    world.deliver(&pong());
    assert_eq!(world.stats().ping_round_trip, Some(ms(7)));
}

#[test]
fn request_latency_is_the_time_from_sending_to_reply() {
    let mut world = World::with(|settings| settings.request_timeout = Some(ms(500)));
    let queued = world.create("/n");
    world.advance(ms(400));
    world.bring_up();
    world.advance(ms(3));
    world.serve_next(OpCode::Create2);
    assert!(world.is_ok(queued));
    assert_eq!(latency(&world), (1, ms(3)), "the time without a connection does not count");

    world.get("/a");
    world.advance(ms(40));
    world.reject(OpCode::GetData, ErrorCode::NO_NODE);
    assert_eq!(latency(&world), (2, ms(43)), "a reply with an error counts");
    world.delete_guaranteed("/n");
    world.advance(ms(7));
    world.serve_next(OpCode::Delete);
    assert_eq!(latency(&world), (3, ms(50)));
    let late = world.get("/a");
    world.advance(ms(600));
    assert!(world.reply(late).is_some());
    world.serve_next(OpCode::GetData);
    assert_eq!(latency(&world), (4, ms(650)), "a late reply counts");

    world.get("/a");
    world.advance(ms(1));
    world.cut();
    assert_eq!(latency(&world), (4, ms(650)), "a lost request has no reply");
    let stats = world.stats();
    let within = |bound| stats.request_latency.buckets().find(|it| it.0 == ms(bound)).unwrap().1;
    assert_eq!([within(2), within(5), within(20), within(50)], [0, 1, 2, 3]);
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
    assert_eq!(world.stats().ping_round_trip, Some(world.now() - second));
}

#[test]
fn counters_continue_after_a_lost_connection() {
    let mut world = World::up();
    // The reply to the handshake, which was all that arrived so far.
    let handshake = world.stats().bytes_received;
    for lost in 1..=3 {
        let before = world.stats();
        world.get("/a");
        let get = world.take(OpCode::GetData);
        let mut reply = BytesMut::new();
        crate::script::reply(&mut reply, get.xid, Zxid(9), ErrorCode::OK, &());
        world.deliver(&reply);
        world.reconnect();
        let stats = world.stats();
        let len = u64::try_from(reply.len()).unwrap();
        assert_eq!(stats.bytes_received, before.bytes_received + len + handshake);
        assert_eq!(stats.frames_sent, before.frames_sent + 2, "a request and a handshake");
        assert_eq!((stats.connections_lost, world.session.connections_lost()), (lost, lost));
    }
}

/// The ages explain why a lease ended: which answer was missing.
#[test]
fn stats_report_the_evidence_of_the_lease() {
    let mut world = World::up_answering(&[OpCode::Ping]);
    let stats = |world: &World| world.stats().lease;
    assert_eq!(stats(&world), zk_session_core::LeaseStats::default());
    assert_eq!(world.session.lease_proven_at(), None);
    let handshake = world.instant();
    world.advance(ms(100));
    world.prove();
    world.advance(ms(10));
    assert_eq!(stats(&world).oldest_unanswered, Some(ms(10)));
    world.serve_next(OpCode::Multi);
    world.advance(ms(500));
    world.sync();
    world.serve_next(OpCode::Sync);
    world.get("/a"); // neither the leader nor a quorum answers it
    world.serve_next(OpCode::GetData);
    world.advance(ms(7));
    let lease = stats(&world);
    assert_eq!((lease.leader_answered, lease.quorum_answered), (Some(ms(7)), Some(ms(517))));
    assert_eq!((lease.proven, lease.oldest_unanswered), (Some(ms(617)), None));
    assert_eq!(world.session.lease_proven_at(), Some(handshake));
}
