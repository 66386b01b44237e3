//! Authentication: credentials, and the replies to them.

use proto::AuthPacket;
use zk_session_core::limits::{CREDENTIALS_MAX, REQUESTS_MAX};

use crate::harness::prelude::*;

#[test]
fn credentials_are_sent_in_order_on_every_connection() {
    let mut world = World::new();
    let early = world.auth("one");
    world.bring_up();
    let late = world.auth("two");
    world.accept(OpCode::Auth);
    world.take(OpCode::Auth);
    world.cut();
    assert!(world.is_ok(early) && world.reply(late).is_none(), "it is sent again");
    for _ in 0..2 {
        world.get("/a");
        world.bring_up();
        for scheme in ["one", "two"] {
            let frame = world.frames[0].clone();
            let packet: AuthPacket<'_> = frame.read();
            assert_eq!(
                (&*packet.scheme, packet.auth.as_deref()),
                (scheme, Some(&b"user:secret"[..]))
            );
            world.accept(OpCode::Auth);
        }
        world.take(OpCode::GetData);
        world.cut();
    }
    assert!(world.is_ok(late));
}

#[test]
fn refused_credentials_end_the_session() {
    let mut world = World::up();
    let write = world.create("/a");
    let auth = world.auth("digest");
    world.take(OpCode::Create2);
    world.reject(OpCode::Auth, ErrorCode::AUTH_FAILED);
    assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
    assert_eq!(*world.failure(auth), (ended(SessionEnd::AuthFailed), Outcome::NotApplied));
    assert_eq!(world.outcome(write), Outcome::Unknown);
    assert!(matches!(world.events().last(), Some(SessionEvent::AuthFailed { .. })));
    let after = world.try_submit(&create("/a"), None);
    assert_eq!(after.unwrap_err().0, ended(SessionEnd::AuthFailed));

    let mut world = World::up();
    world.auth("digest");
    world.accept(OpCode::Auth);
    world.cut();
    let queued = world.get("/a");
    world.bring_up();
    world.reject(OpCode::Auth, ErrorCode::AUTH_FAILED);
    assert_eq!(
        world.failure(queued).0,
        ended(SessionEnd::AuthFailed),
        "on a later connection, too"
    );
}

#[test]
fn auth_error_other_than_auth_failed_keeps_the_session() {
    let mut world = World::up();
    let auth = world.auth("digest");
    world.reject(OpCode::Auth, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(world.failure(auth).0, ErrorKind::Server(ErrorCode::MARSHALLING_ERROR));
    assert!(world.session.is_connected());
}

#[test]
fn credentials_are_limited_and_duplicates_share_one_request() {
    let mut world = World::up();
    let numbers: Vec<u32> = (0..CREDENTIALS_MAX + 1).map(|_| world.auth("digest")).collect();
    world.accept(OpCode::Auth);
    assert_eq!(world.ops(), []);
    assert!(numbers.iter().all(|n| world.is_ok(*n)));
    let again = world.auth("digest");
    world.accept(OpCode::Auth);
    assert!(world.is_ok(again));
    world.reconnect();
    assert_eq!(world.ops(), [OpCode::Auth], "once on each connection");
    for n in 1..CREDENTIALS_MAX {
        world.auth(&format!("scheme-{n}"));
    }
    let refused = world.try_auth("one-more", Bytes::new());
    assert!(matches!(refused, Err((ErrorKind::LimitReached(Limit::Credentials), _))));
}

#[test]
fn auth_timeout_of_one_caller_leaves_the_other_waiting() {
    let mut world = World::up();
    let to = world.number();
    let soon = ReplyTo { to: to.clone(), deadline: Some(world.instant() + ms(500)) };
    let asked = world.session.add_credential(world.instant(), "digest", "user:secret".into(), soon);
    let one = world.admitted(to, asked).unwrap();
    let other = world.auth("digest");
    world.advance(ms(500));
    assert_eq!(world.failure(one).0, ErrorKind::TimedOut);
    world.accept(OpCode::Auth);
    assert!(world.is_ok(other));
}

/// Callers that stop waiting make room. Their credentials stay with the session.
#[test]
fn callers_that_wait_for_credentials_are_limited() {
    let mut world = World::up();
    let first = world.auth("digest");
    for _ in 1..REQUESTS_MAX {
        world.auth("digest");
    }
    let limit = Err((ErrorKind::LimitReached(Limit::Requests), Outcome::NotApplied));
    assert_eq!(world.try_auth("digest", "user:secret".into()), limit);
    world.abandon(first);
    world.auth("digest");
    assert_eq!(world.try_auth("digest", "user:secret".into()), limit);
    world.take(OpCode::Auth);
    assert_eq!(world.ops(), []);
}
