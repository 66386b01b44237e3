//! Tests of the connect exchange and of frames that end a connection.

use bytes::{Bytes, BytesMut};
use proto::{
    ConnectReply, ConnectRequest, ConnectResponse, ErrorCode, Exists, SessionId, Zxid,
    encode_record, encode_request,
};
use zk_testing::{ConnectionId, Settings, Switch};

use crate::world::{World, new_session, request_for};

#[test]
fn session_ids_have_server_layout_and_own_passwords() {
    let mut world = World::new();
    let (first, second) = (world.connect().session, world.connect().session);
    assert_eq!(first.session_id.0 >> 56, 1);
    assert_eq!(first.session_id.0 & 0xffff, 0);
    assert_eq!(second.session_id, SessionId(first.session_id.0 + 1));
    assert_eq!((first.password.len(), first.read_only), (16, Some(false)));
    assert_ne!(first.password, second.password);
}

#[test]
fn connection_without_connect_request_is_closed_after_10_s() {
    let mut world = World::new();
    let id = world.open(0);
    world.write(id, &[0, 0]);
    world.pass_ms(9_999);
    assert!(world.closed(id).is_none());
    world.pass_ms(10_001);
    assert!(world.closed(id).is_some());
}

#[test]
fn excess_connection_from_one_address_is_closed_at_once() {
    let mut world = World::with(Settings::new().max_client_connections(2));
    world.connect();
    world.connect();
    let third = world.open(0);
    assert!(world.closed(third).is_some());
}

#[test]
fn read_only_server_accepts_only_read_only_clients() {
    let mut world = World::new();
    let before = world.connect();
    world.zk.read_only(world.now, 0, Switch::On);
    assert!(world.closed(before.id).is_some());
    assert_eq!(world.try_connect(0, &new_session()).1, None);

    let request = ConnectRequest { read_only: Some(true), ..new_session() };
    let (id, Some(ConnectReply::Accepted(session))) = world.try_connect(0, &request) else {
        panic!("refused");
    };
    assert_eq!(session.read_only, Some(true));
    let client = crate::world::Client { id, session };
    assert!(world.stat(&client, "/").is_ok());
    assert_eq!(world.create(&client, "/a").unwrap_err(), ErrorCode::NOT_READ_ONLY);
    let sync = proto::Sync { path: "/".into() };
    assert_eq!(world.call(&client, &sync).unwrap_err(), ErrorCode::NOT_READ_ONLY);
    let multi = proto::Multi::new(&[]);
    assert_eq!(world.call(&client, &multi).unwrap_err(), ErrorCode::NOT_READ_ONLY);
    assert_eq!(world.zk.zxid(), Zxid(1));

    // The session from before may live on other servers, so the server refuses it without a reply.
    let old = request_for(before.session.session_id, before.session.password.clone());
    let old = ConnectRequest { read_only: Some(true), ..old };
    assert_eq!(world.try_connect(0, &old).1, None);

    world.zk.read_only(world.now, 0, Switch::Off);
    assert!(world.closed(id).is_some());
    world.reconnect(0, &before);
}

#[test]
fn read_only_server_never_grants_a_local_session_id_twice() {
    let mut world = World::new();
    let mut granted = std::collections::BTreeSet::new();
    for _ in 0..2 {
        world.zk.read_only(world.now, 0, Switch::On);
        let kept = connect_read_only(&mut world, SessionId::NONE, &[0; 16]).1.unwrap();
        let (id, closed) = connect_read_only(&mut world, SessionId::NONE, &[0; 16]);
        let closed = crate::world::Client { id, session: closed.unwrap() };
        world.call(&closed, &proto::CloseSession).unwrap();
        let last = connect_read_only(&mut world, SessionId::NONE, &[0; 16]).1.unwrap();
        granted.extend([kept.session_id, closed.session.session_id, last.session_id]);
        world.zk.read_only(world.now, 0, Switch::Off);
    }
    assert_eq!(granted.len(), 6);
}

