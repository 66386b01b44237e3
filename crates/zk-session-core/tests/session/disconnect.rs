//! Outcomes of requests when the connection is lost.

use crate::harness::prelude::*;

#[test]
fn write_outcome_is_unknown_from_its_first_sent_byte_on() {
    let mut length = World::up();
    let before = length.transmitted.len();
    length.create("/a");
    let frame = length.transmitted.len() - before;

    for room in 0..=2 * frame {
        let mut world = World::up();
        world.room = room;
        let writes = [world.create("/a"), world.create("/b")];
        world.cut();
        let expected = [room > 0, room > frame]
            .map(|is_begun| if is_begun { Outcome::Unknown } else { Outcome::NotApplied });
        assert_eq!(writes.map(|n| world.outcome(n)), expected, "{room}");
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
fn lost_requests_fail_in_order_and_are_not_sent_again() {
    let mut world = World::up();
    let all: Vec<u32> = (0..20).map(|_| world.set("/a")).collect();
    world.serve_next(OpCode::SetData);
    let before = world.log.len();
    world.cut();
    let failed = world.log[before..].iter().filter_map(|(_, seen)| match seen {
        Seen::Reply(n, Err(_)) => Some(*n),
        _ => None,
    });
    assert!(failed.eq(all[1..].iter().copied()));
    world.bring_up();
    world.advance(ms(1000));
    assert_eq!(world.ops(), []);
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
    assert_eq!(world.events().len(), 3, "a failed attempt is no event");
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
