//! Tests of the reaper: the nodes it deletes and the nodes it keeps.

use std::time::Duration;

use proto::{
    CreateContainer, CreateMode, CreateTtl, EventType, Exists, OPEN_ACL_UNSAFE, SessionId, Zxid,
};
use zk_testing::Settings;

use crate::world::{Client, World};

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
