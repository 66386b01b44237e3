//! Tests of what ZooKeeper before 3.8 does otherwise. `cargo xtask conform` has compared the same
//! with 3.4.14 and 3.6.3.

use bytes::{BufMut, BytesMut};
use proto::{
    Acl, AuthPacket, Create, CreateMode, ErrorCode, EventType, Exists, GetAcl, Multi, MultiResult,
    OPEN_ACL_UNSAFE, OpCode, Perms,
};
use zk_testing::{Settings, Version};

use crate::versions::{end_of_multi, multi_header, text};
use crate::world::{Client, World, set};

/// Creates a node with flags and an ACL that are encoded already. `None` is a null ACL.
fn create(
    world: &mut World,
    client: &Client,
    path: &str,
    (flags, acl): (i32, Option<&[Entry<'_>]>),
) -> ErrorCode {
    let mut body = BytesMut::new();
    create_body(&mut body, path, flags, acl);
    world.call_raw(client, OpCode::Create.code(), &body).unwrap()
}

/// Permissions, scheme and id of an ACL entry. A scheme can be null.
type Entry<'a> = (i32, Option<&'a str>, &'a str);

/// Path, flags and ACL of a node, and the codes of 3.4 and of later releases.
type Case<'a> = (&'a str, i32, Option<&'a [Entry<'a>]>, ErrorCode, ErrorCode);

