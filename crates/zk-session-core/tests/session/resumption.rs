//! Resumption of the session on a new connection.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proto::{ErrorCode, EventType, KeeperState, OpCode, WatcherEvent, Zxid};
use zk_session_core::{DisconnectReason, SessionEvent};

use crate::harness::{World, ms};
use crate::script;
use crate::script::{ID, PASSWORD, acceptance};

#[test]
fn reconnect_presents_session_id_password_and_own_timeout() {
    let mut world = World::new();
    world.open();
    world.respond(&acceptance(4000));
    world.cut_for(DisconnectReason::Io(std::io::ErrorKind::ConnectionReset));
    world.open();
    let request = world.last_connect();
    assert_eq!(request.session_id, ID);
    assert_eq!(request.password, PASSWORD[..]);
    assert_eq!(request.timeout_ms, 6000, "not the one the server decided on");
    assert_eq!(request.read_only, Some(false));

    let mut response = acceptance(5000);
    response.password = Bytes::from_static(b"another");
    world.respond(&response);
    let events = world.events();
    assert!(matches!(
        events[..],
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

#[test]
fn debug_output_hides_password_and_credentials() {
    let mut world = World::up();
    world.auth("digest");
    let shown = format!("{:?}", world.session);
    assert!(shown.contains("hidden"));
    assert!(shown.contains("Outbound(2 frames, "), "a handshake and a request: {shown}");
    assert!(!shown.contains("0123456789abcdef") && !shown.contains("secret"));
    assert!(!shown.contains(&format!("{:?}", PASSWORD)));
}

#[test]
fn last_zxid_is_the_highest_of_the_request_replies() {
    let mut world = World::up();
    for zxid in [7, 12, 9, -1, 0] {
        world.get("/a");
        world.answer_next(OpCode::GetData, Zxid(zxid), ErrorCode::OK, &());
    }
    // All events of one transaction carry its zxid, so more of them may follow.
    let event = WatcherEvent {
        event_type: EventType::NODE_CREATED,
        state: KeeperState::SYNC_CONNECTED,
        path: "/a".to_owned(),
    };
    let mut out = BytesMut::new();
    script::reply(&mut out, -1, Zxid(99), ErrorCode::OK, &event);
    script::reply(&mut out, -2, Zxid(98), ErrorCode::OK, &());
    world.deliver(&out);
    world.reopen();
    assert_eq!(world.last_connect().last_zxid_seen, Zxid(12));
}

#[test]
fn error_reply_advances_the_last_zxid() {
    let mut world = World::up();
    world.get("/a");
    world.answer_next(OpCode::GetData, Zxid(31), ErrorCode::NO_NODE, &());
    world.reopen();
    assert_eq!(world.last_connect().last_zxid_seen, Zxid(31));
}

#[test]
fn failed_attempts_emit_no_events() {
    let mut world = World::up();
    world.cut();
    for _ in 0..5 {
        world.open();
        world.cut();
    }
    world.bring_up();
    assert_eq!(world.events().len(), 3);
    world.advance(ms(1));
}
