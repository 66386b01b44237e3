//! Contents of the recorded frames about nodes, operation by operation.
//!
//! Zxids, times and session ids are those of the recording. The tests check only how these values relate to
//! each other. See `golden/README.md`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod support;

use bytes::Bytes;
use support::golden::{data, exchange, fresh, reply_to, request};
use zk_proto::*;

/// Returns the session in which the operations were recorded.
fn session() -> ConnectResponse {
    let connect = exchange("connect", "new ZooKeeper");
    match ConnectReply::parse(&connect.frames[1].payload()) {
        Ok(ConnectReply::Accepted(response)) => response,
        other => panic!("{other:?}"),
    }
}

#[test]
fn recorded_creates_decode() {
    for (part, path, data, mode, created) in [
        ("/g/plain", "/g/plain", data("hello"), CreateMode::Persistent, "/g/plain"),
        ("/g/null", "/g/null", None, CreateMode::Persistent, "/g/null"),
        ("/g/empty", "/g/empty", data(""), CreateMode::Persistent, "/g/empty"),
        ("/g/e-", "/g/e-", data("10.0.0.1"), CreateMode::EphemeralSequential, "/g/e-0000000003"),
        ("then closeSession", "/h", data("x"), CreateMode::Persistent, "/h"),
    ] {
        let exchange = exchange("create", part);
        let expected = Create { path: path.into(), data, acl: OPEN_ACL_UNSAFE.into(), mode };
        assert_eq!(Create::from_frame(&request(&exchange, OpCode::Create)), Ok(expected));
        let (_, body) = ReplyHeader::split(&exchange.frames[1].payload()).unwrap();
        assert_eq!(CreatePathReply::from_frame(&body).unwrap().path, created);
    }
}

#[test]
fn recorded_creates_with_a_stat_decode() {
    let acl = || OPEN_ACL_UNSAFE.into();
    let mode = CreateMode::Ephemeral;
    let (zxid, reply) = reply_to!(
        "create2",
        "/g/two",
        Create2 { path: "/g/two".into(), data: data("hi"), acl: acl(), mode }
    );
    assert_eq!(reply.path, "/g/two");
    assert_eq!(reply.stat, fresh(zxid, &reply.stat, session().session_id, 2));

    let mode = CreateMode::PersistentSequential;
    let (zxid, reply) = reply_to!(
        "create2",
        "/g/s-",
        Create2 { path: "/g/s-".into(), data: None, acl: acl(), mode }
    );
    assert_eq!(reply.path, "/g/s-0000000005");
    assert_eq!(reply.stat, fresh(zxid, &reply.stat, SessionId::NONE, 0));

    let mode = CreateMode::Container;
    let (zxid, reply) = reply_to!(
        "createContainer",
        "/g/box",
        CreateContainer { path: "/g/box".into(), data: data(""), acl: acl(), mode }
    );
    assert_eq!(
        (reply.path, reply.stat),
        ("/g/box".into(), fresh(zxid, &reply.stat, SessionId::NONE, 0))
    );

    let (zxid, reply) = reply_to!(
        "createTTL",
        "/g/ttl",
        CreateTtl {
            path: "/g/ttl".into(),
            data: data("x"),
            acl: acl(),
            sequential: false,
            ttl_ms: 600_000
        }
    );
    assert_eq!(
        (reply.path, reply.stat),
        ("/g/ttl".into(), fresh(zxid, &reply.stat, SessionId::NONE, 1))
    );

    let (_, reply) = reply_to!(
        "createTTL",
        "/g/t-",
        CreateTtl {
            path: "/g/t-".into(),
            data: data("x"),
            acl: acl(),
            sequential: true,
            ttl_ms: 1
        }
    );
    assert_eq!(reply.path, "/g/t-0000000008");
}

