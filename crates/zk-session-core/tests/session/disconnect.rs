//! Outcomes of requests when the connection is lost.

use bytes::BytesMut;
use proto::{OpCode, Zxid};
use zk_session_core::WatchKind;
use zk_session_core::{DisconnectReason, ErrorKind, Outcome};

use crate::harness::{World, ms};

#[test]
fn write_outcome_is_unknown_once_a_byte_was_sent() {
    for (room, expected) in [(0, Outcome::NotApplied), (1, Outcome::Unknown)] {
        let mut world = World::up();
        world.room = room;
        let write = world.create("/a");
        world.cut();
        assert_eq!(world.outcome(write), expected, "{room} bytes");
    }
}

#[test]
fn outcome_boundary_is_the_first_byte_of_each_frame() {
    let mut length = World::up();
    let before = length.transmitted.len();
    length.create("/a");
    let frame = length.transmitted.len() - before;

    for room in 0..=2 * frame {
        let mut world = World::up();
        world.room = room;
        let (first, second) = (world.create("/a"), world.create("/b"));
        world.cut();
        let outcome = |left| match left {
            true => Outcome::Unknown,
            false => Outcome::NotApplied,
        };
        assert_eq!(world.outcome(first), outcome(room > 0), "{room}");
        assert_eq!(world.outcome(second), outcome(room > frame), "{room}");
    }
}

#[test]
fn lost_reads_report_not_applied() {
    let mut world = World::up();
    let reads = [
        world.get("/a"),
        world.sync(),
        world.watch(WatchKind::Exists, "/a"),
        world.watch(WatchKind::Children, "/a"),
    ];
    world.cut();
    for read in reads {
        let kind = ErrorKind::ConnectionLost(DisconnectReason::ClosedByServer);
        assert_eq!(*world.failure(read), (kind, Outcome::NotApplied));
    }
}

#[test]
fn lost_requests_fail_in_the_order_of_submission() {
    let mut world = World::up();
    let all: Vec<u32> = (0..20).map(|_| world.set("/a")).collect();
    let frame = world.frames.pop_front().unwrap();
    world.serve(&frame);
    let before = world.log.len();
    world.cut();
    let failed = world.log[before..].iter().filter_map(|(_, seen)| match seen {
        crate::harness::Seen::Reply(n, Err(_)) => Some(*n),
        _ => None,
    });
    let expected = all.iter().copied().filter(|n| *n != all[0]);
    assert!(failed.eq(expected));
}

#[test]
fn queued_request_survives_failed_connection_attempts() {
    let mut world = World::up();
    world.cut();
    let queued = world.create("/a");
    for _ in 0..5 {
        world.open();
        assert_eq!(world.ops(), []);
        world.cut();
        assert_eq!(world.reply(queued), None);
    }
    world.bring_up();
    world.serve_next(OpCode::Create2);
    assert!(world.is_ok(queued));
}

#[test]
fn sent_requests_are_not_resent_after_a_reconnect() {
    let mut world = World::up();
    world.create("/a");
    world.get("/a");
    world.reconnect();
    world.advance(ms(1000));
    assert_eq!(world.ops(), []);
}

#[test]
fn abandoned_queued_requests_are_never_sent() {
    let mut world = World::new();
    let dropped = [world.create("/1"), world.create("/3"), world.create("/4")];
    let kept = world.create("/2");
    for n in dropped {
        world.abandon(n);
    }
    world.bring_up();
    assert_eq!(world.take(OpCode::Create2).path(), "/2");
    assert_eq!(world.ops(), []);
    assert_eq!(world.reply(kept), None);
}

#[test]
fn partial_reply_leaves_the_outcome_unknown() {
    let mut world = World::up();
    let write = world.create("/a");
    let frame = world.take(OpCode::Create2);
    let mut out = BytesMut::new();
    crate::script::reply(&mut out, frame.xid, Zxid(5), proto::ErrorCode::OK, &());
    world.deliver(&out[..out.len() - 1]);
    world.cut();
    assert_eq!(world.outcome(write), Outcome::Unknown);
    world.bring_up();
}
