//! Contents of the recorded frames about sessions, identities and watches.
//!
//! Zxids, times and session ids are those of the recording. The tests check only how these values relate to
//! each other. See `golden/README.md`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod support;

use std::borrow::Cow;
use support::golden::{data, exchange, reply, reply_to, request};
use zk_proto::*;

#[test]
fn recorded_connects_decode() {
    let connect = exchange("connect", "new ZooKeeper");
    let request = ConnectRequest::from_frame(&connect.frames[0].payload()).unwrap();
    let new = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 30_000,
        session_id: SessionId::NONE,
        password: vec![0; PASSWORD_LEN].into(),
        read_only: Some(false),
    };
    assert_eq!(request, new);
    let session = ConnectResponse::from_frame(&connect.frames[1].payload()).unwrap();
    assert_eq!((session.timeout_ms, session.read_only), (30_000, Some(false)));
    assert!(session.session_id != SessionId::NONE && session.password.len() == PASSWORD_LEN);

    let again = exchange("connect", "(setWatches)");
    let request = ConnectRequest::from_frame(&again.frames[0].payload()).unwrap();
    let response = ConnectResponse::from_frame(&again.frames[1].payload()).unwrap();
    assert!(request.last_zxid_seen > Zxid::ZERO && request.timeout_ms == 30_000);
    assert_eq!((request.session_id, request.password), (response.session_id, response.password));

    let old = exchange("connect", "as before 3.4");
    assert_eq!(old.frames.iter().map(|frame| frame.wire.len() - 4).collect::<Vec<_>>(), [44, 36]);
    assert_eq!(ConnectResponse::from_frame(&old.frames[1].payload()).unwrap().read_only, None);

    let refused = exchange("connect", "refused by a read-only server");
    let refusal = ConnectReply::Refused(ErrorCode::NOT_READ_ONLY);
    assert_eq!(ConnectReply::parse(&refused.frames[1].payload()), Ok(refusal));
}

#[test]
fn recorded_authentications_decode() {
    let _ = reply_to!(
        "auth",
        "alice",
        AuthPacket { auth_type: 0, scheme: "digest".into(), auth: data("alice:secret") }
    );
    let who = |scheme: &str, user: &str| ClientInfo { scheme: scheme.into(), user: user.into() };
    for (part, proved) in [("after addAuthInfo", "digest"), ("after SASL", "sasl")] {
        let exchange = exchange("whoAmI", part);
        assert!(request(&exchange, OpCode::WhoAmI).is_empty());
        let reply = WhoAmIReply::from_frame(&reply(&exchange).1).unwrap();
        assert_eq!(reply.identities.len(), 2);
        assert!(reply.identities.contains(&who(proved, "alice")));
        assert!(reply.identities.contains(&who("ip", "127.0.0.1")));
    }

    let exchange = exchange("sasl", "DIGEST-MD5");
    let texts: Vec<String> = exchange
        .frames
        .iter()
        .map(|frame| {
            let payload = frame.payload();
            let token = if frame.to_server {
                Sasl::from_frame(&payload.slice(RequestHeader::LEN..)).unwrap().token.into_owned()
            } else {
                let reply = SaslReply::from_frame(&payload.slice(ReplyHeader::LEN..)).unwrap();
                reply.token.unwrap().to_vec()
            };
            String::from_utf8(token).unwrap()
        })
        .collect();
    let [first, challenge, response, proof] = &texts[..] else {
        panic!("{} steps", texts.len());
    };
    assert!(first.is_empty() && challenge.contains("nonce=") && proof.starts_with("rspauth="));
    assert!(response.contains("username=\"alice\"") && !response.contains("secret"));
}

#[test]
fn server_without_sasl_replies_with_a_null_token() {
    let (_, reply) = reply_to!("sasl", "without SASL", Sasl { token: Cow::Borrowed(b"") });
    assert_eq!(reply.token, None);
}

#[test]
fn recorded_watch_operations_decode() {
    let watcher_type = WatcherType::Data;
    reply_to!("checkWatches", "", CheckWatches { path: "/g/plain".into(), watcher_type }).1;
    let watcher_type = WatcherType::Any;
    reply_to!("removeWatches", "", RemoveWatches { path: "/g/box".into(), watcher_type }).1;
    for (part, path, mode) in [
        (", PERSISTENT)", "/g/box", AddWatchMode::Persistent),
        ("RECURSIVE", "/g/box/a", AddWatchMode::PersistentRecursive),
    ] {
        let exchange = exchange("addWatch", part);
        let body = request(&exchange, OpCode::AddWatch);
        assert_eq!(AddWatch::from_frame(&body), Ok(AddWatch { path: path.into(), mode }));
        assert!(AddWatchReply::from_frame(&reply(&exchange).1).unwrap().err.is_ok());
    }
    for (file, part, event_type, path) in [
        ("notification", "create(/g/missing)", EventType::NODE_CREATED, "/g/missing"),
        ("notification", "setData", EventType::NODE_DATA_CHANGED, "/g/box"),
        ("notification", "delete", EventType::NODE_DELETED, "/g/box/a/x"),
        ("notification", "create(/g/box/c)", EventType::NODE_CHILDREN_CHANGED, "/g/box"),
        ("setWatches", "", EventType::NODE_DATA_CHANGED, "/w/data"),
        ("setWatches2", "", EventType::NODE_CREATED, "/w/later"),
    ] {
        // The notification precedes the reply that shows its effect.
        let exchange = exchange(file, part);
        assert_eq!(exchange.frames.len(), 3);
        let (header, body) = ReplyHeader::split(&exchange.frames[1].payload()).unwrap();
        assert_eq!((header.xid, header.err), (xid::NOTIFICATION, ErrorCode::OK));
        let (state, path) = (KeeperState::SYNC_CONNECTED, path.into());
        assert_eq!(WatcherEvent::from_frame(&body), Ok(WatcherEvent { event_type, state, path }));
    }
}

