//! Tests of what ClickHouse Keeper and RaftKeeper do otherwise than ZooKeeper.

use bytes::BytesMut;
use proto::{
    Acl, AddWatch, AddWatchMode, AuthPacket, Check, Create, CreateMode, Encode, ErrorCode,
    EventType, Exists, GetAcl, GetChildren, GetData, Multi, MultiOp, MultiResult, OPEN_ACL_UNSAFE,
    OpCode, Perms, SetAcl, SetWatches, Zxid,
};
use zk_testing::{Settings, Version};

use crate::world::{Client, World, create, set};

const KEEPERS: [Version; 2] = [Version::Keeper25_8, Version::Keeper26_6];
const ALL: [Version; 3] = [Version::Keeper25_8, Version::Keeper26_6, Version::RaftKeeper];

/// Creates a node with an operation that every server has.
fn make(
    world: &mut World,
    client: &Client,
    path: &str,
    (mode, acl): (CreateMode, &[Acl]),
) -> Result<String, ErrorCode> {
    let (path, acl) = (path.into(), acl.into());
    let request = Create { path, data: Some(b"data"[..].into()), acl, mode };
    world.call(client, &request).map(|reply| reply.path)
}

const PLAIN: (CreateMode, &[Acl]) = (CreateMode::Persistent, OPEN_ACL_UNSAFE);
const EPHEMERAL: (CreateMode, &[Acl]) = (CreateMode::Ephemeral, OPEN_ACL_UNSAFE);
const NUMBERED: (CreateMode, &[Acl]) = (CreateMode::PersistentSequential, OPEN_ACL_UNSAFE);

#[test]
fn sequence_numbers_count_creations_in_32_or_64_bits() {
    for (version, behind_32_bits) in [
        (Version::Keeper25_8, "-2147483648"),
        (Version::Keeper26_6, "2147483648"),
        (Version::RaftKeeper, "-2147483648"),
    ] {
        let mut world = World::of(version);
        let client = world.connect();
        for _ in 0..2 {
            make(&mut world, &client, "/p", PLAIN).unwrap();
            make(&mut world, &client, "/p/plain", PLAIN).unwrap();
            let first = make(&mut world, &client, "/p/n-", NUMBERED).unwrap();
            assert_eq!(first, "/p/n-0000000001", "{version:?}");
            for path in [&first, "/p/plain", "/p"] {
                world.delete(&client, path).unwrap();
            }
        }
        make(&mut world, &client, "/p", PLAIN).unwrap();
        assert!(world.zk.set_sequence("/p", i32::MAX));
        make(&mut world, &client, "/p/n-", NUMBERED).unwrap();
        if version != Version::Keeper26_6 {
            assert!(world.zk.set_sequence("/p", i32::MIN));
        }
        let next = make(&mut world, &client, "/p/n-", NUMBERED).unwrap();
        assert_eq!(next, format!("/p/n-{behind_32_bits}"));
    }
}

#[test]
fn parent_stat_counts_changes_as_each_server_does() {
    for version in Version::ALL {
        let mut world = World::of(version);
        let client = world.connect();
        make(&mut world, &client, "/p", PLAIN).unwrap();
        make(&mut world, &client, "/p/a", PLAIN).unwrap();
        let created = world.zk.zxid();
        world.set(&client, "/p/a", -1).unwrap();
        world.delete(&client, "/p/a").unwrap();
        let stat = world.stat(&client, "/p").unwrap();
        let (cversion, pzxid) =
            if KEEPERS.contains(&version) { (3, created) } else { (2, world.zk.zxid()) };
        assert_eq!((stat.cversion, stat.pzxid), (cversion, pzxid), "{version:?}");
    }
}

#[test]
fn zxids_of_keepers_have_no_epoch() {
    for version in ALL {
        let mut world = World::with(Settings::new().servers(3).version(version));
        world.connect_to(1);
        assert!(world.zk.elect(world.now, 1));
        world.connect_to(1);
        assert_eq!(world.zk.zxid(), Zxid(2), "{version:?}");
    }
}

