//! Tests of multi and multiRead.

use proto::{
    Check, Create, Create2, CreateContainer, CreateMode, CreateTtl, Delete, Encode, ErrorCode,
    GetChildren, GetData, Multi, MultiRead, MultiReadResult, MultiReply, MultiResult,
    OPEN_ACL_UNSAFE, OpCode, Zxid,
};
use zk_testing::Version;
use zk_testing::server::NodeKind;

use crate::world::{World, create, set};

const ROLLED_BACK: MultiResult = MultiResult::Error(ErrorCode::OK);
const NOT_TRIED: MultiResult = MultiResult::Error(ErrorCode::RUNTIME_INCONSISTENCY);

#[test]
fn multi_operation_sees_earlier_operations() {
    let mut world = World::of(Version::V3_9);
    let client = world.connect();
    let ops = [
        create("/a", CreateMode::Persistent).into(),
        create("/a/b", CreateMode::Ephemeral).into(),
        set("/a", "more", 0).into(),
        Check { path: "/a".into(), version: 1 }.into(),
        Delete { path: "/a/b".into(), version: 0 }.into(),
        Delete { path: "/a".into(), version: 1 }.into(),
    ];
    let before = world.zk.zxid();
    let reply = world.call(&client, &Multi::new(&ops)).unwrap();
    assert_eq!(reply.failure(), None);
    assert_eq!(world.zk.zxid(), Zxid(before.0 + 1));
    let MultiResult::Set(stat) = &reply.results[2] else { panic!("{reply:?}") };
    assert_eq!((stat.version, stat.num_children, stat.mzxid), (1, 1, Zxid(before.0 + 1)));
    assert!(!world.zk.tree().contains("/a"));
}

#[test]
fn first_failure_rolls_back_multi_and_is_reported() {
    let mut world = World::new();
    let client = world.connect();
    let ops = [
        create("/a", CreateMode::Persistent).into(),
        Delete { path: "/missing".into(), version: -1 }.into(),
        set("/", "x", 99).into(),
    ];
    let (header, _) = world.exchange(&client, &Multi::new(&ops));
    assert!(header.err.is_ok(), "the header knows nothing of it");
    let reply = world.call(&client, &Multi::new(&ops)).unwrap();
    let failed = MultiResult::Error(ErrorCode::NO_NODE);
    assert_eq!(reply, MultiReply { results: vec![ROLLED_BACK, failed, NOT_TRIED] });
    assert!(!world.zk.tree().contains("/a"));
    assert_eq!(world.zk.zxid(), Zxid(3), "each takes a zxid");
}

#[test]
fn multi_create_results_contain_stat_by_release() {
    for version in [Version::V3_8, Version::V3_9] {
        let mut world = World::of(version);
        let client = world.connect();
        let plain = create("/1", CreateMode::Persistent);
        let ops = [
            Create {
                path: "/0".into(),
                data: None,
                acl: OPEN_ACL_UNSAFE.into(),
                mode: CreateMode::Persistent,
            }
            .into(),
            plain.into(),
            CreateContainer {
                path: "/2".into(),
                data: None,
                acl: OPEN_ACL_UNSAFE.into(),
                mode: CreateMode::Container,
            }
            .into(),
            CreateTtl {
                path: "/3".into(),
                data: None,
                acl: OPEN_ACL_UNSAFE.into(),
                sequential: false,
                ttl_ms: 5,
            }
            .into(),
            // In a multi, unlike alone, the flags create a container.
            create("/4", CreateMode::Container).into(),
        ];
        let reply = world.call(&client, &Multi::new(&ops)).unwrap();
        let with_stat: Vec<bool> = reply
            .results
            .iter()
            .map(|result| matches!(result, MultiResult::Created { stat: Some(_), .. }))
            .collect();
        assert_eq!(with_stat, [false, version == Version::V3_9, true, true, true]);
        assert_eq!(world.zk.tree().node("/4").unwrap().kind(), NodeKind::Container);
    }
}

#[test]
fn empty_multi_succeeds_and_takes_zxid() {
    let mut world = World::new();
    let client = world.connect();
    assert_eq!(world.call(&client, &Multi::new(&[])), Ok(MultiReply { results: vec![] }));
    assert_eq!(world.zk.zxid(), Zxid(2));
}

/// Encodes a multi with invalid flags in its second create.
fn with_bad_flags(first: &str) -> Vec<u8> {
    let ops = [
        create(first, CreateMode::Persistent).into(),
        Create2 { path: "/bad".into(), ..create("/bad", CreateMode::Persistent) }.into(),
        create("/c", CreateMode::Persistent).into(),
    ];
    let mut body = bytes::BytesMut::new();
    Multi::new(&ops).encode(&mut body);
    let name = b"/bad\0\0\0\x04data";
    let at = body.windows(name.len()).position(|window| window == name).unwrap();
    // One ACL entry follows: count, perms, `world`, `anyone`.
    let flags = at + name.len() + 4 + 4 + (4 + 5) + (4 + 6);
    body[flags..flags + 4].copy_from_slice(&99_i32.to_be_bytes());
    body.to_vec()
}

