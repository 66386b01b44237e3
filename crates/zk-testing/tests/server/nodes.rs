//! Tests of what no recorded script can show: the reaper, the sequence counter at its ends, and settings.

use std::time::Duration;

use proto::{
    Acl, Check, CreateContainer, CreateMode, CreateTtl, ErrorCode, EventType, Exists, Multi,
    MultiResult, OPEN_ACL_UNSAFE, OpCode, Perms, SessionId, Stat, Zxid,
};
use zk_testing::server::NodeKind;
use zk_testing::{Settings, Version};

use crate::world::{Client, World, create};

#[test]
fn stats_of_initial_nodes_match_zookeeper() {
    let mut world = World::new();
    let client = world.connect();
    let zero = Stat::default();
    for (path, expected) in [
        ("/", Stat { cversion: -1, num_children: 1, ..zero }),
        ("/zookeeper", Stat { cversion: -2, num_children: 2, ..zero }),
        ("/zookeeper/quota", zero),
        ("/zookeeper/config", Stat { aversion: -1, ..zero }),
    ] {
        assert_eq!(world.stat(&client, path), Ok(expected), "{path}");
    }
    assert_eq!(world.zk.tree().node("/zookeeper/config").unwrap().acl(), [Acl::world(Perms::READ)]);
    assert_eq!(world.zk.tree().node("/").unwrap().acl(), OPEN_ACL_UNSAFE);
}

fn container(world: &mut World, client: &Client, path: &str) {
    let mode = CreateMode::Container;
    let request =
        CreateContainer { path: path.into(), data: None, acl: OPEN_ACL_UNSAFE.into(), mode };
    world.call(client, &request).unwrap();
}

fn ttl(world: &mut World, client: &Client, path: &str, ttl_ms: i64) {
    let (data, acl) = (None, OPEN_ACL_UNSAFE.into());
    let request = CreateTtl { path: path.into(), data, acl, sequential: false, ttl_ms };
    let stat = world.call(client, &request).unwrap().stat;
    assert_eq!(stat.ephemeral_owner, SessionId::NONE, "the encoding inside is not shown");
}

#[test]
fn reaper_deletes_container_after_its_last_child() {
    let mut world = World::with(Settings::new().container_check_interval(Duration::from_secs(3)));
    let client = world.connect();
    container(&mut world, &client, "/used");
    container(&mut world, &client, "/never-used");
    container(&mut world, &client, "/full");
    world.create(&client, "/full/child").unwrap();
    world.create(&client, "/used/child").unwrap();
    world.delete(&client, "/used/child").unwrap();
    world.call(&client, &Exists { path: "/used".into(), watch: true }).unwrap();
    let zxid = world.zk.zxid();
    world.pass_ms(2_999);
    assert!(world.zk.tree().contains("/used"));
    world.pass_ms(1);
    assert!(!world.zk.tree().contains("/used"));
    assert!(world.zk.tree().contains("/full") && world.zk.tree().contains("/never-used"));
    assert_eq!(world.zk.zxid(), Zxid(zxid.0 + 1));
    assert_eq!(world.events(&client), [(EventType::NODE_DELETED, "/used".to_owned())]);
}

#[test]
fn reaper_deletes_unused_container_only_if_configured() {
    let settings = Settings::new().container_max_never_used(Duration::from_secs(5));
    let mut world = World::with(settings);
    let client = world.connect();
    container(&mut world, &client, "/a");
    world.pass_ms(5_000);
    assert_eq!(world.zk.reap_containers(world.now), 0);
    world.pass_ms(1);
    assert_eq!(world.zk.reap_containers(world.now), 1);
}

#[test]
fn ttl_counts_from_last_data_change() {
    let mut world = World::new();
    let client = world.connect();
    for path in ["/idle", "/set", "/parent"] {
        ttl(&mut world, &client, path, 1_000);
    }
    world.create(&client, "/parent/child").unwrap();
    world.pass_ms(600);
    world.set(&client, "/set", -1).unwrap();
    world.pass_ms(400);
    assert_eq!(world.zk.reap_containers(world.now), 0, "not before the time is over");
    world.pass_ms(1);
    assert_eq!(world.zk.reap_containers(world.now), 1);
    assert!(!world.zk.tree().contains("/idle"));
    world.delete(&client, "/parent/child").unwrap();
    assert_eq!(world.zk.reap_containers(world.now), 1, "the first look after the last child");
    assert!(world.zk.tree().contains("/set"));
}

