//! Tests of elections, isolated leaders, crashes and restarts.

use std::time::Duration;

use proto::{ConnectReply, ConnectRequest, CreateMode, ErrorCode, Exists, Ping, Sync, Zxid};
use zk_testing::server::Ensemble;
use zk_testing::{Settings, Switch};

use crate::world::{Client, World, create, new_session, request_for};

fn ensemble() -> World {
    World::with(Settings::new().servers(3))
}

#[test]
fn any_server_can_be_elected_leader() {
    for leader in [1, 2, 0] {
        let mut world = ensemble();
        let before = [world.connect_to(0), world.connect_to(1), world.connect_to(2)];
        world.create(&before[0], "/before").unwrap();
        assert!(world.zk.elect(world.now, leader));
        assert_eq!(world.zk.leader(), leader);
        for client in &before {
            assert!(world.closed(client.id).is_some(), "every server has changed its leader");
        }
        for (server, client) in before.iter().enumerate() {
            let client = world.reconnect(server, client);
            let made = world.create(&client, &format!("/{server}")).unwrap();
            assert_eq!(made.stat.czxid.0 >> 32, 2, "a new epoch");
            world.call(&client, &Sync { path: "/".into() }).unwrap();
            assert!(world.stat(&client, "/before").is_ok());
        }
    }
}

#[test]
fn followers_refuse_clients_of_new_leader_without_transaction() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    assert!(world.zk.elect(world.now, 1));
    let client = world.reconnect(1, &client);
    world.send(&client, &Ping);
    let seen = world.reply(&client).unwrap().0.zxid;
    assert_eq!(seen, Zxid(2 << 32));
    let session = client.session;
    let request = request_for(session.session_id, session.password);
    let request = ConnectRequest { last_zxid_seen: seen, ..request };
    let (id, reply) = world.try_connect(0, &request);
    assert!(reply.is_none() && world.closed(id).is_some());
    world.connect_to(2);
    assert!(world.try_connect(0, &request).1.is_some());
}

#[test]
fn new_leader_restarts_clocks_with_timeout_of_creation() {
    let short = Duration::from_secs(5);
    let mut world = World::with(Settings::new().servers(3).max_session_timeout_of(2, short));
    let client = world.connect_to(2);
    let client = world.reconnect(1, &client);
    assert_eq!(client.session.timeout_ms, 10_000);
    world.pass_ms(4_000);
    world.ping(&client);
    world.pass_ms(1_000);
    assert_eq!(world.expires_in(&client), Duration::from_secs(11));
    assert!(world.zk.elect(world.now, 1));
    assert_eq!(world.expires_in(&client), Duration::from_secs(7), "5 + 5, rounded up to 12");
    let info = world.zk.sessions().next().unwrap();
    assert_eq!((info.timeout, info.create_timeout), (Duration::from_secs(10), short));
}

#[test]
fn expiry_is_rounded_to_the_leaders_tick() {
    let own = Duration::from_millis(3_000);
    let mut world = World::with(Settings::new().servers(3).tick_time_of(1, own));
    let client = world.connect_to(2);
    assert_eq!(world.expires_in(&client), Duration::from_secs(12));
    assert!(world.zk.elect(world.now, 1));
    let client = world.reconnect(2, &client);
    assert_eq!(world.expires_in(&client), Duration::from_secs(12));
    world.pass_ms(2_100);
    let client = world.reconnect(0, &client);
    assert_eq!(world.expires_in(&client), Duration::from_millis(15_000 - 2_100));
    // The leader pings every 1.5 s.
    world.pass_ms(500);
    world.ping(&client);
    world.pass_ms(400);
    assert_eq!(world.expires_in(&client), Duration::from_secs(12));
    world.pass_ms(1_499);
    world.ping(&client);
    world.pass_ms(1);
    assert_eq!(world.expires_in(&client), Duration::from_millis(15_000 - 4_500));
}

#[test]
fn server_grants_timeouts_within_its_own_bounds() {
    let settings = Settings::new().servers(3);
    let settings = settings.min_session_timeout_of(1, Duration::from_secs(15));
    let settings = settings.tick_time_of(2, Duration::from_millis(300));
    let mut world = World::with(settings);
    let granted = [0, 1, 2].map(|server| world.connect_to(server).session.timeout_ms);
    assert_eq!(granted, [10_000, 15_000, 6_000]);
}

