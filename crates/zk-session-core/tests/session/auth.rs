//! Authentication: credentials, and the replies to them.

use bytes::Bytes;
use proto::{AuthPacket, ErrorCode, OpCode, SessionId, Zxid};
use zk_session_core::ReplyTo;
use zk_session_core::limits::CREDENTIALS_MAX;
use zk_session_core::{ErrorKind, Outcome, SessionCredentials, SessionEnd, SessionEvent};

use crate::harness::{World, ended, ms};

#[test]
fn credentials_are_sent_in_order_on_every_connection() {
    let mut world = World::new();
    let early = world.auth("one");
    world.bring_up();
    let late = world.auth("two");
    for n in [early, late] {
        let frame = world.take(OpCode::Auth);
        world.answer(&frame, Zxid::ZERO, ErrorCode::OK, &());
        assert!(world.is_ok(n));
    }
    for _ in 0..2 {
        world.cut();
        world.get("/a");
        world.bring_up();
        for scheme in ["one", "two"] {
            let frame = world.take(OpCode::Auth);
            let packet: AuthPacket<'_> = frame.read();
            assert_eq!(packet.scheme, scheme);
            assert_eq!(packet.auth.as_deref(), Some(&b"user:secret"[..]));
            world.answer(&frame, Zxid::ZERO, ErrorCode::OK, &());
        }
        world.take(OpCode::GetData);
    }
    world.finish();
}

#[test]
fn auth_is_repeated_on_the_next_connection_after_a_loss() {
    let mut world = World::up();
    let auth = world.auth("digest");
    world.cut();
    assert_eq!(world.reply(auth), None);
    world.bring_up();
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, Zxid::ZERO, ErrorCode::OK, &());
    assert!(world.is_ok(auth));
    world.finish();
}

#[test]
fn refused_credentials_end_the_session() {
    let mut world = World::up();
    let write = world.create("/a");
    let auth = world.auth("digest");
    world.take(OpCode::Create2);
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, Zxid::ZERO, ErrorCode::AUTH_FAILED, &());
    assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
    assert_eq!(*world.failure(auth), (ended(SessionEnd::AuthFailed), Outcome::NotApplied));
    assert_eq!(world.outcome(write), Outcome::Unknown);
    let last = world.events().pop().unwrap();
    assert!(matches!(last, SessionEvent::AuthFailed { .. }));
    let attempts = world.attempts().len();
    world.advance(ms(60_000));
    assert_eq!(world.attempts().len(), attempts, "nothing is tried again");
    let after = world.try_submit(&crate::harness::get("/a", false), None);
    assert_eq!(after.unwrap_err().0, ended(SessionEnd::AuthFailed));
    world.finish();
}

#[test]
fn auth_error_other_than_auth_failed_keeps_the_session() {
    let mut world = World::up();
    let auth = world.auth("digest");
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, Zxid::ZERO, ErrorCode::MARSHALLING_ERROR, &());
    assert_eq!(world.failure(auth).0, ErrorKind::Server(ErrorCode::MARSHALLING_ERROR));
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn auth_refused_on_a_later_connection_ends_the_session() {
    let mut world = World::up();
    world.auth("digest");
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, Zxid::ZERO, ErrorCode::OK, &());
    world.cut();
    let queued = world.get("/a");
    world.bring_up();
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, Zxid::ZERO, ErrorCode::AUTH_FAILED, &());
    assert_eq!(world.failure(queued).0, ended(SessionEnd::AuthFailed));
    world.finish();
}

#[test]
fn duplicate_pending_credentials_share_one_auth_request() {
    let mut world = World::up();
    let numbers: Vec<u32> = (0..CREDENTIALS_MAX + 1).map(|_| world.auth("digest")).collect();
    let auth = world.take(OpCode::Auth);
    assert_eq!(world.ops(), []);
    world.answer(&auth, Zxid::ZERO, ErrorCode::OK, &());
    assert!(numbers.iter().all(|n| world.is_ok(*n)));
    let again = world.auth("digest");
    let auth = world.take(OpCode::Auth);
    world.answer(&auth, Zxid::ZERO, ErrorCode::OK, &());
    assert!(world.is_ok(again));
    world.cut();
    world.bring_up();
    assert_eq!(world.ops(), [OpCode::Auth], "once on each connection");
    world.finish();
}

#[test]
fn auth_timeout_of_one_caller_leaves_the_other_waiting() {
    let mut world = World::up();
    let to = world.number();
    let soon = ReplyTo { to: to.clone(), deadline: Some(world.instant() + ms(500)) };
    let asked = world.session.add_credential(world.instant(), "digest", "x".into(), soon);
    let one = world.admitted(to, asked).unwrap();
    let to = world.number();
    let asked = world.session.add_credential(world.instant(), "digest", "x".into(), to.clone());
    let other = world.admitted(to, asked).unwrap();
    world.advance(ms(500));
    assert_eq!(world.failure(one).0, ErrorKind::TimedOut);
    let auth = world.take(OpCode::Auth);
    world.answer(&auth, Zxid::ZERO, ErrorCode::OK, &());
    assert!(world.is_ok(other));
    world.finish();
}

#[test]
fn unsent_credentials_and_password_are_hidden_in_debug() {
    let mut world = World::up();
    let to = world.number();
    let secret = Bytes::from_static(b"alice:geheim");
    world.session.add_credential(world.instant(), "digest", secret, to).unwrap();
    let printed = format!("{:?}", world.session);
    assert!(!printed.contains("geheim"), "{printed}");

    let mut world = World::with(|settings| {
        settings.resume =
            Some(SessionCredentials::new(SessionId(7), *b"0123456789abcdef", Zxid::ZERO));
    });
    world.tick();
    world.session.handle_connected(world.instant());
    let printed = format!("{:?}", world.session);
    assert!(!printed.contains("0123456789abcdef"), "{printed}");
}