#[test]
fn invalid_create_flags_fail_operation_or_whole_multi() {
    let mut world = World::of(Version::V3_9);
    let client = world.connect();
    let op = OpCode::Multi.code();
    let code = world.call_raw(&client, op, &with_bad_flags("/a"));
    assert_eq!(code, Some(ErrorCode::MARSHALLING_ERROR));

    for (first, expected) in [
        ("/a", vec![ROLLED_BACK, MultiResult::Error(ErrorCode::BAD_ARGUMENTS), NOT_TRIED]),
        ("/", vec![MultiResult::Error(ErrorCode::NODE_EXISTS), NOT_TRIED, NOT_TRIED]),
    ] {
        let mut world = World::of(Version::V3_8);
        let client = world.connect();
        world.send_raw(&client, op, &with_bad_flags(first));
        let (_, body) = world.reply(&client).unwrap();
        let reply = <MultiReply as proto::Decode>::from_frame(&body).unwrap();
        assert_eq!(reply.results, expected);
    }
}

#[test]
fn container_with_ephemeral_flags_refuses_children_in_multi() {
    let mut world = World::of(Version::V3_9);
    let client = world.connect();
    let container = CreateContainer {
        path: "/c".into(),
        data: None,
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::Ephemeral,
    };
    let ops = [container.into(), create("/c/x", CreateMode::Persistent).into()];
    let reply = world.call(&client, &Multi::new(&ops)).unwrap();
    assert_eq!(reply.failure(), Some((1, ErrorCode::NO_CHILDREN_FOR_EPHEMERALS)));
}

/// Encodes a multi with one create that no client would send: `path` and `acl` may be null.
fn with_one_create(path: Option<&str>, acl: &[u8], flags: i32) -> Vec<u8> {
    let mut body =
        [&OpCode::Create.code().to_be_bytes()[..], &[0], &(-1_i32).to_be_bytes()].concat();
    match path {
        Some(path) => {
            body.extend(i32::try_from(path.len()).unwrap().to_be_bytes());
            body.extend(path.as_bytes());
        }
        None => body.extend((-1_i32).to_be_bytes()),
    }
    body.extend((-1_i32).to_be_bytes()); // no data
    body.extend(acl);
    body.extend(flags.to_be_bytes());
    body.extend([&(-1_i32).to_be_bytes()[..], &[1], &(-1_i32).to_be_bytes()].concat());
    body
}

/// Covers the zxids taken by multis that cannot be parsed.
#[test]
fn unparsable_multi_takes_zxid_by_kind_and_release() {
    const NULL: [u8; 4] = (-1_i32).to_be_bytes();
    let anyone = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
    // A null ACL, which parsing rejects; a missing time to live; a null path.
    let bodies = [
        with_one_create(Some("/a"), &NULL, 0),
        with_one_create(Some("/a"), anyone, 5),
        with_one_create(None, anyone, 0),
    ];
    for (body, zxids) in bodies.iter().zip([0, 1, 1]) {
        let mut world = World::of(Version::V3_9);
        let client = world.connect();
        let before = world.zk.zxid();
        let code = world.call_raw(&client, OpCode::Multi.code(), body);
        assert_eq!(code, Some(ErrorCode::MARSHALLING_ERROR));
        assert_eq!(world.zk.zxid().0 - before.0, zxids);
    }
    // 3.8 treats a null ACL as an error of the operation.
    let mut world = World::of(Version::V3_8);
    let client = world.connect();
    let before = world.zk.zxid();
    assert_eq!(world.call_raw(&client, OpCode::Multi.code(), &bodies[0]), Some(ErrorCode::OK));
    assert_eq!(world.zk.zxid().0 - before.0, 1);
}

/// 3.8 loses the transaction and answers with the results found so far, which are none. 3.9 logs an
/// error transaction.
#[test]
fn null_path_in_multi_loses_transaction_only_in_3_8() {
    let anyone = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
    let body = with_one_create(None, anyone, 0);
    for (version, applied) in [(Version::V3_8, 0), (Version::V3_9, 1)] {
        let mut world = World::of(version);
        let client = world.connect();
        let before = world.zk.zxid();
        world.send_raw(&client, OpCode::Multi.code(), &body);
        let (header, _) = world.reply(&client).unwrap();
        assert_eq!(header.err, ErrorCode::MARSHALLING_ERROR, "{version:?}");
        assert_eq!(header.zxid.0 - before.0, applied, "{version:?}");
        assert_eq!(world.zk.zxid().0 - before.0, 1, "{version:?}");
    }
}

#[test]
fn multi_read_results_succeed_or_fail_independently() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/a").unwrap();
    let ops = [
        GetData { path: "/a".into(), watch: true }.into(),
        GetData { path: "/missing".into(), watch: true }.into(),
        GetChildren { path: "/".into(), watch: true }.into(),
    ];
    let before = world.zk.zxid();
    let reply = world.call(&client, &MultiRead::new(&ops)).unwrap();
    assert!(matches!(&reply.results[0], MultiReadResult::Data(data) if data.data.is_some()));
    assert_eq!(reply.results[1], MultiReadResult::Error(ErrorCode::NO_NODE));
    assert!(matches!(&reply.results[2], MultiReadResult::Children(names) if names.len() == 2));
    assert_eq!((world.zk.zxid(), world.zk.watches(0)), (before, 0));
}
