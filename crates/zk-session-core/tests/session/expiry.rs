//! Local expiry: the client's own clock ends a session that no server has answered for too long.

use crate::harness::prelude::*;

const LIMIT: Duration = Duration::from_millis(8000);
const EXPIRED: SessionEnd = SessionEnd::ExpiredLocally { paused: None };

/// Loses the connection, and waits until the session has expired. Returns when.
fn expire(world: &mut World) -> Duration {
    world.servers = Servers::Refuse;
    world.cut_if_open();
    let at = world.advance_to_end();
    assert_eq!(world.end(), Some(EXPIRED));
    at
}

#[test]
fn session_expires_locally_after_four_thirds_of_the_timeout() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::up();
        let write = world.create("/a");
        world.servers = servers;
        world.advance(ms(100));
        world.cut();
        let queued = world.get("/b");
        world.advance(LIMIT - ms(101));
        assert_eq!(world.reply(queued), None);
        assert_eq!(world.advance_to_end(), T * 4 / 3, "{servers:?}");
        assert_eq!(world.end(), Some(EXPIRED));
        assert_eq!(world.outcome(write), Outcome::Unknown);
        assert_eq!(*world.failure(queued), (ended(EXPIRED), Outcome::NotApplied));
        let last = world.events().pop();
        assert!(matches!(last, Some(SessionEvent::Expired { cause: EXPIRED, .. })));
    }
}

#[test]
fn every_watch_on_a_node_ends_with_the_session() {
    let mut world = World::served();
    let kinds = [WatchKind::Data, WatchKind::Children, WatchKind::Data, WatchKind::Children];
    let watches = kinds.map(|kind| world.watch(kind, "/"));
    world.servers = Servers::Scripted;
    world.cut();
    assert_eq!(watches.map(|n| world.fired(n)), [None; 4], "a lost connection is no event");
    expire(&mut world);
    assert_eq!(watches.map(|n| world.fired(n)), [Some(&Err(EXPIRED)); 4]);
}

#[test]
fn local_expiry_counts_from_the_last_reply_or_handshake() {
    let mut world = World::up();
    world.get("/a");
    world.advance(ms(1900));
    world.serve_next(OpCode::GetData);
    assert_eq!(expire(&mut world), ms(1900) + LIMIT);

    let mut world = World::new();
    world.open();
    world.advance(ms(900));
    world.respond(&acceptance(6000));
    assert_eq!(expire(&mut world), ms(900) + LIMIT);
}

#[test]
fn connection_without_replies_is_closed_before_expiry() {
    let mut world = World::up();
    world.advance_to_ping();
    let asked = world.now();
    while world.session.is_connected() {
        world.advance(ms(500));
        world.notify(EventType::NODE_CREATED, "/x");
    }
    assert_eq!(world.now(), asked + T * 2 / 3);
    assert_eq!(world.cause(), DisconnectReason::RequestTimeout);
    assert_eq!(expire(&mut world), LIMIT);
}

#[test]
fn reconnect_in_time_restarts_the_expiry_clock() {
    let mut world = World::up();
    world.servers = Servers::Refuse;
    world.cut();
    world.advance(LIMIT - T / 4);
    world.servers = Servers::Serve;
    world.advance(T * 10);
    assert!(world.session.is_connected());
}

#[test]
fn session_that_was_never_created_does_not_expire() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::new();
        world.servers = servers;
        let waiting = world.get("/");
        world.advance(T * 100);
        assert_eq!(world.end(), None);
        assert_eq!(world.reply(waiting), None);
        world.servers = Servers::Serve;
        world.advance(T * 2);
        assert!(world.is_ok(waiting), "{servers:?}");
    }
}

/// A slow server answers 1,000 requests in order, one every 20 ms. Received packets keep the session
/// alive at the server, so the client keeps sending pings.
#[test]
fn session_survives_a_long_queue_at_a_slow_server() {
    let mut world = World::up();
    for _ in 0..1000 {
        world.get("/a");
    }
    let mut answered = 0;
    while answered < 1000 {
        world.advance(ms(20));
        assert_eq!(world.end(), None, "{answered} answers");
        let op = world.frames[0].op;
        match op {
            OpCode::GetData => {
                world.reject(op, ErrorCode::NO_NODE);
                answered += 1;
            }
            _ => world.serve_next(op),
        }
        let last = [OpCode::Ping, OpCode::Sync].map(|op| world.times(op).last().copied());
        let last = last.into_iter().flatten().max().unwrap_or_default();
        assert!(world.now() - last <= T / 3 + ms(20), "a ping or a sync each third of the timeout");
    }
    assert!(world.session.is_connected());
}
