//! Tests of ensembles with healthy, cut off and late followers.

use std::time::Duration;

use proto::{
    CloseSession, ConnectRequest, CreateMode, Delete, EventType, Exists, GetData, Multi, MultiOp,
    Ping, Sync, Zxid,
};
use zk_testing::Settings;

use crate::world::{Client, World, create, new_session, set};

fn ensemble() -> World {
    World::with(Settings::new().servers(3))
}

#[test]
fn all_servers_have_same_tree_and_notify_own_clients() {
    let mut world = ensemble();
    let clients = [world.connect_to(0), world.connect_to(1), world.connect_to(2)];
    for client in &clients {
        let exists = Exists { path: "/a".into(), watch: true };
        world.call(client, &exists).unwrap_err();
    }
    let made = world.create(&clients[1], "/a").unwrap().stat;
    assert_eq!(made.czxid.0 >> 32, 1, "the first epoch");
    for client in &clients {
        assert_eq!(world.stat(client, "/a"), Ok(made));
        assert_eq!(world.events(client), [(EventType::NODE_CREATED, "/a".to_owned())]);
    }
    world.call(&clients[2], &Sync { path: "/a".into() }).unwrap();
}

#[test]
fn write_on_old_connection_of_moved_session_is_lost() {
    for from in 0..3 {
        let mut world = ensemble();
        let old = world.connect_to(from);
        let new = world.reconnect((from + 1) % 3, &old);
        let zxid = world.zk.zxid();
        world.send(&old, &create("/a", CreateMode::Persistent));
        assert!(world.reply(&old).is_none());
        assert!(world.closed(old.id).is_some());
        assert_eq!(world.zk.zxid(), Zxid(zxid.0 + 1), "the error is a transaction");
        assert!(world.create(&new, "/a").is_ok());
    }
}

#[test]
fn multi_on_old_connection_of_moved_session_is_lost() {
    let mut world = ensemble();
    let old = world.connect_to(1);
    world.reconnect(2, &old);
    let delete = Delete { path: "/zookeeper".into(), version: -1 };
    world.send(&old, &Multi::new(&[MultiOp::Delete(delete)]));
    assert!(world.reply(&old).is_none());
    assert!(world.closed(old.id).is_some());
}

#[test]
fn only_leader_refuses_reads_and_pings_of_moved_sessions() {
    let refused_at = |from: usize, send: fn(&mut World, &Client)| {
        let mut world = ensemble();
        let old = world.connect_to(from);
        world.reconnect(2, &old);
        let zxid = world.zk.zxid();
        send(&mut world, &old);
        assert_eq!(world.zk.zxid(), zxid);
        assert_eq!(world.reply(&old).is_none(), world.closed(old.id).is_some());
        world.closed(old.id).is_some()
    };
    let ping: fn(&mut World, &Client) = |world, old| {
        world.send(old, &Ping);
    };
    let read: fn(&mut World, &Client) = |world, old| {
        world.send(old, &Exists { path: "/".into(), watch: false });
    };
    let sync: fn(&mut World, &Client) = |world, old| {
        world.send(old, &Sync { path: "/".into() });
    };
    for send in [ping, read, sync] {
        assert!(refused_at(0, send), "the leader closes the connection");
        assert!(!refused_at(1, send), "a follower answers");
    }
}

#[test]
fn close_on_old_connection_ends_moved_session() {
    for from in 0..2 {
        let mut world = ensemble();
        let old = world.connect_to(from);
        let new = world.reconnect(2, &old);
        world.create_as(&new, "/e", CreateMode::Ephemeral).unwrap();
        world.call(&old, &CloseSession).unwrap();
        assert!(!world.zk.is_alive(old.session.session_id));
        assert!(!world.zk.tree().contains("/e"));
        assert!(world.closed(old.id).is_some() && world.closed(new.id).is_some());
    }
}

#[test]
fn refused_write_of_ended_session_takes_a_zxid() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.zk.lag(world.now, 1, Some(Duration::from_secs(1)));
    assert!(world.zk.expire_session(world.now, client.session.session_id));
    let zxid = world.zk.zxid();
    world.send(&client, &create("/a", CreateMode::Persistent));
    assert_eq!(world.zk.zxid(), Zxid(zxid.0 + 1));
    world.pass_ms(1_000);
    assert!(world.reply(&client).is_none() && world.closed(client.id).is_some());
}

