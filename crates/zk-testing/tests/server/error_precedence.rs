//! Tests of error precedence: the client receives the error of the first check that fails.

use proto::{
    Acl, AuthPacket, Check, CreateContainer, CreateMode, CreateTtl, Delete, ErrorCode, Exists,
    GetAcl, GetAllChildrenNumber, GetChildren2, GetData, Multi, OPEN_ACL_UNSAFE, OpCode, Perms,
    SessionId, SetAcl, Sync, Zxid,
};
use zk_testing::{Settings, Version};

use crate::world::{Client, World, create, set};

/// Creates nodes and a client that has few permissions on them.
fn prepared(world: &mut World) -> Client {
    let owner = world.connect();
    let auth =
        AuthPacket { auth_type: 0, scheme: "digest".into(), auth: Some(b"owner:pw"[..].into()) };
    world.call(&owner, &auth).unwrap();
    let private = [Acl::digest(Perms::ALL, "owner", "pw")];
    world.create_with(&owner, "/private", &private).unwrap();
    world.create_with(&owner, "/private/node", &private).unwrap();
    world.create_as(&owner, "/ephemeral", CreateMode::Ephemeral).unwrap();
    world.create(&owner, "/full").unwrap();
    world.create(&owner, "/full/child").unwrap();
    world.connect()
}

#[test]
fn create_checks_arguments_acl_parent_then_node() {
    let mut world = World::with(Settings::new().without_extended_types());
    let client = prepared(&mut world);
    let bad_acl = [Acl { perms: Perms::ALL, scheme: "none".into(), id: "".into() }];
    let mut create = |path: &str, acl: &[Acl]| world.create_with(&client, path, acl).unwrap_err();

    assert_eq!(create("no-slash", &bad_acl), ErrorCode::BAD_ARGUMENTS);
    assert_eq!(create("/missing/nul\0", &bad_acl), ErrorCode::BAD_ARGUMENTS);
    assert_eq!(create("/missing/a", &bad_acl), ErrorCode::INVALID_ACL);
    assert_eq!(create("/missing/a", &[]), ErrorCode::INVALID_ACL);
    assert_eq!(create("/missing/\x01", OPEN_ACL_UNSAFE), ErrorCode::NO_NODE);
    assert_eq!(create("/private/\x01", OPEN_ACL_UNSAFE), ErrorCode::NO_AUTH);
    assert_eq!(create("/private/node", OPEN_ACL_UNSAFE), ErrorCode::NO_AUTH);
    assert_eq!(create("/ephemeral/\x01", OPEN_ACL_UNSAFE), ErrorCode::BAD_ARGUMENTS);
    assert_eq!(create("/full/child", OPEN_ACL_UNSAFE), ErrorCode::NODE_EXISTS);
    assert_eq!(create("/ephemeral/a", OPEN_ACL_UNSAFE), ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
    assert_eq!(create("/", OPEN_ACL_UNSAFE), ErrorCode::NODE_EXISTS);
    assert_eq!(create("", OPEN_ACL_UNSAFE), ErrorCode::BAD_ARGUMENTS);
}

/// Encodes a create2 body with arbitrary flags.
fn body_with_flags(path: &str, flags: i32) -> Vec<u8> {
    let mut body = bytes::BytesMut::new();
    proto::Encode::encode(&create(path, CreateMode::Persistent), &mut body);
    let at = body.len() - 4;
    body[at..].copy_from_slice(&flags.to_be_bytes());
    body.to_vec()
}

#[test]
fn create_checks_flags_before_path() {
    for (extended, ttl_flags) in
        [(true, ErrorCode::BAD_ARGUMENTS), (false, ErrorCode::UNIMPLEMENTED)]
    {
        let settings = Settings::new();
        let settings = if extended { settings } else { settings.without_extended_types() };
        let mut world = World::with(settings);
        let client = world.connect();
        let op = OpCode::Create2.code();
        for (flags, code) in [(7, ErrorCode::BAD_ARGUMENTS), (-1, ErrorCode::BAD_ARGUMENTS)] {
            let body = body_with_flags("no-slash", flags);
            assert_eq!(world.call_raw(&client, op, &body), Some(code));
        }
        for flags in [5, 6] {
            let body = body_with_flags("no-slash", flags);
            assert_eq!(world.call_raw(&client, op, &body), Some(ttl_flags));
        }
    }
}

#[test]
fn create_ttl_checks_time_to_live_before_path() {
    for extended in [true, false] {
        let settings = Settings::new();
        let settings = if extended { settings } else { settings.without_extended_types() };
        let mut world = World::with(settings);
        let client = world.connect();
        let mut create = |path: &'static str, ttl_ms: i64| {
            let (data, acl) = (None, OPEN_ACL_UNSAFE.into());
            let request = CreateTtl { path: path.into(), data, acl, sequential: false, ttl_ms };
            world.call(&client, &request).map(|reply| reply.stat.ephemeral_owner)
        };
        if extended {
            for ttl_ms in [0, -1, 1 << 40] {
                assert_eq!(create("no-slash", ttl_ms), Err(ErrorCode::BAD_ARGUMENTS));
            }
            assert_eq!(create("/a", (1 << 40) - 1), Ok(SessionId::NONE));
        } else {
            assert_eq!(create("no-slash", -1), Err(ErrorCode::UNIMPLEMENTED));
        }
    }
}

