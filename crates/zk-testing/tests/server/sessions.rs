//! How sessions live and end.

use std::time::Duration;

use bytes::Bytes;
use proto::{CloseSession, ConnectReply, ConnectRequest, CreateMode, GetEphemerals, Ping};

use crate::world::{World, request_for};

#[test]
fn expire_at_the_tick_after_their_timeout() {
    // Timeout 10 s, ticks of 2 s: (t + 10) rounded up to the next tick, never equal.
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
        assert_eq!(world.zk.zxid(), zxid + 1);
        assert!(world.closed(client.id).is_some());
        assert!(world.frame(client.id).is_none(), "and not a word");
        let session = client.session;
        let renewal = request_for(session.session_id, session.password);
        assert_eq!(world.try_connect(0, &renewal).1, Some(ConnectReply::Rejected));
    }
}

#[test]
fn outlive_their_connection() {
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
fn have_one_connection_and_the_newest_wins() {
    let mut world = World::new();
    let client = world.connect();
    let again = world.reconnect(0, &client);
    assert!(world.closed(client.id).is_some());
    assert!(world.closed(again.id).is_none());
    assert_eq!(world.zk.connection_of(client.session.session_id), Some(again.id));
}

#[test]
fn lose_their_connection_to_a_wrong_password_but_live_on() {
    let mut world = World::new();
    let client = world.connect();
    let id = client.session.session_id;
    let (other, reply) = world.try_connect(0, &request_for(id, Bytes::from_static(&[9; 16])));
    assert_eq!(reply, Some(ConnectReply::Rejected));
    assert!(world.closed(client.id).is_some() && world.closed(other).is_some());
    assert!(world.zk.is_alive(id));
    world.reconnect(0, &client);
}

#[test]
fn negotiate_their_timeout_again_at_every_connect() {
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
fn that_are_closed_take_their_nodes_along_and_answer_nothing_more() {
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
fn list_their_own_ephemeral_nodes_by_prefix() {
    let mut world = World::new();
    let (client, other) = (world.connect(), world.connect());
    for path in ["/a", "/ab", "/b"] {
        world.create_as(&client, path, CreateMode::Ephemeral).unwrap();
    }
    world.create_as(&other, "/abc", CreateMode::Ephemeral).unwrap();
    for (prefix, expected) in [("/a", 2), ("", 3), ("/", 3), ("/c", 0)] {
        let reply = world.call(&client, &GetEphemerals { prefix: prefix.into() }).unwrap();
        assert_eq!(reply.paths.len(), expected, "{prefix:?}");
    }
}

#[test]
fn all_expire_on_a_server_that_stood_still_too_long() {
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