#[test]
fn recorded_set_watches_decode() {
    let body = request(&exchange("setWatches", ""), OpCode::SetWatches);
    let mut armed = SetWatches::from_frame(&body).unwrap();
    let reconnect = exchange("connect", "(setWatches)").frames[0].payload();
    let reconnect = ConnectRequest::from_frame(&reconnect).unwrap();
    assert_eq!(armed.relative_zxid, reconnect.last_zxid_seen);
    armed.data.sort();
    assert_eq!(armed.data, ["/w", "/w/data"]);
    assert_eq!((armed.exist, armed.child), (vec!["/w/later".into()], vec!["/w/child".into()]));

    let body = request(&exchange("setWatches2", ""), OpCode::SetWatches2);
    let armed = SetWatches2::from_frame(&body).unwrap();
    assert_eq!((armed.data, armed.exist), (vec!["/w".into()], vec!["/w/later".into()]));
    assert_eq!((armed.child, armed.persistent), (vec!["/w/child".into()], vec!["/w/child".into()]));
    assert_eq!(armed.persistent_recursive, ["/w/tree"]);
}

#[test]
fn recorded_reconfigurations_decode() {
    let (_, changed) = reply_to!(
        "reconfig",
        "no server 9",
        Reconfig {
            joining: None,
            leaving: Some("9".into()),
            new_members: None,
            from_config: Reconfig::ANY_CONFIG
        }
    );
    let config = String::from_utf8(changed.data.unwrap().to_vec()).unwrap();
    assert!(config.starts_with("server.1=") && config.contains("\nversion="));
    assert_eq!(changed.stat.data_length, i32::try_from(config.len()).unwrap());
    let (header, body) = reply(&exchange("reconfig", "null, 5)"));
    assert_eq!((header.err, body.len()), (ErrorCode::BAD_VERSION, 0));
}

#[test]
fn recorded_ping_and_close_session_decode() {
    for (file, xid, op) in
        [("ping", xid::PING, OpCode::Ping), ("closeSession", 0, OpCode::CloseSession)]
    {
        let exchange = exchange(file, "");
        assert!(request(&exchange, op).is_empty());
        let (header, body) = reply(&exchange);
        assert!(header.err.is_ok() && body.is_empty());
        assert!(header.xid == xid || op == OpCode::CloseSession);
    }
}

/// The names of the errors are those of the titles, which the Java client printed.
#[test]
fn recorded_errors_have_the_java_names() {
    for name in [
        "NoNode",
        "BadVersion",
        "NodeExists",
        "NotEmpty",
        "NoChildrenForEphemerals",
        "InvalidACL",
        "NoAuth",
        "ReconfigDisabled",
        "AuthFailed",
        "NoWatcher",
    ] {
        let (header, body) = reply(&exchange("errors", &format!("{name}:")));
        assert_eq!((header.err.name(), body.len()), (Some(name), 0));
    }
    let (header, _) = reply(&exchange("refused", "Unimplemented"));
    assert_eq!((header.err, header.zxid), (ErrorCode::UNIMPLEMENTED, Zxid(-1)));
}

#[test]
fn recorded_strings_with_invalid_utf8_decode() {
    let smile = "u\u{1f600}:x";
    let by_java = exchange("liberal", "/g/acl");
    let set = request(&by_java, OpCode::SetAcl);
    assert!(set.windows(6).any(|bytes| bytes == b"\xed\xa0\xbd\xed\xb8\x80"));
    assert_eq!(SetAcl::from_frame(&set).unwrap().acl[1].id, smile);

    let by_server = reply(&exchange("liberal", "in UTF-8")).1;
    assert!(by_server.windows(6).any(|bytes| bytes == b"\xed\xa0\xbd\xed\xb8\x80"));
    assert_eq!(AclReply::from_frame(&by_server).unwrap().acl[1].id, smile);

    let broken = request(&exchange("liberal", "no UTF-8"), OpCode::SetAcl);
    let read = SetAcl::from_frame(&broken).unwrap();
    assert!(read.acl[1].id.starts_with("u\u{fffd}") && read.acl[1].id.ends_with(":x"));
    let stored = AclReply::from_frame(&reply(&exchange("liberal", "no UTF-8")).1).unwrap();
    assert!(stored.acl[1].id.starts_with("u\u{fffd}"));
}

#[test]
fn recorded_null_paths_decode_as_empty() {
    let body = request(&exchange("liberal", "sync(null)"), OpCode::Sync);
    assert_eq!(Sync::from_frame(&body).unwrap().path, "");
    let echo = reply(&exchange("liberal", "sync(null)")).1;
    assert_eq!(SyncReply::from_frame(&echo).unwrap().path, None);
    let body = request(&exchange("liberal", "getEphemerals(null)"), OpCode::GetEphemerals);
    assert_eq!(GetEphemerals::from_frame(&body).unwrap().prefix, "");
}
