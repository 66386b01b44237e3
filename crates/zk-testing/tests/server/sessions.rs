//! Tests of the life and the end of sessions.

use std::time::Duration;

use bytes::Bytes;
use proto::{CloseSession, ConnectReply, ConnectRequest, CreateMode, GetEphemerals, Ping, Zxid};

use crate::world::{World, request_for};

#[test]
fn session_expires_at_tick_after_its_timeout() {
    // With a timeout of 10 s and ticks of 2 s, expiry is the first tick strictly after t + 10 s.
    for (heard_ms, expires_ms) in [(0, 12_000), (1, 12_000), (1_999, 12_000), (2_000, 14_000)] {
        let mut world = World::new();
        let client = world.connect();
        world.create_as(&client, "/e", CreateMode::Ephemeral).unwrap();
        world.pass_ms(heard_ms);
        world.call(&client, &Ping).unwrap();
        let start = world.now - Duration::from_millis(heard_ms);
        assert_eq!(world.zk.poll_timeout(), Some(start + Duration::from_millis(expires_ms)));
        world.pass_ms(expires_ms - heard_ms - 1);
        assert!(world.zk.tree().contains("/e"));
        let zxid = world.zk.zxid();
        world.pass_ms(1);
        assert!(!world.zk.is_alive(client.session.session_id));
        assert!(!world.zk.tree().contains("/e"));
        assert_eq!(world.zk.zxid(), Zxid(zxid.0 + 1));
        assert!(world.closed(client.id).is_some());
        assert!(world.frame(client.id).is_none(), "and not a word");
        let session = client.session;
        let renewal = request_for(session.session_id, session.password);
        assert_eq!(
            world.try_connect(0, &renewal).1,
            Some(ConnectReply::Rejected { read_only: Some(false) })
        );
    }
}

#[test]
fn session_outlives_its_connection() {
    let mut world = World::new();
    let client = world.connect();
    world.create_as(&client, "/e", CreateMode::Ephemeral).unwrap();
    world.zk.disconnected(world.now, client.id);
    world.pass_ms(9_999);
    let again = world.reconnect(0, &client);
    world.pass_ms(9_999);
    assert!(world.zk.tree().contains("/e"));
    assert!(world.set(&again, "/e", -1).is_ok());
}

#[test]
fn reconnect_closes_earlier_connection_of_session() {
    let mut world = World::new();
    let client = world.connect();
    let again = world.reconnect(0, &client);
    assert!(world.closed(client.id).is_some());
    assert!(world.closed(again.id).is_none());
    assert_eq!(world.zk.connection_of(client.session.session_id), Some(again.id));
}

#[test]
fn wrong_password_closes_connections_but_session_lives() {
    let mut world = World::new();
    let client = world.connect();
    let id = client.session.session_id;
    let (other, reply) = world.try_connect(0, &request_for(id, Bytes::from_static(&[9; 16])));
    assert_eq!(reply, Some(ConnectReply::Rejected { read_only: Some(false) }));
    assert!(world.closed(client.id).is_some() && world.closed(other).is_some());
    assert!(world.zk.is_alive(id));
    world.reconnect(0, &client);
}

#[test]
fn reconnect_negotiates_timeout_again() {
    let mut world = World::new();
    let client = world.connect();
    let session = &client.session;
    let renewal = request_for(session.session_id, session.password.clone());
    let renewal = ConnectRequest { timeout_ms: 4_000, ..renewal };
    let (_, Some(ConnectReply::Accepted(renewed))) = world.try_connect(0, &renewal) else {
        panic!("not renewed");
    };
    assert_eq!(renewed.timeout_ms, 4_000);
    world.pass_ms(6_000);
    assert!(!world.zk.is_alive(renewed.session_id));
}

#[test]
fn closed_session_deletes_its_nodes_and_answers_nothing_more() {
    let mut world = World::new();
    let (client, other) = (world.connect(), world.connect());
    world.create_as(&client, "/e", CreateMode::Ephemeral).unwrap();
    world.create_as(&other, "/other", CreateMode::Ephemeral).unwrap();
    let mut bytes = bytes::BytesMut::new();
    proto::encode_request(1, &CloseSession, &mut bytes);
    proto::encode_request(2, &Ping, &mut bytes);
    world.write(client.id, &bytes);
    let (header, _) = world.reply(&client).unwrap();
    assert_eq!((header.xid, header.zxid), (1, world.zk.zxid()));
    assert!(world.reply(&client).is_none());
    assert!(world.closed(client.id).is_some());
    assert_eq!(world.stat(&other, "/").unwrap().pzxid, world.zk.zxid());
    assert!(world.zk.tree().contains("/other"));
    assert_eq!(world.zk.sessions().count(), 1);
}

#[test]
fn get_ephemerals_lists_own_nodes_by_prefix() {
    let mut world = World::new();
    let (client, other) = (world.connect(), world.connect());
    for path in ["/a", "/ab", "/b"] {
        world.create_as(&client, path, CreateMode::Ephemeral).unwrap();
    }
    world.create_as(&other, "/abc", CreateMode::Ephemeral).unwrap();
    // Blanks count only if the prefix has nothing else but a slash.
    for (prefix, expected) in [
        ("/a", 2),
        ("", 3),
        ("/", 3),
        ("/c", 0),
        ("/a/", 0),
        ("\t ", 3),
        (" /\u{1}", 3),
        (" /a", 0),
        ("/a ", 0),
    ] {
        let reply = world.call(&client, &GetEphemerals { prefix: prefix.into() }).unwrap();
        assert_eq!(reply.paths.len(), expected, "{prefix:?}");
    }
}

#[test]
fn session_expires_when_stopped_server_resumes_too_late() {
    let mut world = World::new();
    let client = world.connect();
    world.zk.stall(world.now, 0);
    world.send(&client, &Ping);
    world.pass_ms(30_000);
    assert!(world.zk.is_alive(client.session.session_id), "nobody looks");
    world.zk.resume_server(world.now, 0);
    world.drain();
    assert!(!world.zk.is_alive(client.session.session_id));
    assert!(world.reply(&client).is_none());
    assert!(world.closed(client.id).is_some());
}