#[test]
fn election_fails_for_dead_stopped_or_cut_server() {
    let refused = |harm: fn(&mut Ensemble, std::time::Instant)| {
        let mut world = ensemble();
        harm(&mut world.zk, world.now);
        !world.zk.elect(world.now, 1) && world.zk.leader() == 0
    };
    assert!(refused(|zk, now| zk.kill(now, 1)));
    assert!(refused(|zk, now| zk.stall(now, 1)));
    assert!(refused(|zk, now| zk.cut_from_leader(now, 1)));
    assert!(!ensemble().zk.elect(ensemble().now, 3));
    let mut alone = World::new();
    assert!(!alone.zk.elect(alone.now, 0));
}

#[test]
fn isolated_leader_serves_reads_and_syncs_until_its_sync_limit() {
    let mut world = ensemble();
    let (old, gone) = (world.connect_to(0), world.connect_to(1));
    world.create_as(&old, "/lock", CreateMode::Ephemeral).unwrap();
    world.pass_ms(1_000);
    assert!(world.zk.isolate_leader(world.now, 1));
    assert!(world.closed(gone.id).is_some() && world.closed(old.id).is_none());
    let gone = world.reconnect(2, &gone);
    world.create(&gone, "/new").unwrap();
    assert!(world.zk.tree().contains("/new"));
    for _ in 0..9 {
        world.pass_ms(1_000);
        world.ping(&old);
        world.call(&old, &Sync { path: "/".into() }).unwrap();
        assert!(world.stat(&old, "/lock").is_ok() && world.stat(&old, "/new").is_err());
    }
    assert_eq!(world.expires_in(&old), Duration::from_secs(2), "counted by the new leader");
    let old = world.reconnect(0, &old);
    assert_eq!(world.expires_in(&old), Duration::from_secs(2), "which has not been asked");
    world.send(&old, &create("/a", CreateMode::Persistent));
    assert!(world.reply(&old).is_none(), "nobody is there to agree");
    assert_eq!(world.try_connect(0, &new_session()).1, None, "nor to a new session");
    world.pass_ms(1_000);
    assert!(world.closed(old.id).is_some());
    world.pass_ms(1_000);
    assert!(!world.zk.tree().contains("/lock") && !world.zk.tree().contains("/a"));
}

#[test]
fn isolated_leader_follows_successor_after_heal() {
    let mut world = ensemble();
    let old = world.connect_to(0);
    assert!(world.zk.isolate_leader(world.now, 2));
    let well = world.connect_to(1);
    world.create(&well, "/new").unwrap();
    world.zk.heal(world.now, 0);
    assert!(world.closed(old.id).is_some());
    let old = world.reconnect(0, &old);
    assert!(world.stat(&old, "/new").is_ok());
    assert!(world.create(&old, "/a").is_ok());
    assert!(world.zk.elect(world.now, 0), "and may lead again");
}

/// The isolated leader's own session tracker still runs, so packets of overdue sessions are
/// dropped.
#[test]
fn isolated_leader_drops_packets_of_overdue_sessions() {
    let mut world = World::with(Settings::new().servers(3).sync_limit(20));
    let (quiet, busy) = (world.connect_to(0), world.connect_to(0));
    assert!(world.zk.isolate_leader(world.now, 1));
    world.pass_ms(11_999);
    world.ping(&busy);
    world.pass_ms(1);
    world.ping(&busy);
    world.send(&quiet, &Ping);
    assert!(world.reply(&quiet).is_none() && world.closed(quiet.id).is_none());
}

#[test]
fn stopped_leader_leads_alone_for_half_a_tick_after_resume() {
    let mut world = ensemble();
    let old = world.connect_to(0);
    world.zk.stall(world.now, 0);
    world.pass_ms(11_000);
    assert!(world.zk.elect(world.now, 1));
    world.pass_ms(11_000);
    world.send(&old, &Sync { path: "/".into() });
    assert!(world.reply(&old).is_none());
    world.zk.resume_server(world.now, 0);
    assert!(world.reply(&old).is_none(), "it takes the session for overdue");
    let (id, reply) = world.try_connect(0, &new_session());
    assert!(reply.is_none() && world.closed(id).is_none());
    world.pass_ms(1_000);
    assert!(world.closed(old.id).is_some() && world.closed(id).is_some());
    world.zk.heal(world.now, 0);
    world.connect_to(0);
}