#[test]
fn writes_below_the_nodes_of_keeper_are_refused() {
    for version in KEEPERS {
        let mut world = World::of(version);
        let client = world.connect();
        let refused = Err(ErrorCode::BAD_ARGUMENTS);
        for path in ["/keeper", "/keeper/feature_flags", "/keeper/x"] {
            assert_eq!(make(&mut world, &client, path, PLAIN), refused.map(|()| "".into()));
            assert_eq!(world.delete(&client, path), refused);
            assert_eq!(world.set(&client, path, -1).map(|_| ()), refused);
            let acl = OPEN_ACL_UNSAFE.into();
            let request = SetAcl { path: path.into(), acl, aversion: -1 };
            assert_eq!(world.call(&client, &request).map(|_| ()), refused);
            let check = MultiOp::Check(Check { path: path.into(), version: -1 });
            let reply = world.call(&client, &Multi::new(&[check])).unwrap();
            assert_eq!(reply.results, [MultiResult::Error(ErrorCode::BAD_ARGUMENTS)]);
        }
    }
}

#[test]
fn keepers_check_writes_in_their_own_order() {
    for version in ALL {
        let mut world = World::of(version);
        let client = world.connect();
        let no_acl: [Acl; 0] = [];
        let bad_acl = [Acl::ip(Perms::ALL, "127.0.0.1")];
        make(&mut world, &client, "/a", (CreateMode::Ephemeral, &no_acl)).unwrap();
        for (path, code) in [
            ("no-slash", ErrorCode::NO_NODE),
            ("/missing/a", ErrorCode::NO_NODE),
            ("/a/b", ErrorCode::NO_CHILDREN_FOR_EPHEMERALS),
            ("/a", ErrorCode::NODE_EXISTS),
            ("/", ErrorCode::NODE_EXISTS),
            ("/b", ErrorCode::INVALID_ACL),
        ] {
            let mode = (CreateMode::Persistent, &bad_acl[..]);
            assert_eq!(make(&mut world, &client, path, mode), Err(code), "{version:?} {path}");
        }
        // Neither validates paths, and neither knows container flags.
        make(&mut world, &client, "/a\u{1}", (CreateMode::Container, OPEN_ACL_UNSAFE)).unwrap();
        assert!(
            !world
                .zk
                .tree()
                .iter()
                .any(|(_, node)| { node.kind() == zk_testing::server::NodeKind::Container })
        );
        assert_eq!(world.delete(&client, ""), Err(ErrorCode::NO_NODE));
        assert_eq!(world.set(&client, "/missing", -1), Err(ErrorCode::NO_NODE));
        assert_eq!(world.set(&client, "/a", 7), Err(ErrorCode::BAD_VERSION));
    }
}

#[test]
fn acl_entries_are_kept_as_each_keeper_does() {
    let hash = proto::digest_id("me", "secret");
    for version in ALL {
        let mut world = World::of(version);
        let (client, other) = (world.connect(), world.connect());
        for (scheme, credential, expected) in [
            ("ip", "", Err(ErrorCode::AUTH_FAILED)),
            ("digest", "me", Err(ErrorCode::AUTH_FAILED)),
            ("digest", "me:secret", Ok(())),
        ] {
            let auth = Some(credential.as_bytes().into());
            world.send(&client, &AuthPacket { auth_type: 0, scheme: scheme.into(), auth });
            let code = world.reply(&client).unwrap().0.err;
            assert_eq!(if code.is_ok() { Ok(()) } else { Err(code) }, expected);
            assert!(world.closed(client.id).is_none(), "{version:?}");
        }
        let acl = [Acl { perms: Perms::READ, scheme: "auth".into(), id: "".into() }];
        make(&mut world, &client, "/mine", (CreateMode::Persistent, &acl)).unwrap();
        let read = GetData { path: "/mine".into(), watch: false };
        assert_eq!(world.call(&other, &read).unwrap_err(), ErrorCode::NO_AUTH);
        // READ is enough for the list, and the hash is shown.
        let list = world.call(&client, &GetAcl { path: "/mine".into() }).unwrap().acl;
        assert_eq!(
            list,
            [Acl { perms: Perms::READ, scheme: "digest".into(), id: hash.clone().into() }]
        );
        assert_eq!(world.set(&client, "/mine", -1), Err(ErrorCode::NO_AUTH));
        world.stat(&other, "/mine").unwrap();

        let acl = [Acl { perms: Perms::ALL, scheme: "digest".into(), id: "a:b:c".into() }];
        let refused = make(&mut world, &client, "/bad", (CreateMode::Persistent, &acl));
        assert_eq!(refused, Err(ErrorCode::INVALID_ACL));

        // Keeper drops an entry for all, whatever it permits.
        let acl = [Acl::world(Perms::READ)];
        make(&mut world, &client, "/all", (CreateMode::Persistent, &acl)).unwrap();
        let is_open = world.set(&other, "/all", -1).is_ok();
        let list = world.call(&other, &GetAcl { path: "/all".into() }).unwrap().acl;
        assert_eq!(
            (is_open, list.is_empty()),
            (KEEPERS.contains(&version), KEEPERS.contains(&version))
        );
    }
}