#[test]
fn recorded_data_operations_decode() {
    let path = || "/g/plain".into();
    let (_, stat) = reply_to!("exists", "/g/plain", Exists { path: path(), watch: false });
    assert_eq!(stat, fresh(stat.czxid, &stat, SessionId::NONE, 5));
    let (_, reply) = reply_to!("getData", "/g/plain", GetData { path: path(), watch: true });
    assert_eq!((reply.data, reply.stat), (Some("hello".into()), stat));

    let (_, null) =
        reply_to!("getData", "/g/null", GetData { path: "/g/null".into(), watch: false });
    let (_, empty) =
        reply_to!("getData", "/g/empty", GetData { path: "/g/empty".into(), watch: false });
    assert_eq!((null.data, empty.data), (None, Some(Bytes::new())));

    let (zxid, set) = reply_to!(
        "setData",
        "now full",
        SetData { path: "/g/empty".into(), data: data("now full"), version: 0 }
    );
    assert_eq!((set.mzxid, set.version, set.data_length), (zxid, 1, 8));
    let (_, set) =
        reply_to!("setData", "null", SetData { path: "/g/empty".into(), data: None, version: -1 });
    assert_eq!((set.version, set.data_length), (2, 0));

    let _ = reply_to!("delete", ", 0)", Delete { path: "/g/missing".into(), version: 0 });
    let _ = reply_to!("delete", ", -1)", Delete { path: "/g/box/c".into(), version: -1 });
    let (_, echo) = reply_to!("sync", "sync", Sync { path: "/g".into() });
    assert_eq!(echo.path.as_deref(), Some("/g"));
}

#[test]
fn recorded_lists_decode() {
    let (_, list) =
        reply_to!("getChildren", "/g/box", GetChildren { path: "/g/box".into(), watch: true });
    assert!(list.names().eq(["a", "b"]));
    let (_, none) =
        reply_to!("getChildren", "/g/plain", GetChildren { path: "/g/plain".into(), watch: false });
    assert!(none.is_empty());
    let (_, reply) =
        reply_to!("getChildren2", "/g/box", GetChildren2 { path: "/g/box".into(), watch: false });
    assert_eq!((reply.children, reply.stat.num_children, reply.stat.cversion), (list, 2, 2));

    let (_, number) =
        reply_to!("getAllChildrenNumber", "", GetAllChildrenNumber { path: "/g/box".into() });
    assert_eq!(number.total, 3);
    let (_, mut all) =
        reply_to!("getEphemerals", "getEphemerals()", GetEphemerals { prefix: "/".into() });
    all.paths.sort();
    assert_eq!(all.paths, ["/g/box/a/x", "/g/e-0000000003", "/g/two"]);
    let (_, some) = reply_to!("getEphemerals", "/g/box", GetEphemerals { prefix: "/g/box".into() });
    assert_eq!(some.paths, ["/g/box/a/x"]);
}

#[test]
fn recorded_acl_operations_decode() {
    let (_, open) = reply_to!("getACL", "getACL(/g,", GetAcl { path: "/g".into() });
    assert_eq!(open.acl, OPEN_ACL_UNSAFE);

    let network = Acl::ip(Perms::READ | Perms::WRITE, "10.0.0.0/8");
    let acl = [Acl::auth(Perms::ALL), Acl::world(Perms::READ), network.clone()];
    let (_, stat) = reply_to!(
        "setACL",
        "/g/acl",
        SetAcl { path: "/g/acl".into(), acl: acl[..].into(), aversion: 0 }
    );
    assert_eq!((stat.aversion, stat.version), (1, 0));
    // The server replaced `auth` by the authenticated user, and hashed the password as `Acl::digest` does.
    let (_, reply) = reply_to!("getACL", "/g/acl", GetAcl { path: "/g/acl".into() });
    let alice = Acl::digest(Perms::ALL, "alice", "secret");
    assert_eq!(reply.acl, [alice, Acl::world(Perms::READ), network]);

    let acl = [Acl::sasl(Perms::ALL, "alice")];
    let _ = reply_to!(
        "setACL",
        "sasl",
        SetAcl { path: "/s".into(), acl: acl[..].into(), aversion: -1 }
    );
}