#[test]
fn delete_checks_path_acl_version_then_children() {
    let mut world = World::new();
    let client = prepared(&mut world);
    let mut delete = |path: &'static str, version: i32| {
        world.call(&client, &Delete { path: path.into(), version }).unwrap_err()
    };
    for path in ["no-slash", "/nul\0", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        assert_eq!(delete(path, 9), ErrorCode::BAD_ARGUMENTS, "{path:?}");
    }
    assert_eq!(delete("/missing/a", 9), ErrorCode::NO_NODE);
    assert_eq!(delete("/private/missing", 9), ErrorCode::NO_AUTH);
    assert_eq!(delete("/full/missing", 9), ErrorCode::NO_NODE);
    assert_eq!(delete("/full/", 9), ErrorCode::NO_NODE);
    assert_eq!(delete("/full", 9), ErrorCode::BAD_VERSION);
    assert_eq!(delete("/full", 0), ErrorCode::NOT_EMPTY);
}

#[test]
fn set_data_checks_path_node_acl_then_version() {
    let mut world = World::new();
    let client = prepared(&mut world);
    for (path, code) in [
        ("", ErrorCode::BAD_ARGUMENTS),
        ("/missing/", ErrorCode::BAD_ARGUMENTS),
        ("/missing", ErrorCode::NO_NODE),
        ("/private", ErrorCode::NO_AUTH),
        ("/full", ErrorCode::BAD_VERSION),
    ] {
        assert_eq!(world.set(&client, path, 9), Err(code), "{path:?}");
    }
}

#[test]
fn set_acl_checks_path_list_node_permission_then_version() {
    let mut world = World::new();
    let client = prepared(&mut world);
    let mut set_acl = |path: &'static str, acl: &[Acl]| {
        world
            .call(&client, &SetAcl { path: path.into(), acl: acl.into(), aversion: 9 })
            .unwrap_err()
    };
    assert_eq!(set_acl("/missing/", &[]), ErrorCode::BAD_ARGUMENTS);
    assert_eq!(set_acl("/missing", &[]), ErrorCode::INVALID_ACL);
    assert_eq!(set_acl("/missing", OPEN_ACL_UNSAFE), ErrorCode::NO_NODE);
    assert_eq!(set_acl("/private", OPEN_ACL_UNSAFE), ErrorCode::NO_AUTH);
    assert_eq!(set_acl("/full", OPEN_ACL_UNSAFE), ErrorCode::BAD_VERSION);
}

#[test]
fn check_checks_path_node_acl_then_version() {
    let mut world = World::new();
    let client = prepared(&mut world);
    let mut check = |path: &'static str| {
        let ops = [Check { path: path.into(), version: 9 }.into()];
        world.call(&client, &Multi::new(&ops)).unwrap().failure()
    };
    assert_eq!(check("/missing/"), Some((0, ErrorCode::BAD_ARGUMENTS)));
    assert_eq!(check("/missing"), Some((0, ErrorCode::NO_NODE)));
    assert_eq!(check("/private"), Some((0, ErrorCode::NO_AUTH)));
    assert_eq!(check("/full"), Some((0, ErrorCode::BAD_VERSION)));
}

#[test]
fn exists_checks_read_permission_since_3_9() {
    for (version, private) in [(Version::V3_8, None), (Version::V3_9, Some(ErrorCode::NO_AUTH))] {
        let mut world = World::of(version);
        let client = prepared(&mut world);
        assert_eq!(world.stat(&client, "/nul\0"), Err(ErrorCode::BAD_ARGUMENTS));
        assert_eq!(world.stat(&client, "/private").err(), private);
        assert_eq!(world.stat(&client, "/missing//"), Err(ErrorCode::NO_NODE));
        // The empty path is another name of the root.
        assert_eq!(world.stat(&client, ""), world.stat(&client, "/"));
    }
}