#[test]
fn each_watch_table_of_keepers_sends_an_event() {
    for version in ALL {
        let mut world = World::of(version);
        let (client, other) = (world.connect(), world.connect());
        make(&mut world, &client, "/p", PLAIN).unwrap();
        world.call(&client, &GetData { path: "/p".into(), watch: true }).unwrap();
        world.call(&client, &GetChildren { path: "/p".into(), watch: true }).unwrap();
        world.call(&client, &GetChildren { path: "/".into(), watch: true }).unwrap();
        world.delete(&other, "/p").unwrap();
        let deleted = (EventType::NODE_DELETED, "/p".to_owned());
        let children = (EventType::NODE_CHILDREN_CHANGED, "/".to_owned());
        let frames = world.event_frames(&client);
        assert!(frames.iter().all(|(header, _)| header.zxid == Zxid(-1)));
        let events: Vec<_> =
            frames.into_iter().map(|(_, event)| (event.event_type, event.path)).collect();
        assert_eq!(events, [deleted.clone(), deleted, children], "{version:?}");
        make(&mut world, &other, "/p", PLAIN).unwrap();
        assert!(world.events(&client).is_empty(), "one-shot watches are spent");
    }
}

#[test]
fn event_of_a_numbered_node_has_the_path_of_the_request() {
    for version in ALL {
        let mut world = World::of(version);
        let client = world.connect();
        for path in ["/n-", "/n-0000000000"] {
            let exists = Exists { path: path.into(), watch: true };
            assert_eq!(world.call(&client, &exists).unwrap_err(), ErrorCode::NO_NODE);
        }
        assert_eq!(world.stat(&client, "/").unwrap().cversion, 0, "own nodes do not count");
        make(&mut world, &client, "/n-", NUMBERED).unwrap();
        assert!(world.zk.tree().contains("/n-0000000000"), "{version:?}");
        assert_eq!(world.events(&client), [(EventType::NODE_CREATED, "/n-".to_owned())]);
    }
}

#[test]
fn recursive_watch_of_keeper_names_the_watched_path() {
    let mut world = World::of(Version::Keeper26_6);
    let (client, other) = (world.connect(), world.connect());
    make(&mut world, &other, "/p", PLAIN).unwrap();
    for mode in [AddWatchMode::PersistentRecursive, AddWatchMode::Persistent] {
        world.call(&client, &AddWatch { path: "/p".into(), mode }).unwrap();
    }
    make(&mut world, &other, "/p/a", PLAIN).unwrap();
    let event = |event, path: &str| (event, path.to_owned());
    let created = event(EventType::NODE_CREATED, "/p");
    let children = event(EventType::NODE_CHILDREN_CHANGED, "/p");
    assert_eq!(world.events(&client), [created, children]);
    world.set(&other, "/p/a", -1).unwrap();
    assert_eq!(world.events(&client), [event(EventType::NODE_DATA_CHANGED, "/p")]);
    // A check finds the watches of all sessions, a removal only those of its own.
    for (op, code) in
        [(OpCode::CheckWatches, ErrorCode::OK), (OpCode::RemoveWatches, ErrorCode::NO_WATCHER)]
    {
        let mut body = BytesMut::new();
        proto::CheckWatches { path: "/p".into(), watcher_type: proto::WatcherType::Any }
            .encode(&mut body);
        assert_eq!(world.call_raw(&other, op.code(), &body), Some(code));
    }
}