const OPEN: [Entry<'_>; 1] = [(31, Some("world"), "anyone")];

fn create_body(body: &mut BytesMut, path: &str, flags: i32, acl: Option<&[Entry<'_>]>) {
    text(body, path);
    text(body, "");
    match acl {
        None => body.put_i32(-1),
        Some(entries) => {
            body.put_i32(i32::try_from(entries.len()).unwrap());
            for (perms, scheme, id) in entries {
                body.put_i32(*perms);
                match scheme {
                    Some(scheme) => text(body, scheme),
                    None => body.put_i32(-1),
                }
                text(body, id);
            }
        }
    }
    body.put_i32(flags);
}

#[test]
fn creation_in_3_4_has_other_checks_in_another_order() {
    let null_scheme: [Entry<'_>; 1] = [(31, None, "anyone")];
    let network: [Entry<'_>; 1] = [(31, Some("ip"), "127.0.0.0/8")];
    let cases: [Case<'_>; 8] = [
        ("/a", 7, Some(&[]), ErrorCode::INVALID_ACL, ErrorCode::BAD_ARGUMENTS),
        ("/missing/a", 7, Some(&OPEN), ErrorCode::NO_NODE, ErrorCode::BAD_ARGUMENTS),
        ("/a", 4, Some(&OPEN), ErrorCode::BAD_ARGUMENTS, ErrorCode::OK),
        ("/b\u{fff0}", 0, Some(&OPEN), ErrorCode::OK, ErrorCode::BAD_ARGUMENTS),
        ("/b\u{fff1}", 0, Some(&OPEN), ErrorCode::BAD_ARGUMENTS, ErrorCode::BAD_ARGUMENTS),
        ("/b", 0, None, ErrorCode::MARSHALLING_ERROR, ErrorCode::INVALID_ACL),
        ("/b", 0, Some(&null_scheme), ErrorCode::MARSHALLING_ERROR, ErrorCode::INVALID_ACL),
        ("/b", 0, Some(&network), ErrorCode::INVALID_ACL, ErrorCode::OK),
    ];
    for version in [Version::V3_4, Version::V3_5, Version::V3_6, Version::V3_8] {
        let mut world = World::of(version);
        let client = world.connect();
        for (path, flags, acl, old, new) in cases {
            let expected = if version == Version::V3_4 { old } else { new };
            let code = create(&mut world, &client, path, (flags, acl));
            assert_eq!(code, expected, "{version:?} {path} {flags}");
        }
    }
}

#[test]
fn bad_flags_in_a_multi_of_3_4_fail_their_operation() {
    for version in [Version::V3_4, Version::V3_6] {
        let mut world = World::of(version);
        let client = world.connect();
        let mut body = BytesMut::new();
        multi_header(&mut body, OpCode::Create.code(), false);
        create_body(&mut body, "/a", 5, Some(&OPEN));
        end_of_multi(&mut body);
        world.send_raw(&client, OpCode::Multi.code(), &body);
        let (header, reply) = world.reply(&client).unwrap();
        if version == Version::V3_4 {
            let reply: <Multi<'_> as proto::Request>::Reply =
                proto::Decode::from_frame(&reply).unwrap();
            assert_eq!(reply.results, [MultiResult::Error(ErrorCode::BAD_ARGUMENTS)]);
        } else {
            assert_eq!(header.err, ErrorCode::MARSHALLING_ERROR);
        }
    }
}

#[test]
fn delete_in_3_4_finds_a_missing_node_before_permissions() {
    for (version, code) in
        [(Version::V3_4, ErrorCode::NO_NODE), (Version::V3_5, ErrorCode::NO_AUTH)]
    {
        let mut world = World::of(version);
        let client = world.connect();
        let read_only: [Entry<'_>; 1] = [(1, Some("world"), "anyone")];
        assert!(create(&mut world, &client, "/p", (0, Some(&read_only))).is_ok());
        assert_eq!(world.delete(&client, "/p/missing"), Err(code));
    }
}

#[test]
fn auth_entries_of_3_4_go_to_the_end_of_the_list() {
    for (version, first) in [(Version::V3_4, "world"), (Version::V3_5, "digest")] {
        let mut world = World::of(version);
        let client = world.connect();
        let auth = Some(b"me:secret"[..].into());
        world.send(&client, &AuthPacket { auth_type: 0, scheme: "digest".into(), auth });
        assert!(world.reply(&client).unwrap().0.err.is_ok());
        let acl: [Entry<'_>; 2] = [(31, Some("auth"), ""), (1, Some("world"), "anyone")];
        assert!(create(&mut world, &client, "/a", (0, Some(&acl))).is_ok());
        let list = world.call(&client, &GetAcl { path: "/a".into() }).unwrap().acl;
        assert_eq!((list.len(), &*list[0].scheme), (2, first), "{version:?}");
    }
}

#[test]
fn quotas_and_readers_of_events_are_checked_since_3_8() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_6, Version::V3_8] {
        let mut world = World::with(Settings::new().version(version).enforce_quota());
        let (client, other) = (world.connect(), world.connect());
        for path in ["/q", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_stats"] {
            assert!(create(&mut world, &client, path, (0, Some(&OPEN))).is_ok());
        }
        let path = "/zookeeper/quota/q/zookeeper_limits".into();
        let data = Some(b"count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=-1"[..].into());
        let (acl, mode) = (OPEN_ACL_UNSAFE.into(), CreateMode::Persistent);
        world.call(&client, &Create { path, data, acl, mode }).unwrap();
        let is_new = version == Version::V3_8;
        assert_eq!(world.call(&client, &set("/q", "12", -1)).is_err(), is_new, "{version:?}");

        world.call(&other, &Exists { path: "/secret".into(), watch: true }).unwrap_err();
        let acl = [Acl { perms: Perms::READ, scheme: "digest".into(), id: "a:b".into() }];
        let (path, data, acl) = ("/secret".into(), None, acl[..].into());
        world.call(&client, &Create { path, data, acl, mode }).unwrap();
        let created = (EventType::NODE_CREATED, "/secret".to_owned());
        let expected = if is_new { vec![] } else { vec![created] };
        assert_eq!(world.events(&other), expected, "{version:?}");
    }
}

#[test]
fn config_node_exists_since_3_5() {
    for version in [Version::V3_4, Version::V3_5] {
        let mut world = World::with(Settings::new().servers(3).version(version));
        let client = world.connect();
        let has_config = world.stat(&client, "/zookeeper/config").is_ok();
        assert_eq!(has_config, version != Version::V3_4);
    }
}
