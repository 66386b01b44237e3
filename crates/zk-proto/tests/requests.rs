//! Opcode and path of every request.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod support;

use bytes::BytesMut;
use zk_proto::*;

fn sent<R: Request>(request: &R) -> (i32, Option<&str>) {
    let mut out = BytesMut::new();
    encode_request(7, request, &mut out);
    let frame = split_frame(&mut out, FRAME_LEN_MAX_SERVER).unwrap().unwrap();
    let (header, body) = RequestHeader::split(&frame).unwrap();
    assert_eq!((header.xid, body.len()), (7, request.encoded_len()));
    (header.op, request.path())
}

#[test]
fn requests_have_their_opcode_and_path() {
    let (acl, data, mode) = (|| OPEN_ACL_UNSAFE.into(), None, CreateMode::Persistent);
    let path = || "/a".into();
    let about = Some("/a");
    for (sent, expected) in [
        (sent(&Create { path: path(), data, acl: acl(), mode }), (1, about)),
        (sent(&Delete { path: path(), version: 0 }), (2, about)),
        (sent(&Exists { path: path(), watch: true }), (3, about)),
        (sent(&GetData { path: path(), watch: true }), (4, about)),
        (sent(&SetData { path: path(), data: None, version: 0 }), (5, about)),
        (sent(&GetAcl { path: path() }), (6, about)),
        (sent(&SetAcl { path: path(), acl: acl(), aversion: 0 }), (7, about)),
        (sent(&GetChildren { path: path(), watch: true }), (8, about)),
        (sent(&Sync { path: path() }), (9, about)),
        (sent(&Ping), (11, None)),
        (sent(&GetChildren2 { path: path(), watch: true }), (12, about)),
        (sent(&Multi::new(&[])), (14, None)),
        (sent(&Create2 { path: path(), data: None, acl: acl(), mode }), (15, about)),
        (sent(&Reconfig::default()), (16, None)),
        (sent(&CheckWatches { path: path(), watcher_type: WatcherType::Any }), (17, about)),
        (sent(&RemoveWatches { path: path(), watcher_type: WatcherType::Any }), (18, about)),
        (sent(&CreateContainer { path: path(), data: None, acl: acl(), mode }), (19, about)),
        (
            sent(&CreateTtl { path: path(), data: None, acl: acl(), sequential: false, ttl_ms: 1 }),
            (21, about),
        ),
        (sent(&MultiRead::new(&[])), (22, None)),
        (sent(&AuthPacket { auth_type: 0, scheme: "digest".into(), auth: None }), (100, None)),
        (sent(&SetWatches::default()), (101, None)),
        (sent(&Sasl { token: b""[..].into() }), (102, None)),
        (sent(&GetEphemerals { prefix: path() }), (103, None)),
        (sent(&GetAllChildrenNumber { path: path() }), (104, about)),
        (sent(&SetWatches2::default()), (105, None)),
        (sent(&AddWatch { path: path(), mode: AddWatchMode::Persistent }), (106, about)),
        (sent(&WhoAmI), (107, None)),
        (sent(&CloseSession), (-11, None)),
    ] {
        assert_eq!(sent, expected);
    }
}

#[test]
fn unknown_watch_modes_and_types_are_errors() {
    for number in [-1, 6, i32::MAX] {
        let frame = [&[0, 0, 0, 1, b'/'][..], &number.to_be_bytes()].concat().into();
        let errors = [
            (AddWatch::from_frame(&frame).unwrap_err(), "mode"),
            (RemoveWatches::from_frame(&frame).unwrap_err(), "type"),
        ];
        for (error, field) in errors {
            assert_eq!((error.field, error.offset), (field, 5));
            assert_eq!(error.kind, DecodeErrorKind::UnknownValue(number));
        }
    }
}

/// A null token would make the server close the connection.
#[test]
fn null_sasl_token_is_an_error() {
    let null = support::encoded(&SaslReply { token: None });
    let error = Sasl::from_frame(&null).unwrap_err();
    assert_eq!(error.to_string(), "GetSASLRequest.token at byte 0: null buffer");
}

#[test]
fn decode_error_kinds_print_their_cause() {
    for (kind, text) in [
        (DecodeErrorKind::NullText, "null string"),
        (DecodeErrorKind::NegativeLength(-3), "negative length -3"),
        (DecodeErrorKind::UnknownCreateFlags(9), "unknown create flags 9"),
        (DecodeErrorKind::UnknownValue(9), "unknown value 9"),
    ] {
        assert_eq!(kind.to_string(), text);
    }
}