#[test]
fn set_watches_of_raftkeeper_looks_up_only_data_watches() {
    let mut world = World::of(Version::RaftKeeper);
    let (client, other) = (world.connect(), world.connect());
    for path in ["/data", "/child"] {
        make(&mut world, &client, path, PLAIN).unwrap();
    }
    world.call(&other, &GetChildren { path: "/".into(), watch: true }).unwrap();
    let request = SetWatches {
        relative_zxid: world.zk.zxid(),
        data: vec!["/data".into()],
        exist: vec!["/child".into()],
        child: vec!["/child".into()],
    };
    world.call(&client, &request).unwrap();
    // The child watch hears a deletion that never happened, as does the exists watch on its path,
    // and others learn of it too.
    let deleted = (EventType::NODE_DELETED, "/child".to_owned());
    assert_eq!(world.events(&client), [deleted.clone(), deleted]);
    assert_eq!(world.events(&other), [(EventType::NODE_CHILDREN_CHANGED, "/".to_owned())]);
    world.set(&other, "/data", -1).unwrap();
    let changed = (EventType::NODE_DATA_CHANGED, "/data".to_owned());
    assert_eq!(world.events(&client), std::slice::from_ref(&changed));
    world.call(&client, &request).unwrap();
    assert!(world.events(&client).contains(&changed));
}

#[test]
fn session_of_a_cut_connection_ends_by_its_timeout() {
    for version in ALL {
        let mut world = World::of(version);
        let (client, other) = (world.connect(), world.connect());
        make(&mut world, &client, "/e", EPHEMERAL).unwrap();
        world.pass_ms(100);
        world.call(&client, &GetData { path: "/e".into(), watch: false }).unwrap();
        world.zk.disconnected(world.now, client.id);
        assert_eq!(world.expires_ms(&client), 10_500, "a multiple of 500 ms");
        world.until_ms(9_000);
        world.ping(&other);
        world.until_ms(10_499);
        assert!(world.stat(&other, "/e").is_ok());
        world.until_ms(10_500);
        assert_eq!(world.stat(&other, "/e"), Err(ErrorCode::NO_NODE), "{version:?}");
    }
}

#[test]
fn reads_at_a_follower_of_keeper_do_not_keep_a_session_alive() {
    for version in ALL {
        let mut world = World::with(Settings::new().servers(3).version(version));
        let client = world.connect_to(1);
        world.until_ms(5_000);
        world.stat(&client, "/").unwrap();
        let is_kept = world.expiry_at(&client, 6_000) > 10_500;
        assert_eq!(is_kept, version == Version::RaftKeeper, "{version:?}");
        world.ping(&client);
        assert!(world.expiry_at(&client, 7_000) > 15_000, "{version:?}");
    }
}

#[test]
fn multi_answers_as_each_keeper_does() {
    for version in ALL {
        let mut world = World::of(version);
        let client = world.connect();
        make(&mut world, &client, "/a", PLAIN).unwrap();
        let none = world.call(&client, &Multi::new(&[])).unwrap();
        assert!(none.results.is_empty());
        let checks = |version| MultiOp::Check(Check { path: "/a".into(), version });
        let ops = [checks(-1), MultiOp::SetData(set("/a", "new", 0)), checks(1)];
        assert_eq!(world.call(&client, &Multi::new(&ops)).unwrap().results.len(), 3);
        let failed = world.call(&client, &Multi::new(&ops)).unwrap().results;
        let codes = [ErrorCode::OK, ErrorCode::BAD_VERSION, ErrorCode::RUNTIME_INCONSISTENCY];
        assert_eq!(failed, codes.map(MultiResult::Error));

        let locked = [Acl { perms: Perms::READ, scheme: "digest".into(), id: "a:b".into() }];
        make(&mut world, &client, "/locked", (CreateMode::Persistent, &locked)).unwrap();
        let ops = [MultiOp::SetData(set("/locked", "new", -1))];
        let reply = world.call(&client, &Multi::new(&ops)).map(|reply| reply.results);
        let expected = match version {
            Version::RaftKeeper => Err(ErrorCode::NO_AUTH),
            _ => Ok(vec![MultiResult::Error(ErrorCode::NO_AUTH)]),
        };
        assert_eq!(reply, expected, "{version:?}");
    }
}

#[test]
fn create2_in_a_multi_of_keeper_returns_a_stat() {
    let mut world = World::of(Version::Keeper26_6);
    let client = world.connect();
    let ops = [create("/a", CreateMode::Persistent).into()];
    let reply = world.call(&client, &Multi::new(&ops)).unwrap();
    let [MultiResult::Created { stat: Some(stat), .. }] = &reply.results[..] else {
        panic!("{reply:?}")
    };
    assert_eq!(stat.czxid, world.zk.zxid());
}
