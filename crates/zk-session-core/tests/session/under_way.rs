//! Requests in flight: their bound, and the packets that may overtake them.

use bytes::BytesMut;
use proto::{ErrorCode, OpCode, SetData, Zxid};
use zk_session_core::SessionEnd;
use zk_session_core::WatchKind;

use crate::harness::{Servers, T, Wire, World, ms};
use crate::script::acceptance;

fn set(world: &mut World, path: &str, len: usize) {
    let data = vec![7; len];
    let request = SetData { path: path.into(), data: Some((&data[..]).into()), version: -1 };
    world.submit(&request, None);
}

/// A heartbeat that waits behind `setWatches` requests is sent after requests with larger xids.
#[test]
fn delayed_heartbeat_is_not_taken_for_a_skipped_reply() {
    let mut world = World::served();
    world.claim();
    for n in 0..400 {
        world.watch(WatchKind::Exists, &format!("/{}/{n}", "long".repeat(250)));
    }
    world.servers = Servers::Scripted;
    world.reopen();
    world.room = 200_000;
    world.respond(&acceptance(6000));
    world.servers = Servers::Serve;
    let get = world.get("/a");
    world.auth("late");
    world.room = usize::MAX;
    world.settle();
    assert!(world.session.is_connected(), "{:?}", world.session.last_disconnect());
    assert!(world.is_ok(get));
}

#[test]
fn queued_writes_stay_bounded_when_credentials_are_added() {
    let mut world = World::up();
    let sent = |world: &World| world.stats().bytes_sent;
    for _ in 0..200 {
        set(&mut world, "/s", 50_000);
    }
    world.auth("digest");
    assert!(sent(&world) < 500_000, "{}", sent(&world));
}

/// The close request is the last one. No packet has to overtake it, and the server must get it in time.
#[test]
fn close_request_does_not_wait_for_earlier_replies() {
    let mut world = World::up();
    for n in 0..6000 {
        world.create(&format!("/ephemeral-of-some-service/{n}"));
    }
    world.close();
    while world.end().is_none() {
        world.advance(ms(1)); // the server reads everything and answers 1,000 requests a second
        if let Some(frame) = world.frames.pop_front() {
            world.serve(&frame);
        }
    }
    assert_eq!(world.times(OpCode::CloseSession).len(), 1);
    assert_eq!(world.end(), Some(SessionEnd::Closed));
}

/// The driver calls `poll_transmit` again only if the last call returned true.
#[test]
fn watches_are_reregistered_without_waiting_for_replies() {
    let mut world = World::served();
    for n in 0..400 {
        world.watch(WatchKind::Exists, &format!("/{}/{n}", "long".repeat(2500)));
    }
    world.servers = Servers::Scripted;
    world.cut();
    while world.wire != Wire::Asked {
        world.advance_to_deadline();
    }
    let (now, mut bytes) = (world.instant(), BytesMut::new());
    let session = &mut world.session;
    session.handle_connected(now);
    session.poll_transmit(&mut bytes);
    session.handle_written(bytes.len());
    bytes.clear();
    proto::encode_record(&acceptance(6000), &mut bytes);
    session.handle_received(now, &mut bytes);
    loop {
        let mut part = BytesMut::new();
        let has_more = session.poll_transmit(&mut part);
        session.handle_written(part.len());
        if !has_more {
            break;
        }
    }
    assert_eq!(session.stats(now).unwritten_bytes, 0);
}

/// The session reconnects before the lease ends, and the ensemble commits slowly.
#[test]
fn connection_is_kept_while_the_lease_can_still_be_renewed() {
    for (back, latency) in [(2800, 1200), (3000, 1050), (3200, 900), (3400, 600)] {
        let mut world = World::up();
        world.advance(ms(1000));
        world.claim();
        world.serve_next(OpCode::Multi);
        let end = world.lease().unwrap();
        world.advance(ms(back) - ms(20));
        world.frames.clear(); // these requests were lost
        world.cut_if_open();
        world.bring_up();
        assert!(world.now() + ms(latency) < end, "in time for the one after {back}");
        let proof = world.take(OpCode::Multi);
        world.advance(ms(latency));
        assert!(world.session.is_connected(), "{latency} at {back}");
        world.serve(&proof);
        assert!(world.lease() > Some(end));
    }
}

#[test]
fn watch_removal_is_not_repeated_after_a_rejection() {
    let mut world = World::served();
    world.unanswered.insert(OpCode::RemoveWatches.code());
    let watch = world.watch(WatchKind::Data, "/a");
    world.drop_watch(watch, "/a");
    let mut asked = 0;
    for _ in 0..100 {
        world.advance(ms(100));
        while let Some(at) = world.frames.iter().position(|it| it.op == OpCode::RemoveWatches) {
            asked += 1;
            let frame = world.frames.remove(at).unwrap();
            world.answer(&frame, Zxid(9), ErrorCode::MARSHALLING_ERROR, &());
        }
    }
    assert_eq!(asked, 1);
}

/// The connection attempt fails before the driver handles the timeout that ends the session.
#[test]
fn detach_without_a_session_ends_as_detached() {
    let mut world = World::new();
    world.tick();
    world.session.detach(world.instant());
    world.cut();
    assert_eq!(world.end(), Some(SessionEnd::Detached));
    assert!(world.now() < T);
}
