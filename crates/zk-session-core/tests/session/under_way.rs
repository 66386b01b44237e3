//! Requests in flight: their bound, and the packets that may overtake them.

use crate::harness::prelude::*;

/// Sets 400 watches of this many bytes each, and opens another connection.
fn reopened_with_watches(len: usize) -> World {
    let mut world = World::served();
    world.claim();
    for n in 0..400 {
        world.watch(WatchKind::Exists, &format!("/{}/{n}", "x".repeat(len)));
    }
    world.servers = Servers::Scripted;
    world.reopen();
    world
}

/// A heartbeat that waits behind `setWatches` requests is sent after requests with larger xids.
#[test]
fn delayed_heartbeat_is_not_taken_for_a_skipped_reply() {
    let mut world = reopened_with_watches(1_000);
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

/// The driver calls `poll_transmit` again only if the last call returned true.
#[test]
fn watches_are_reregistered_without_waiting_for_replies() {
    let mut world = reopened_with_watches(10_000);
    let (now, mut bytes) = (world.instant(), BytesMut::new());
    proto::encode_record(&acceptance(6000), &mut bytes);
    world.session.handle_received(now, &mut bytes);
    loop {
        let mut part = BytesMut::new();
        let has_more = world.session.poll_transmit(&mut part);
        world.session.handle_written(part.len());
        if !has_more {
            break;
        }
    }
    assert_eq!(world.stats().unwritten_bytes, 0);
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

/// The session reconnects before the lease ends, and the ensemble commits slowly.
#[test]
fn connection_is_kept_while_the_lease_can_still_be_renewed() {
    for (back, latency) in [(2800, 1200), (3000, 1050), (3200, 900), (3400, 600)] {
        let mut world = World::up();
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