#[test]
fn read_only_server_rejects_sessions_that_it_does_not_have() {
    let mut world = World::new();
    let ended = world.connect();
    world.call(&ended, &proto::CloseSession).unwrap();
    world.zk.read_only(world.now, 0, Switch::On);
    let ended = ended.session;
    let request =
        ConnectRequest { read_only: Some(true), ..request_for(ended.session_id, ended.password) };
    let rejected = ConnectReply::Rejected { read_only: Some(true) };
    assert_eq!(world.try_connect(0, &request).1, Some(rejected));

    // A local session lives on, until it is closed.
    let (id, session) = connect_read_only(&mut world, SessionId::NONE, &[0; 16]);
    let session = session.unwrap();
    let (again, renewed) = connect_read_only(&mut world, session.session_id, &session.password);
    assert_eq!(renewed.unwrap().session_id, session.session_id);
    assert!(world.closed(id).is_some() && world.closed(again).is_none());
    assert!(connect_read_only(&mut world, session.session_id, &[0; 16]).1.is_none());
}

#[test]
fn read_only_server_takes_unknown_sessions_for_alive() {
    let mut world = World::with(Settings::new().without_local_sessions());
    let ended = world.connect();
    world.call(&ended, &proto::CloseSession).unwrap();
    world.zk.read_only(world.now, 0, Switch::On);
    let ended = ended.session;
    let (id, session) = connect_read_only(&mut world, ended.session_id, &ended.password);
    let client = crate::world::Client { id, session: session.unwrap() };
    assert!(world.stat(&client, "/").is_ok());
    let error = world.call(&client, &proto::CloseSession).unwrap_err();
    assert_eq!(error, ErrorCode::NOT_READ_ONLY);
}

fn connect_read_only(
    world: &mut World,
    session_id: SessionId,
    password: &[u8],
) -> (ConnectionId, Option<ConnectResponse>) {
    let request = request_for(session_id, Bytes::copy_from_slice(password));
    let request = ConnectRequest { read_only: Some(true), ..request };
    match world.try_connect(0, &request) {
        (id, Some(ConnectReply::Accepted(session))) => (id, Some(session)),
        (id, _) => (id, None),
    }
}

#[test]
fn read_only_server_without_local_sessions_sends_bare_header() {
    let mut world = World::with(Settings::new().without_local_sessions());
    world.zk.read_only(world.now, 0, Switch::On);
    let request = ConnectRequest { read_only: Some(true), ..new_session() };
    let (_, reply) = world.try_connect(0, &request);
    assert_eq!(reply, Some(ConnectReply::Refused(ErrorCode::NOT_READ_ONLY)));
}

#[test]
fn null_sasl_token_closes_the_connection() {
    let mut world = World::new();
    let client = world.connect();
    let null = (-1_i32).to_be_bytes();
    assert_eq!(world.call_raw(&client, proto::OpCode::Sasl.code(), &null), None);
    assert!(world.closed(client.id).is_some());
}

#[test]
fn requests_are_parsed_from_pieces_of_any_length() {
    let mut bytes = BytesMut::new();
    encode_record(&new_session(), &mut bytes);
    encode_request(7, &Exists { path: "/".into(), watch: false }, &mut bytes);
    for len in [1, bytes.len()] {
        let mut world = World::new();
        let id = world.open(0);
        bytes.chunks(len).for_each(|piece| world.write(id, piece));
        assert!(world.frame(id).is_some() && world.frame(id).is_some());
    }
}

#[test]
fn longest_frame_is_awaited_and_an_invalid_one_is_not() {
    for (len, is_closed) in [(0xf_ffff, false), (0x10_0000, true), (i32::MIN, true)] {
        let mut world = World::new();
        let client = world.connect();
        world.write(client.id, &len.to_be_bytes());
        assert_eq!(world.closed(client.id).is_some(), is_closed, "{len}");
    }
}
