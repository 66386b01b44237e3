//! Resumption of the session on a new connection.

use crate::harness::prelude::*;
use crate::script;

#[test]
fn reconnect_presents_session_id_password_and_own_timeout() {
    let mut world = World::new();
    world.open_with(|response| response.timeout_ms = 4000);
    world.cut_for(DisconnectReason::Io(std::io::ErrorKind::ConnectionReset));
    world.open();
    let request = world.last_connect();
    assert_eq!((request.session_id, &request.password[..]), (ID, &PASSWORD[..]));
    assert_eq!(request.timeout_ms, 6000, "not the one the server decided on");
    assert_eq!(request.read_only, Some(false));

    world.respond(&ConnectResponse { password: "another".into(), ..acceptance(5000) });
    assert!(matches!(
        world.events()[..],
        [
            SessionEvent::Connected { session_id: ID, .. },
            SessionEvent::Suspended { session_id: ID, .. },
            SessionEvent::Reconnected { session_id: ID, timeout, .. },
            SessionEvent::TimeoutChanged { session_id: ID, before, timeout: changed },
        ] if timeout == Duration::from_secs(5)
            && (before, changed) == (Duration::from_secs(4), timeout)
    ));
    assert_eq!(world.session.last_disconnect(), None);
    world.reopen();
    assert_eq!(world.last_connect().password, b"another"[..]);
}

/// Of requests, of replies, and of credentials that were not sent yet.
#[test]
fn debug_output_hides_password_and_credentials() {
    let mut waiting = World::up();
    let (to, now) = (waiting.number(), waiting.instant());
    let auth = waiting.session.add_credential(now, "digest", "user:secret".into(), to.clone());
    let unsent = format!("{:?}", waiting.session);
    assert!(unsent.contains("Auth(hidden)"), "{unsent}");
    waiting.admitted(to, auth).unwrap();
    let sent = format!("{:?}", waiting.session);
    assert!(sent.contains("Outbound(2 frames, "), "a handshake and a request: {sent}");
    let mut greeted = World::up();
    greeted.cut();
    greeted.tick();
    greeted.session.handle_connected(greeted.instant());
    let handshake = format!("{:?}", greeted.session);
    let (text, numbers) = (std::str::from_utf8(PASSWORD).unwrap(), format!("{PASSWORD:?}"));
    for printed in [
        unsent,
        sent,
        handshake,
        format!("{:#?}", waiting.session),
        format!("{:?}", waiting.session.credentials()),
    ] {
        assert!(printed.contains("hidden"), "{printed}");
        for secret in [text, numbers.trim_matches(['[', ']']), "secret"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}

#[test]
fn last_zxid_is_the_highest_of_the_request_replies() {
    let mut world = World::up();
    for (zxid, code) in [(7, ErrorCode::OK), (12, ErrorCode::NO_NODE), (9, ErrorCode::OK)] {
        world.get("/a");
        world.answer_next(OpCode::GetData, Zxid(zxid), code, &());
    }
    for zxid in [-1, 0] {
        world.get("/a");
        world.answer_next(OpCode::GetData, Zxid(zxid), ErrorCode::OK, &());
    }
    // All events of one transaction carry its zxid, so more of them may follow.
    world.notify_of(Zxid(99), EventType::NODE_CREATED, "/a");
    let mut out = BytesMut::new();
    script::reply(&mut out, -2, Zxid(98), ErrorCode::OK, &());
    world.deliver(&out);
    world.reopen();
    assert_eq!(world.last_connect().last_zxid_seen, Zxid(12));
}
