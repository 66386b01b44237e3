//! Tests of the life and the end of sessions.

use std::time::Duration;

use proto::{CloseSession, ConnectReply, CreateMode, Ping, Zxid};

use crate::world::{World, request_for};

#[test]
fn session_expires_at_tick_after_its_timeout() {
    // With a timeout of 10 s and ticks of 2 s, expiry is the first tick strictly after t + 10 s.
    for (heard_ms, expires_ms) in [(0, 12_000), (1, 12_000), (1_999, 12_000), (2_000, 14_000)] {
        let mut world = World::new();
        let client = world.connect();
        world.create_as(&client, "/e", CreateMode::Ephemeral).unwrap();
        world.pass_ms(heard_ms);
        world.ping(&client);
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
fn closed_session_answers_nothing_more() {
    let mut world = World::new();
    let client = world.connect();
    let mut bytes = bytes::BytesMut::new();
    proto::encode_request(1, &CloseSession, &mut bytes);
    proto::encode_request(2, &Ping, &mut bytes);
    world.write(client.id, &bytes);
    assert_eq!(world.reply(&client).unwrap().0.xid, 1);
    assert!(world.reply(&client).is_none() && world.closed(client.id).is_some());
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
    assert!(!world.zk.is_alive(client.session.session_id));
    assert!(world.reply(&client).is_none());
    assert!(world.closed(client.id).is_some());
}
