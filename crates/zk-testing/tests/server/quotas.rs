//! Tests of counted and enforced quotas.

use proto::{CreateMode, Delete, ErrorCode};
use zk_testing::Settings;

use crate::world::{Client, World, create, set};

const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

fn limited(world: &mut World, limits: &str) -> Client {
    let client = world.connect();
    world.create(&client, "/q").unwrap();
    world.create(&client, "/zookeeper/quota/q").unwrap();
    let node = create("/zookeeper/quota/q/zookeeper_limits", CreateMode::Persistent);
    let request = proto::Create2 { data: Some(limits.as_bytes().into()), ..node };
    world.call(&client, &request).unwrap();
    world.create(&client, STATS).unwrap();
    client
}

fn used(world: &World) -> String {
    let data = world.zk.tree().node(STATS).unwrap().data().unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

#[test]
fn quota_counts_nodes_below_its_path_without_stat_change() {
    let mut world = World::new();
    let client = limited(&mut world, "count=1,bytes=1");
    assert_eq!(used(&world), "count=1,bytes=4", "the node itself");
    let before = world.stat(&client, STATS).unwrap();
    world.create(&client, "/q/a").unwrap();
    world.create(&client, "/other").unwrap();
    assert_eq!(used(&world), "count=2,bytes=8", "soft limits hold nobody back");
    world.call(&client, &set("/q/a", "1234567", -1)).unwrap();
    assert_eq!(used(&world), "count=2,bytes=11");
    let after = world.stat(&client, STATS).unwrap();
    assert_eq!((after.mzxid, after.version), (before.mzxid, before.version));
    world.delete(&client, "/q/a").unwrap();
    assert_eq!(used(&world), "count=1,bytes=4");
}

#[test]
fn hard_quota_refuses_writes_over_limit() {
    let limits = "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=2";
    let mut world = World::with(Settings::new().enforce_quota());
    let client = limited(&mut world, limits);
    world.create(&client, "/q/a").unwrap();
    assert_eq!(world.create(&client, "/q/b").unwrap_err(), ErrorCode::QUOTA_EXCEEDED);
    assert_eq!(world.create(&client, "/q/a").unwrap_err(), ErrorCode::NODE_EXISTS);
    let too_long = set("/q/a", "1234567", 9);
    assert_eq!(world.call(&client, &too_long).unwrap_err(), ErrorCode::QUOTA_EXCEEDED);
    let same = set("/q/a", "four", 9);
    assert_eq!(world.call(&client, &same).unwrap_err(), ErrorCode::BAD_VERSION);

    let mut world = World::new();
    let client = limited(&mut world, limits);
    world.create(&client, "/q/a").unwrap();
    world.create(&client, "/q/b").unwrap();
    let request = Delete { path: "/q/b".into(), version: -1 };
    world.call(&client, &request).unwrap();
}
