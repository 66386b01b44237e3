//! Local expiry: the client's own clock ends a session that no server has answered for too long.

use proto::{ErrorCode, OpCode, Zxid};
use zk_session_core::{DisconnectReason, Outcome, SessionEnd, SessionEvent, WatchKind};

use crate::harness::{Servers, T, World, ended, ms};
use crate::script::acceptance;

const LIMIT: std::time::Duration = std::time::Duration::from_millis(8000);

#[test]
fn session_expires_locally_after_four_thirds_of_the_timeout() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::up();
        let write = world.create("/a");
        world.servers = servers;
        world.advance(ms(100));
        world.cut();
        let queued = world.get("/b");
        world.advance_to(LIMIT - ms(1));
        assert_eq!(world.end(), None, "{servers:?}");
        assert_eq!(world.reply(queued), None);
        world.advance(ms(1));
        assert_eq!(world.end(), Some(SessionEnd::ExpiredLocally { paused: None }), "{servers:?}");
        assert_eq!(world.outcome(write), Outcome::Unknown);
        assert_eq!(world.failure(queued).0, ended(SessionEnd::ExpiredLocally { paused: None }));
        assert_eq!(world.outcome(queued), Outcome::NotApplied);
        let last = world.events().pop().unwrap();
        assert!(matches!(
            last,
            SessionEvent::Expired { cause: SessionEnd::ExpiredLocally { .. }, .. }
        ));
    }
}

#[test]
fn every_watch_on_a_node_ends_with_the_session() {
    let mut world = World::served();
    let kinds = [WatchKind::Data, WatchKind::Children, WatchKind::Data, WatchKind::Children];
    let watches = kinds.map(|kind| world.watch(kind, "/"));
    world.advance(ms(100));
    world.servers = Servers::Refuse;
    world.cut();
    world.advance(LIMIT);
    let end = SessionEnd::ExpiredLocally { paused: None };
    assert_eq!(watches.map(|n| world.fired(n).cloned()), [(); 4].map(|()| Some(Err(end))));
}

#[test]
fn local_expiry_counts_from_the_last_reply() {
    let mut world = World::up();
    world.advance(ms(1000));
    world.get("/a");
    world.advance(ms(900));
    world.serve_next(OpCode::GetData);
    world.servers = Servers::Refuse;
    world.cut();
    world.advance_to(ms(1900) + LIMIT - ms(1));
    assert_eq!(world.end(), None);
    world.advance(ms(1));
    assert_eq!(world.end(), Some(SessionEnd::ExpiredLocally { paused: None }));
}

#[test]
fn local_expiry_counts_from_the_handshake_reply() {
    let mut world = World::new();
    world.open();
    world.advance(ms(900));
    world.respond(&acceptance(6000));
    world.servers = Servers::Refuse;
    world.cut();
    world.advance_to(ms(900) + LIMIT - ms(1));
    assert_eq!(world.end(), None);
    world.advance(ms(1));
    assert_eq!(world.end(), Some(SessionEnd::ExpiredLocally { paused: None }));
}

#[test]
fn connection_without_replies_is_closed_before_expiry() {
    let mut world = World::up();
    for _ in 0..11 {
        world.advance(ms(500));
        world.notify(proto::EventType::NODE_CREATED, "/x");
    }
    world.advance(ms(499));
    assert!(world.session.is_connected());
    world.advance(ms(1)); // two thirds of the timeout after the ping
    assert_eq!(world.cause(), DisconnectReason::RequestTimeout);
    world.servers = Servers::Refuse;
    world.advance_to(LIMIT - ms(1));
    assert_eq!(world.end(), None);
    world.advance(ms(1));
    assert_eq!(world.end(), Some(SessionEnd::ExpiredLocally { paused: None }));
}

#[test]
fn reconnect_in_time_restarts_the_expiry_clock() {
    let mut world = World::up();
    world.servers = Servers::Refuse;
    world.cut();
    world.advance(ms(6500));
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
    let (mut answered, mut heard) = (0, world.now());
    while answered < 1000 {
        world.advance(ms(20));
        assert_eq!(world.end(), None, "{answered} answers");
        let frame = world.frames.pop_front().unwrap();
        match frame.op {
            OpCode::Ping => world.deliver(&crate::harness::pong()),
            OpCode::Sync => world.serve(&frame),
            _ => {
                world.answer(&frame, Zxid(9), ErrorCode::NO_NODE, &());
                answered += 1;
            }
        }
        let last = [OpCode::Ping, OpCode::Sync].map(|op| world.times(op).last().copied());
        let last = last.into_iter().flatten().max().unwrap_or_default();
        assert!(
            world.now() - last.max(heard) <= T / 3 + ms(20),
            "a ping or a sync each third of the timeout"
        );
        heard = heard.max(last);
    }
    assert!(world.session.is_connected());
}