#[test]
fn cut_follower_answers_pings_while_its_sessions_expire() {
    let mut world = ensemble();
    let (cut, well) = (world.connect_to(1), world.connect_to(0));
    world.create_as(&cut, "/lock", CreateMode::Ephemeral).unwrap();
    world.zk.cut_from_leader(world.now, 1);
    let mut gone_at = None;
    for second in 1..=9 {
        world.pass_ms(1_000);
        world.ping(&cut);
        world.ping(&well);
        assert!(world.stat(&cut, "/lock").is_ok(), "its own tree is old");
        if !world.zk.tree().contains("/lock") {
            gone_at.get_or_insert(second);
        }
    }
    assert_eq!(gone_at, None, "10 s are not over");
    world.zk.heal(world.now, 1);
    assert!(world.zk.is_alive(cut.session.session_id), "the leader hears of the pings");

    let mut world = World::with(Settings::new().servers(3).sync_limit(9));
    let cut = world.connect_to(1);
    world.create_as(&cut, "/lock", CreateMode::Ephemeral).unwrap();
    world.zk.cut_from_leader(world.now, 1);
    for _ in 0..12 {
        world.pass_ms(1_000);
        world.ping(&cut);
    }
    assert!(!world.zk.tree().contains("/lock"));
    assert!(world.stat(&cut, "/lock").is_ok());
    assert!(world.closed(cut.id).is_none());
    world.zk.heal(world.now, 1);
    assert!(world.closed(cut.id).is_some(), "it learns of the end");
    assert!(!world.zk.tree_of(1).unwrap().contains("/lock"));
}

#[test]
fn cut_follower_holds_writes_syncs_and_later_requests() {
    let mut world = ensemble();
    let (cut, well) = (world.connect_to(1), world.connect_to(2));
    world.zk.cut_from_leader(world.now, 1);
    world.create(&well, "/other").unwrap();
    let data = GetData { path: "/zookeeper".into(), watch: false };
    assert!(world.call(&cut, &data).is_ok());
    let sent = [
        world.send(&cut, &Sync { path: "/".into() }),
        world.send(&cut, &Exists { path: "/other".into(), watch: false }),
        world.send(&cut, &create("/a", CreateMode::Persistent)),
        world.send(&cut, &Exists { path: "/a".into(), watch: false }),
        world.send(&cut, &set("/a", "1", 0)),
    ];
    world.send(&cut, &Ping);
    assert!(world.reply(&cut).is_none());
    assert!(!world.zk.tree().contains("/a"));

    world.pass_ms(1_000);
    world.zk.heal(world.now, 1);
    for xid in sent {
        let (header, _) = world.reply(&cut).unwrap();
        assert_eq!((header.xid, header.err.is_ok()), (xid, true));
    }
    assert_eq!(world.reply(&cut).unwrap().0.xid, -2);
}

#[test]
fn cut_follower_drops_its_clients_after_sync_limit() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.zk.cut_from_leader(world.now, 1);
    world.pass_ms(9_999);
    assert!(world.closed(client.id).is_none());
    world.pass_ms(1);
    assert!(world.closed(client.id).is_some());
    assert_eq!(world.try_connect(1, &new_session()).1, None);
    let moved = world.reconnect(2, &client);
    assert!(world.create(&moved, "/a").is_ok());
    world.zk.heal(world.now, 1);
    let back = world.reconnect(1, &moved);
    assert!(world.stat(&back, "/a").is_ok());
}

#[test]
fn connect_to_cut_follower_waits_for_leader() {
    let mut world = ensemble();
    world.zk.cut_from_leader(world.now, 1);
    let (id, reply) = world.try_connect(1, &new_session());
    assert_eq!(reply, None);
    assert!(world.closed(id).is_none());
    world.zk.heal(world.now, 1);
    assert!(world.frame(id).is_some());
}