#[test]
fn dead_leader_stops_all_service_until_election() {
    let mut world = ensemble();
    let clients = [world.connect_to(0), world.connect_to(1)];
    world.zk.kill(world.now, 0);
    for client in &clients {
        assert!(world.closed(client.id).is_some());
    }
    assert_eq!(world.try_connect(1, &new_session()).1, None);
    world.pass_ms(60_000);
    assert_eq!(world.zk.sessions().count(), 2, "nobody counts");
    assert!(world.zk.elect(world.now, 2));
    assert_eq!(world.expires_in(&clients[0]), Duration::from_secs(12));
    let client = world.reconnect(1, &clients[0]);
    world.create(&client, "/a").unwrap();
    world.zk.restart(world.now, 0);
    assert_eq!(world.zk.leader(), 2);
    let client = world.reconnect(0, &client);
    assert!(world.stat(&client, "/a").is_ok());
}

#[test]
fn restarted_leader_restarts_every_session_clock() {
    for servers in [1, 3] {
        let mut world = World::with(Settings::new().servers(servers));
        let client = world.connect_to(0);
        world.create_as(&client, "/lock", CreateMode::Ephemeral).unwrap();
        world.pass_ms(7_000);
        world.zk.kill(world.now, 0);
        world.pass_ms(20_000);
        world.zk.restart(world.now, 0);
        assert_eq!(world.expires_in(&client), Duration::from_millis(11_000));
        let client = world.reconnect(servers - 1, &client);
        assert!(world.stat(&client, "/lock").is_ok());
        world.create(&client, "/a").unwrap();
    }
}

#[test]
fn followers_of_stopped_leader_close_after_sync_limit() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.zk.stall(world.now, 0);
    world.pass_ms(9_999);
    world.ping(&client);
    world.pass_ms(1);
    assert!(world.closed(client.id).is_some());
    let (id, reply) = world.try_connect(1, &new_session());
    assert!(reply.is_none() && world.closed(id).is_some(), "it looks for a leader");

    world.zk.resume_server(world.now, 0);
    let client = world.connect_to(1);
    assert!(world.create(&client, "/a").is_ok(), "it follows again");

    world.zk.stall(world.now, 0);
    world.pass_ms(5_000);
    world.zk.kill(world.now, 0);
    world.zk.restart(world.now, 0);
    world.pass_ms(10_000);
    let client = world.connect_to(1);
    assert!(world.create(&client, "/restarted").is_ok(), "a new process was never stopped");

    world.zk.stall(world.now, 0);
    world.pass_ms(10_000);
    assert!(world.zk.elect(world.now, 1));
    let client = world.connect_to(2);
    assert!(world.create(&client, "/b").is_ok(), "another one may lead as well");
}

#[test]
fn resumed_leader_leaves_cut_and_read_only_servers_alone() {
    let mut world = ensemble();
    let writer = world.connect_to(0);
    world.zk.stall(world.now, 0);
    world.pass_ms(10_000);
    world.zk.read_only(world.now, 1, Switch::On);
    world.zk.cut_from_leader(world.now, 2);
    world.zk.resume_server(world.now, 0);
    let writer = world.reconnect(0, &writer);
    world.create(&writer, "/a").unwrap();
    assert!((1..3).all(|server| !world.zk.tree_of(server).unwrap().contains("/a")));
    assert!(!world.zk.elect(world.now, 1), "it has no quorum");
}

#[test]
fn late_server_catches_up_before_leading() {
    let mut world = ensemble();
    let client = world.connect_to(0);
    world.zk.lag(world.now, 1, None);
    world.zk.lag(world.now, 2, None);
    world.create(&client, "/a").unwrap();
    assert!(!world.zk.tree_of(1).unwrap().contains("/a"));
    assert!(world.zk.elect(world.now, 1));
    assert!((0..3).all(|server| world.zk.tree_of(server).unwrap().contains("/a")));
}

#[test]
fn late_server_closes_connections_before_it_catches_up() {
    let mut world = ensemble();
    let (writer, watcher) = (world.connect_to(1), world.connect_to(1));
    world.zk.lag(world.now, 1, None);
    world.call(&watcher, &Exists { path: "/a".into(), watch: true }).unwrap_err();
    world.send(&writer, &create("/a", CreateMode::Persistent));
    assert!(world.zk.elect(world.now, 1));
    assert!(world.closed(writer.id).is_some() && world.closed(watcher.id).is_some());
    assert!(world.frame(writer.id).is_none(), "the write is applied without an answer");
    assert!(world.frame(watcher.id).is_none(), "no watch fires");
    assert!(world.zk.tree().contains("/a"));
}

