//! The handshake: the first frame in each direction.

use proto::ReplyHeader;
use zk_session_core::limits::{CONNECT_TIMEOUT_MIN, HANDSHAKE_LEN_MAX};

use crate::harness::prelude::*;

const REJECTED: DisconnectReason = DisconnectReason::Refused(ErrorCode::SESSION_EXPIRED);

#[test]
fn connect_request_for_a_new_session_is_encoded_exactly() {
    let mut world = World::new();
    world.open();
    let mut expected = vec![0, 0, 0, 45];
    expected.extend([0; 4]); // protocol version
    expected.extend([0; 8]); // last zxid seen
    expected.extend(6000_i32.to_be_bytes());
    expected.extend([0; 8]); // session id
    expected.extend([0, 0, 0, 16]);
    expected.extend([0; 16]);
    expected.push(0); // read-only servers are not accepted
    assert_eq!(world.transmitted[..], expected);
}

#[test]
fn handshake_reply_is_accepted_byte_by_byte() {
    for read_only in [None, Some(false)] {
        let mut world = World::new();
        world.open();
        let mut bytes = BytesMut::new();
        let response = ConnectResponse { read_only, ..acceptance(4000) };
        proto::encode_record(&response, &mut bytes);
        for byte in &bytes {
            assert!(!world.session.is_connected());
            world.deliver(&[*byte]);
        }
        assert!(world.session.is_connected());
        assert_eq!(world.session.session_id(), response.session_id);
        assert_eq!(world.session.session_timeout(), ms(4000));
        let events = world.events();
        assert!(
            matches!(events[..], [SessionEvent::Connected { timeout, .. }] if timeout == ms(4000))
        );
    }
}

#[test]
fn rejected_session_expires_and_fails_queued_requests() {
    let mut world = World::up();
    let sent = world.create("/a");
    world.cut();
    let queued = world.create("/b");
    world.open();
    world.respond(&rejection());
    assert_eq!(world.end(), Some(SessionEnd::Expired));
    assert_eq!(world.failure(queued).0, ended(SessionEnd::Expired));
    assert!(world.failure(sent).0 != ended(SessionEnd::Expired));
    let last = world.events().pop();
    assert!(matches!(last, Some(SessionEvent::Expired { cause: SessionEnd::Expired, .. })));
}

#[test]
fn rejection_by_a_read_only_server_does_not_end_the_session() {
    let mut world = World::up();
    world.cut();
    let queued = world.create("/a");
    world.open();
    world.respond(&ConnectResponse { read_only: Some(true), ..rejection() });
    assert_eq!((world.end(), world.cause()), (None, REJECTED));
    world.bring_up();
    world.serve_next(OpCode::Create2);
    assert!(world.is_ok(queued));
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
}

#[test]
fn new_session_is_requested_again_after_a_rejection() {
    let mut world = World::new();
    let waiting = world.get("/a");
    for _ in 0..5 {
        world.open();
        world.respond(&rejection());
        assert_eq!((world.end(), world.cause(), world.wire), (None, REJECTED, Wire::Down));
    }
    assert_eq!(world.events(), []);
    world.bring_up();
    world.serve_next(OpCode::GetData);
    assert!(world.is_ok(waiting));
}

#[test]
fn handshake_reply_of_16_bytes_is_read_as_a_refusal() {
    let mut world = World::new();
    world.open();
    let header = ReplyHeader { xid: 0, zxid: Zxid::ZERO, err: ErrorCode::NOT_READ_ONLY };
    let mut out = BytesMut::new();
    proto::encode_record(&header, &mut out);
    world.deliver(&out);
    assert_eq!(world.cause(), DisconnectReason::Refused(ErrorCode::NOT_READ_ONLY));
    world.bring_up();
}

#[test]
fn read_only_server_is_rejected_and_its_session_discarded() {
    let mut world = World::new();
    world.open_with(|response| response.read_only = Some(true));
    assert_eq!(world.cause(), DisconnectReason::ReadOnly);
    assert_eq!(world.session.session_id(), SessionId::NONE);
    world.open();
    assert_eq!(world.last_connect().session_id, SessionId::NONE);
}

#[test]
fn handshake_reply_without_a_session_id_is_rejected() {
    let mut world = World::up();
    let id = world.session.session_id();
    world.cut();
    world.open_with(|response| response.session_id = SessionId::NONE);
    assert_eq!(world.cause(), DisconnectReason::NoSessionId);
    assert_eq!(world.session.session_id(), id);
}

#[test]
fn requests_are_sent_in_order_after_the_handshake_reply() {
    let mut world = World::new();
    let first = world.create("/1");
    world.open();
    let second = world.get("/2");
    world.auth("digest");
    world.claim();
    let third = world.set("/3");
    world.delete_guaranteed("/4");
    world.advance(T / 3 - ms(1));
    assert_eq!(world.transmitted.len(), 49, "the connect request and nothing else");

    world.respond(&acceptance(6000));
    use OpCode::{Auth, Create2, Delete, GetData, Multi, SetData};
    assert_eq!(world.ops(), [Auth, Multi, Create2, GetData, SetData, Delete]);
    let xids: Vec<i32> = world.frames.iter().map(|frame| frame.xid).collect();
    assert_eq!(xids, [1, 2, 3, 4, 5, 6]);
    assert_eq!([first, second, third].map(|n| world.reply(n)), [None; 3]);
}

/// Java divides the session timeout by the number of servers. With nine servers, that leaves no
/// time for a slow name lookup.
#[test]
fn silent_server_is_left_after_its_share_of_the_timeout() {
    for (servers, timeout, limit) in [(3, T, T / 3), (9, ms(4000), CONNECT_TIMEOUT_MIN)] {
        let mut world = World::with(|settings| {
            settings.hosts = hosts(servers);
            settings.session_timeout = timeout;
        });
        world.servers = Servers::Silent;
        world.tick();
        let left = world.advance_until(|world| world.session.last_disconnect().is_some());
        assert_eq!((left, world.cause()), (limit, DisconnectReason::IdleTimeout));
        world.advance(ms(20));
        let [(_, first), (_, second)] = &world.attempts()[..] else { panic!() };
        assert_ne!(first, second);
    }
}

#[test]
fn invalid_first_frame_closes_the_connection() {
    for bytes in [&[0, 0, 0, 3, 1, 2, 3][..], &[0, 0, 0, 0], &[0xff; 4]] {
        let mut world = World::new();
        world.open();
        world.deliver(bytes);
        assert!(matches!(
            world.cause(),
            DisconnectReason::ProtocolError(_) | DisconnectReason::FrameTooLarge
        ));
        assert!(!world.session.is_connected());
    }
}

#[test]
fn oversized_handshake_reply_is_rejected_and_discarded() {
    let mut world = World::new();
    for len in [HANDSHAKE_LEN_MAX, 2 << 20] {
        world.open_with(|response| response.password = vec![1; len].into());
        assert!(!world.session.is_connected());
        assert_eq!(world.cause(), DisconnectReason::FrameTooLarge);
    }
    world.open();
    assert_eq!(world.last_connect().password[..], [0; 16]);
    world.respond(&acceptance(6000));
    assert!(world.session.is_connected());
}

#[test]
fn silent_only_server_is_retried_before_the_lease_ends() {
    // A ZooKeeper server that is starting may accept a connection and never answer on it.
    let mut world = World::served();
    world.claim();
    world.prove();
    world.cut();
    let before = world.attempts().len();
    world.servers = Servers::Silent;
    world.advance(T * 2 / 5);
    assert_eq!(world.attempts().len() - before, 3, "the third one in time");
    assert!(world.lease().is_some());
}
