//! Contents of the recorded multis.
//!
//! Zxids, times and session ids are those of the recording. The tests check only how these values relate to
//! each other. See `golden/README.md`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod support;

use support::golden::{data, exchange, fresh, reply, request};
use zk_proto::*;

#[test]
fn recorded_transactions_decode() {
    let exchange = exchange("multi", "every kind");
    let acl = || OPEN_ACL_UNSAFE.into();
    let ops: [MultiOp<'_>; 6] = [
        Create { path: "/g/m".into(), data: data("1"), acl: acl(), mode: CreateMode::Persistent }
            .into(),
        CreateContainer {
            path: "/g/m/box".into(),
            data: None,
            acl: acl(),
            mode: CreateMode::Container,
        }
        .into(),
        CreateTtl {
            path: "/g/m/ttl".into(),
            data: None,
            acl: acl(),
            sequential: false,
            ttl_ms: 60_000,
        }
        .into(),
        SetData { path: "/g/m".into(), data: data("22"), version: 0 }.into(),
        Check { path: "/g/m".into(), version: 1 }.into(),
        Delete { path: "/g/m/box".into(), version: -1 }.into(),
    ];
    let body = request(&exchange, OpCode::Multi);
    assert_eq!(Multi::from_frame(&body), Ok(Multi::new(&ops)));
    let (header, body) = reply(&exchange);
    let read = MultiReply::from_frame(&body).unwrap();
    assert_eq!(read.failure(), None);
    let [
        MultiResult::Created { path: plain, stat: None },
        MultiResult::Created { path: container, stat: Some(stat) },
        MultiResult::Created { path: ttl, stat: Some(_) },
        MultiResult::Set(set),
        MultiResult::Checked,
        MultiResult::Deleted,
    ] = &read.results[..]
    else {
        panic!("{read:?}");
    };
    assert_eq!([plain, container, ttl], ["/g/m", "/g/m/box", "/g/m/ttl"]);
    assert_eq!(*stat, fresh(header.zxid, stat, SessionId::NONE, 0));
    assert_eq!((set.czxid, set.mzxid, set.num_children), (header.zxid, header.zxid, 2));

    // 3.8.0 replies to a create2 as to a create.
    let (_, read) = multi_reply("multi", "create2");
    assert_eq!(read.results, [MultiResult::Created { path: "/h2".into(), stat: None }]);
    let (_, read) = multi_reply("multi", "of nothing");
    assert!(read.results.is_empty());
}

#[test]
fn recorded_failed_transactions_decode() {
    let (header, read) = multi_reply("multi", "rolled back");
    assert!(header.err.is_ok());
    let codes = [ErrorCode::OK, ErrorCode::BAD_VERSION, ErrorCode::RUNTIME_INCONSISTENCY];
    assert_eq!(read.results, codes.map(MultiResult::Error));
    assert_eq!(read.failure(), Some((1, ErrorCode::BAD_VERSION)));

    assert_eq!(multi_reply("check", "/g/m, 1").1.results, [MultiResult::Checked]);
    assert_eq!(multi_reply("check", "/g/m, 9").1.failure(), Some((0, ErrorCode::BAD_VERSION)));
}

#[test]
fn recorded_multi_read_decodes() {
    let exchange = exchange("multiRead", "");
    let ops: [MultiReadOp<'_>; 3] = [
        GetData { path: "/g/plain".into(), watch: false }.into(),
        GetChildren { path: "/g/m".into(), watch: false }.into(),
        GetData { path: "/g/nowhere".into(), watch: false }.into(),
    ];
    let body = request(&exchange, OpCode::MultiRead);
    assert_eq!(MultiRead::from_frame(&body), Ok(MultiRead::new(&ops)));
    let read = MultiReadReply::from_frame(&reply(&exchange).1).unwrap();
    let [
        MultiReadResult::Data(data),
        MultiReadResult::Children(children),
        MultiReadResult::Error(ErrorCode::NO_NODE),
    ] = &read.results[..]
    else {
        panic!("{read:?}");
    };
    assert_eq!(data.data.as_deref(), Some(&b"hello"[..]));
    assert!(children.names().eq(["ttl"]));
}

fn multi_reply(file: &str, part: &str) -> (ReplyHeader, MultiReply) {
    let (header, body) = reply(&exchange(file, part));
    (header, MultiReply::from_frame(&body).unwrap())
}
