//! Tests of the effect of each operation on the Stat of a node and of its parent.

use proto::{Acl, CreateMode, Delete, OPEN_ACL_UNSAFE, Perms, SetAcl, Stat, Zxid};

use crate::world::World;

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

#[test]
fn stat_of_parent_tells_whether_a_new_child_is_the_only_one() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    for num_children in [1, 2] {
        let child =
            world.create_as(&client, "/p/n-", CreateMode::EphemeralSequential).unwrap().stat;
        let parent = world.stat(&client, "/p").unwrap();
        assert_eq!((parent.num_children, parent.pzxid), (num_children, child.czxid));
    }
}

#[test]
fn stat_follows_create_set_data_set_acl_and_delete() {
    let mut world = World::new();
    let client = world.connect();
    let start_ms = 1_700_000_000_000;

    world.pass_ms(5);
    let made = world.create(&client, "/p").unwrap().stat;
    let expected = Stat {
        czxid: Zxid(2),
        mzxid: Zxid(2),
        pzxid: Zxid(2),
        ctime_ms: start_ms + 5,
        mtime_ms: start_ms + 5,
        data_length: 4,
        ..Stat::default()
    };
    assert_eq!(made, expected);

    world.create(&client, "/p/a").unwrap();
    let with_child = Stat { cversion: 1, num_children: 1, pzxid: Zxid(3), ..expected };
    assert_eq!(world.stat(&client, "/p"), Ok(with_child));

    world.pass_ms(5);
    let set = world.set(&client, "/p", 0).unwrap();
    let expected =
        Stat { mzxid: Zxid(4), mtime_ms: start_ms + 10, version: 1, data_length: 3, ..with_child };
    assert_eq!(set, expected);

    let acl = SetAcl { path: "/p".into(), acl: OPEN_ACL_UNSAFE.into(), aversion: 0 };
    let expected = Stat { aversion: 1, ..expected };
    assert_eq!(world.call(&client, &acl), Ok(expected));

    world.call(&client, &Delete { path: "/p/a".into(), version: 0 }).unwrap();
    let expected = Stat { cversion: 2, num_children: 0, pzxid: Zxid(6), ..expected };
    assert_eq!(world.stat(&client, "/p"), Ok(expected));
}

#[test]
fn ephemeral_stat_contains_its_session_id() {
    let mut world = World::new();
    let client = world.connect();
    let stat = world.create_as(&client, "/e", CreateMode::Ephemeral).unwrap().stat;
    assert_eq!(stat.ephemeral_owner, client.session.session_id);
}

#[test]
fn ctime_follows_skewed_clock() {
    let mut world = World::new();
    let client = world.connect();
    world.zk.skew_clock(-3_600_000);
    let stat = world.create(&client, "/a").unwrap().stat;
    assert_eq!(stat.ctime_ms, 1_700_000_000_000 - 3_600_000);
}