#[test]
fn late_follower_has_old_tree_and_answers_writes_late() {
    let mut world = ensemble();
    let (late, well) = (world.connect_to(1), world.connect_to(0));
    world.zk.lag(world.now, 1, Some(Duration::from_millis(300)));
    world.create(&well, "/a").unwrap();
    assert!(world.stat(&late, "/a").is_err());
    world.pass_ms(100);
    world.send(&late, &create("/b", CreateMode::Persistent));
    let sync = world.send(&late, &Sync { path: "/".into() });
    let read = world.send(&late, &Exists { path: "/a".into(), watch: false });
    assert!(world.zk.tree().contains("/b"), "the leader has it");
    world.pass_ms(200);
    assert!(world.zk.tree_of(1).unwrap().contains("/a"));
    assert!(world.reply(&late).is_none());
    world.pass_ms(100);
    assert!(world.reply(&late).unwrap().0.err.is_ok());
    assert_eq!(world.reply(&late).unwrap().0.xid, sync);
    let (header, _) = world.reply(&late).unwrap();
    assert_eq!((header.xid, header.err.is_ok()), (read, true));
}

#[test]
fn late_follower_answers_writes_and_syncs_in_order() {
    let mut world = ensemble();
    let late = world.connect_to(1);
    world.zk.lag(world.now, 1, Some(Duration::from_millis(50)));
    let mut sent = Vec::new();
    for number in 0..10 {
        let path = format!("/{number}");
        sent.push(world.send(&late, &create(&path, CreateMode::Persistent)));
        sent.push(world.send(&late, &Sync { path: "/".into() }));
        sent.push(world.send(&late, &set(&path, "1", 0)));
    }
    for _ in 0..100 {
        world.pass_ms(50);
    }
    for xid in sent {
        let (header, _) = world.reply(&late).unwrap();
        assert_eq!((header.xid, header.err.is_ok()), (xid, true));
    }
}

#[test]
fn frozen_follower_refuses_client_with_later_zxid() {
    let mut world = ensemble();
    let well = world.connect_to(0);
    world.zk.lag(world.now, 1, None);
    let zxid = world.create(&well, "/a").unwrap().stat.czxid;
    let request = ConnectRequest { last_zxid_seen: zxid, ..new_session() };
    let (id, reply) = world.try_connect(1, &request);
    assert_eq!(reply, None);
    assert!(world.closed(id).is_some());
    world.zk.heal(world.now, 1);
    assert!(world.try_connect(1, &request).1.is_some());
}

#[test]
fn stopped_follower_answers_only_after_resume() {
    let mut world = ensemble();
    let (stalled, well) = (world.connect_to(1), world.connect_to(2));
    world.zk.stall(world.now, 1);
    let xid = world.send(&stalled, &Exists { path: "/a".into(), watch: false });
    world.create(&well, "/a").unwrap();
    world.pass_ms(1_000);
    assert!(world.reply(&stalled).is_none());
    world.zk.resume_server(world.now, 1);
    let (header, _) = world.reply(&stalled).unwrap();
    assert_eq!((header.xid, header.err.is_ok()), (xid, true));
}

#[test]
fn follower_of_stopped_leader_serves_only_reads() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.zk.stall(world.now, 0);
    assert!(world.stat(&client, "/").is_ok());
    world.send(&client, &create("/a", CreateMode::Persistent));
    world.pass_ms(1_000);
    assert!(world.reply(&client).is_none());
    world.zk.resume_server(world.now, 0);
    assert!(world.reply(&client).unwrap().0.err.is_ok());
}

#[test]
fn ensemble_config_lists_its_members() {
    let mut world = ensemble();
    let client = world.connect_to(2);
    let config = GetData { path: "/zookeeper/config".into(), watch: false };
    let reply = world.call(&client, &config).unwrap();
    let text = String::from_utf8(reply.data.unwrap().to_vec()).unwrap();
    assert_eq!(text.lines().count(), 4);
    assert!(text.ends_with("version=100000000"), "{text}");
    assert_eq!((reply.stat.version, reply.stat.mzxid), (-1, Zxid(1 << 32)));
}

#[test]
fn resumed_leader_collects_touches_of_its_followers() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.pass_ms(4_000);
    world.zk.stall(world.now, 0);
    world.pass_ms(2_000);
    world.ping(&client);
    world.zk.resume_server(world.now, 0);
    let info = world.zk.sessions().next().unwrap();
    assert!(info.expires >= world.now + info.timeout, "counted from the resumption");
}