#[test]
fn container_flags_create_a_container_only_in_a_multi() {
    let mut world = World::new();
    let client = world.connect();
    world.create_as(&client, "/plain", CreateMode::Container).unwrap();
    let in_multi = create("/container", CreateMode::Container).into();
    world.call(&client, &Multi::new(&[in_multi])).unwrap();
    let kind = |path: &str| world.zk.tree().node(path).unwrap().kind();
    assert_eq!((kind("/plain"), kind("/container")), (NodeKind::Persistent, NodeKind::Container));
}

fn next(world: &mut World, client: &Client, path: &str) -> Result<String, ErrorCode> {
    world.create_as(client, path, CreateMode::PersistentSequential).map(|reply| reply.path)
}

#[test]
fn sequence_counter_stops_at_maximum_but_wraps_in_multi() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    assert!(world.zk.set_sequence("/p", i32::MAX));
    let ops = [
        create("/p/a-", CreateMode::PersistentSequential).into(),
        create("/p/a-", CreateMode::PersistentSequential).into(),
    ];
    let reply = world.call(&client, &Multi::new(&ops)).unwrap();
    let MultiResult::Created { path, .. } = &reply.results[1] else { panic!("{reply:?}") };
    assert_eq!(path, "/p/a--2147483648");
    assert_eq!(next(&mut world, &client, "/p/a-"), Err(ErrorCode::NODE_EXISTS));
    let before = world.stat(&client, "/p").unwrap().pzxid;
    assert_eq!(next(&mut world, &client, "/p/b-").unwrap(), "/p/b-2147483647");
    assert_eq!(world.stat(&client, "/p").unwrap().pzxid, before, "pzxid stays too");
}

#[test]
fn negative_sequence_number_is_formatted_with_sign() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    assert!(world.zk.set_sequence("/p", -5));
    assert_eq!(next(&mut world, &client, "/p/a-").unwrap(), "/p/a--000000005");
    assert_eq!(next(&mut world, &client, "/p/a-").unwrap(), "/p/a--000000004");
    assert!(!world.zk.set_sequence("/missing", 1));
}

#[test]
fn settings_refuse_ttls_and_ipv6_acls_and_ignore_quotas() {
    let mut world = World::with(Settings::new().without_extended_types());
    let client = world.connect();
    let (data, acl) = (None, OPEN_ACL_UNSAFE.into());
    let ttl = CreateTtl { path: "no-slash".into(), data, acl, sequential: false, ttl_ms: -1 };
    assert_eq!(world.call(&client, &ttl).unwrap_err(), ErrorCode::UNIMPLEMENTED);

    let settings = Settings::new().version(Version::V3_9).without_ipv6_acls();
    let mut world = World::with(settings);
    let client = world.connect();
    let acl = [Acl::ip(Perms::ALL, "::1/64")];
    assert_eq!(world.create_with(&client, "/a", &acl).unwrap_err(), ErrorCode::INVALID_ACL);

    for path in ["/a", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_stats"] {
        world.create(&client, path).unwrap();
    }
    let limits = create("/zookeeper/quota/a/zookeeper_limits", CreateMode::Persistent);
    let data = b"count=-1,bytes=-1=;countHardLimit=1";
    world.call(&client, &proto::Create2 { data: Some(data[..].into()), ..limits }).unwrap();
    world.create(&client, "/a/b").unwrap();
}

#[test]
fn check_outside_multi_is_refused_or_unanswered_by_release() {
    let mut body = bytes::BytesMut::new();
    proto::Encode::encode(&Check { path: "/".into(), version: -1 }, &mut body);
    let mut world = World::of(Version::V3_9);
    let client = world.connect();
    let code = world.call_raw(&client, OpCode::Check.code(), &body);
    assert_eq!(code, Some(ErrorCode::UNIMPLEMENTED));
    assert!(world.closed(client.id).is_some());

    let mut world = World::of(Version::V3_8);
    let client = world.connect();
    assert_eq!(world.call_raw(&client, OpCode::Check.code(), &body), None, "never answered");
    assert!(world.closed(client.id).is_none());
}