#[test]
fn read_only_server_keeps_its_tree_and_loses_its_touches() {
    let mut world = ensemble();
    let (client, writer) = (world.connect_to(1), world.connect_to(0));
    world.pass_ms(1_500);
    world.ping(&client);
    world.zk.read_only(world.now, 1, Switch::On);
    assert!(world.closed(client.id).is_some());
    world.create(&writer, "/a").unwrap();
    world.pass_ms(2_000);
    assert_eq!(world.expires_in(&client), Duration::from_millis(12_000 - 3_500), "no touch");
    let request = ConnectRequest { read_only: Some(true), ..new_session() };
    let (id, Some(ConnectReply::Accepted(session))) = world.try_connect(1, &request) else {
        panic!("no local session");
    };
    let reader = Client { id, session };
    assert_eq!(world.stat(&reader, "/a").unwrap_err(), ErrorCode::NO_NODE);
    world.zk.heal(world.now, 1);
    assert_eq!(world.stat(&reader, "/a").unwrap_err(), ErrorCode::NO_NODE);
    assert!(!world.zk.elect(world.now, 1), "it has no quorum");

    world.zk.read_only(world.now, 1, Switch::Off);
    assert!(world.closed(reader.id).is_some());
    let client = world.reconnect(1, &client);
    assert!(world.stat(&client, "/a").is_ok());
    world.create(&client, "/b").unwrap();
}

#[test]
fn read_only_leader_does_not_lead() {
    for elected in [None, Some(1)] {
        let mut world = ensemble();
        let client = world.connect_to(1);
        world.zk.read_only(world.now, 0, Switch::On);
        assert!(world.closed(client.id).is_some(), "its leader is gone");
        assert_eq!(world.try_connect(1, &new_session()).1, None);
        world.pass_ms(60_000);
        assert!(world.zk.is_alive(client.session.session_id), "nobody counts");
        if let Some(elected) = elected {
            assert!(world.zk.elect(world.now, elected));
            let other = world.connect_to(2);
            world.create(&other, "/a").unwrap();
            assert!(!world.zk.tree_of(0).unwrap().contains("/a"));
        }
        world.zk.read_only(world.now, 0, Switch::Off);
        assert_eq!(world.zk.leader(), elected.unwrap_or(0));
        let client = world.reconnect(0, &client);
        world.create(&client, "/b").unwrap();
        assert!((0..3).all(|at| world.zk.tree_of(at).unwrap().contains("/b")));
    }
}

#[test]
fn read_only_server_stays_read_only_after_a_restart() {
    for server in 0..2 {
        let mut world = ensemble();
        world.zk.read_only(world.now, server, Switch::On);
        world.zk.kill(world.now, server);
        world.zk.restart(world.now, server);
        assert_eq!(world.try_connect(server, &new_session()).1, None);
        world.zk.stall(world.now, server);
        world.zk.read_only(world.now, server, Switch::Off);
        world.zk.resume_server(world.now, server);
        let client = world.connect_to(server);
        world.create(&client, "/a").unwrap();
    }
}

#[test]
fn cut_follower_rejoins_if_its_leader_was_replaced() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.zk.cut_from_leader(world.now, 1);
    world.ping(&client);
    assert!(world.zk.elect(world.now, 2));
    let at_election = world.expires_in(&client);
    world.pass_ms(1_500);
    assert!(world.closed(client.id).is_none(), "it has not noticed");
    world.zk.heal(world.now, 1);
    assert!(world.closed(client.id).is_some());
    world.pass_ms(1_500);
    assert_eq!(world.expires_in(&client) + Duration::from_secs(3), at_election);
}

/// The leader was stopped before the cut, and resumed during it.
#[test]
fn cut_follower_that_gave_up_its_leader_rejoins() {
    let mut world = ensemble();
    let (leader, follower) = (world.zk.leader(), 1);
    assert_ne!(leader, follower);
    world.zk.stall(world.now, leader);
    world.pass_ms(60_000);
    world.zk.cut_from_leader(world.now, follower);
    world.zk.resume_server(world.now, leader);
    assert_eq!(world.try_connect(follower, &new_session()).1, None);
    world.zk.heal(world.now, follower);
    let client = world.connect_to(follower);
    world.create(&client, "/a").unwrap();
}