#[test]
fn reads_check_node_then_permission() {
    let mut world = World::new();
    let client = prepared(&mut world);
    for (path, code) in [
        ("/missing/", ErrorCode::NO_NODE),
        ("no-slash", ErrorCode::NO_NODE),
        ("/private", ErrorCode::NO_AUTH),
    ] {
        let data = GetData { path: path.into(), watch: true };
        assert_eq!(world.call(&client, &data).unwrap_err(), code);
        let children = GetChildren2 { path: path.into(), watch: true };
        assert_eq!(world.call(&client, &children).unwrap_err(), code);
        let number = GetAllChildrenNumber { path: path.into() };
        assert_eq!(world.call(&client, &number).unwrap_err(), code);
        assert_eq!(world.call(&client, &GetAcl { path: path.into() }).unwrap_err(), code);
        // A sync checks nothing.
        let echoed = world.call(&client, &Sync { path: path.into() }).unwrap();
        assert_eq!(echoed.path.as_deref(), Some(path));
    }
    assert_eq!(world.zk.watches(0), 0, "a read that fails leaves no watch");
    let total = world.call(&client, &GetAllChildrenNumber { path: "/".into() }).unwrap().total;
    let with_root = world.call(&client, &GetAllChildrenNumber { path: "".into() }).unwrap().total;
    assert_eq!((total, with_root), (8, 9));
}

#[test]
fn malformed_request_takes_zxid_by_operation_and_release() {
    let null_path = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    for version in [Version::V3_8, Version::V3_9] {
        let mut world = World::of(version);
        let client = world.connect();
        let mut refused = |op: OpCode, body: &[u8]| {
            let before = world.zk.zxid();
            let code = world.call_raw(&client, op.code(), body).unwrap();
            (code, world.zk.zxid().0 - before.0)
        };
        let truncated_takes = i64::from(version == Version::V3_8);
        let unreadable = ErrorCode::MARSHALLING_ERROR;
        assert_eq!(refused(OpCode::GetData, &null_path), (unreadable, 0));
        assert_eq!(refused(OpCode::Delete, &null_path), (unreadable, 1));
        let whole = [&null_path[..], &[0; 4]].concat();
        assert_eq!(refused(OpCode::SetData, &whole), (ErrorCode::BAD_ARGUMENTS, 1));
        assert_eq!(refused(OpCode::Delete, &[0, 0]), (unreadable, truncated_takes));
        assert_eq!(refused(OpCode::Multi, &[0, 0]), (unreadable, 1));
        assert_eq!(refused(OpCode::AddWatch, &[0, 0, 0, 0, 0, 0, 0, 9]), (unreadable, 0));
        assert_eq!(refused(OpCode::SetWatches, &[0xff; 20]), (unreadable, 0));
    }
}

#[test]
fn unknown_operation_closes_connection_but_not_session() {
    for op in [0, -10, 999] {
        let mut world = World::new();
        let client = world.connect();
        let code = world.call_raw(&client, op, &[]);
        assert_eq!(code, Some(ErrorCode::UNIMPLEMENTED));
        assert!(world.closed(client.id).is_some());
        assert!(world.zk.is_alive(client.session.session_id), "the session is not affected");
    }
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

#[test]
fn container_flags_of_plain_create_give_plain_node() {
    let mut world = World::new();
    let client = world.connect();
    // Only the operation creates a container; the flags alone create a plain node.
    world.create_as(&client, "/plain", CreateMode::Container).unwrap();
    let request = CreateContainer {
        path: "/container".into(),
        data: None,
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::Ephemeral,
    };
    let made = world.call(&client, &request).unwrap();
    assert_eq!(made.stat.ephemeral_owner, SessionId::NONE, "the ephemeral flag is not looked at");
    for path in ["/plain", "/container"] {
        let child = format!("{path}/child");
        world.create(&client, &child).unwrap();
        world.delete(&client, &child).unwrap();
    }
    assert_eq!(world.zk.reap_containers(world.now), 1);
    assert!(world.zk.tree().contains("/plain"));
}

#[test]
fn failed_write_takes_zxid_and_read_does_not() {
    let mut world = World::new();
    let client = world.connect();
    assert_eq!(world.zk.zxid(), Zxid(1), "of the session");
    let (header, _) = world.exchange(&client, &set("/missing", "", -1));
    assert_eq!((header.err, header.zxid), (ErrorCode::NO_NODE, Zxid(2)));
    let (header, _) = world.exchange(&client, &Exists { path: "/".into(), watch: false });
    assert_eq!((header.err, header.zxid), (ErrorCode::OK, Zxid(2)));
    let (header, _) = world.exchange(&client, &proto::Ping);
    assert_eq!((header.xid, header.zxid), (-2, Zxid(2)));
}
