//! Tests of multi: the end marker `done`, lists bounded by their frame, and the allowed operations.

mod support;

use bytes::Bytes;
use support::{encoded, hex};
use zk_proto::{DecodeErrorKind::*, *};

fn frame(text: &str) -> Bytes {
    hex(text).into()
}

#[test]
fn error_result_does_not_end_the_list() {
    let reply = frame(
        "ffffffff 00 00000000 00000000    // an error of code 0
         ffffffff 00 ffffff99 ffffff99    // BadVersion
         ffffffff 01 ffffffff             // the end
         0000000d 00 00000000             // behind it",
    );
    let reply = MultiReply::from_frame(&reply).unwrap();
    let codes = [ErrorCode::OK, ErrorCode::BAD_VERSION];
    assert_eq!(reply.results, codes.map(MultiResult::Error));
    assert_eq!(reply.failure(), Some((1, ErrorCode::BAD_VERSION)));
}

#[test]
fn done_header_ends_the_list_whatever_its_type() {
    for end in ["0000000d 01 00000000", "ffffffff 07 ffffffff", "00000063 01 7fffffff"] {
        let end = frame(end);
        assert!(Multi::from_frame(&end).unwrap().ops.is_empty());
        assert!(MultiRead::from_frame(&end).unwrap().ops.is_empty());
        let reply = MultiReply::from_frame(&end).unwrap();
        assert_eq!((reply.results.len(), reply.failure()), (0, None));
        assert!(MultiReadReply::from_frame(&end).unwrap().results.is_empty());
    }
}

/// 3.7.2 and 3.8.2 send a Stat for a create2, and older servers for a createContainer.
#[test]
fn created_result_decodes_with_and_without_stat() {
    let bare = frame("00000001 00 00000000 00000002 2f61  ffffffff 01 ffffffff");
    let path = || "/a".to_owned();
    let results = vec![MultiResult::Created { path: path(), stat: None }];
    assert_eq!(MultiReply::from_frame(&bare).unwrap(), MultiReply { results });

    let stat = Stat { czxid: Zxid(7), data_length: 3, ..Stat::default() };
    let full = frame(
        "0000000f 00 00000000                                 // create2
         00000002 2f61                                        // /a
         0000000000000007 0000000000000000                    // czxid, mzxid
         0000000000000000 0000000000000000                    // ctime, mtime
         00000000 00000000 00000000 0000000000000000          // versions, ephemeralOwner
         00000003 00000000 0000000000000000                   // dataLength, numChildren, pzxid
         ffffffff 01 ffffffff",
    );
    let reply =
        MultiReply { results: vec![MultiResult::Created { path: path(), stat: Some(stat) }] };
    assert_eq!(MultiReply::from_frame(&full).as_ref(), Ok(&reply));
    assert_eq!(encoded(&reply), full);
}

#[test]
fn multi_rejects_operations_it_does_not_support() {
    fn rejected<'a, T: Decode<'a> + std::fmt::Debug>(codes: &[i32], frames: &'a mut Vec<Bytes>) {
        frames
            .extend(codes.iter().map(|code| [&code.to_be_bytes()[..], &[0; 200]].concat().into()));
        for (code, frame) in codes.iter().zip(&*frames) {
            let error = T::from_frame(frame).unwrap_err();
            assert_eq!((error.field, error.offset, error.kind), ("type", 0, UnknownValue(*code)));
        }
    }
    // setACL, deleteContainer, multi, getData, createSession.
    rejected::<Multi<'_>>(&[7, 20, 14, 4, -10, -1, i32::MIN], &mut Vec::new());
    rejected::<MultiRead<'_>>(&[5, 12, 22, -1], &mut Vec::new());
    rejected::<MultiReply>(&[4, 8, 14, 19, 21, -2], &mut Vec::new());
    rejected::<MultiReadReply>(&[1, 5, 12, 22, -2], &mut Vec::new());
}

#[test]
fn borrowed_and_owned_operations_are_equal() {
    let (acl, data) = (|| OPEN_ACL_UNSAFE.into(), None);
    let (mode, container) = (CreateMode::Ephemeral, CreateMode::Container);
    let ops: [MultiOp<'_>; 7] = [
        Create { path: "/1".into(), data, acl: acl(), mode }.into(),
        Create2 { path: "/2".into(), data: None, acl: acl(), mode }.into(),
        CreateContainer { path: "/3".into(), data: None, acl: acl(), mode: container }.into(),
        CreateTtl { path: "/4".into(), data: None, acl: acl(), sequential: true, ttl_ms: 5 }.into(),
        Delete { path: "/5".into(), version: 0 }.into(),
        SetData { path: "/6".into(), data: None, version: 0 }.into(),
        Check { path: "/7".into(), version: 0 }.into(),
    ];
    let borrowed = Multi::new(&ops);
    let owned = Multi { ops: ops.to_vec().into() };
    assert_eq!(borrowed, owned);
    assert_eq!(Multi { ops: ops[..].into() }, owned);
    assert_eq!(encoded(&borrowed), encoded(&owned));
    let names: Vec<_> = ops.iter().map(|op| format!("{} {}", op.op().name(), op.path())).collect();
    assert_eq!(
        names.join(", "),
        "create /1, create2 /2, createContainer /3, createTTL /4, delete /5, setData /6, check /7"
    );

    let reads: [MultiReadOp<'_>; 2] = [
        GetData { path: "/1".into(), watch: false }.into(),
        GetChildren { path: "/2".into(), watch: false }.into(),
    ];
    let request = MultiRead::new(&reads);
    assert!(request.ops.iter().map(MultiReadOp::path).eq(["/1", "/2"]));
    assert_eq!((request.path(), borrowed.path()), (None, None));
}

#[test]
fn results_with_ok_errors_only_are_a_failure() {
    let failure = |codes: &[ErrorCode]| {
        let results = codes.iter().map(|code| MultiResult::Error(*code)).collect();
        MultiReply { results }.failure()
    };
    let (ok, broken) = (ErrorCode::OK, ErrorCode::RUNTIME_INCONSISTENCY);
    assert_eq!(failure(&[]), None);
    assert_eq!(failure(&[ok]), Some((0, broken)));
    assert_eq!(failure(&[ok, ok]), Some((0, broken)));
    assert_eq!(failure(&[ok, ErrorCode::NO_NODE, broken]), Some((1, ErrorCode::NO_NODE)));
    let results = vec![MultiResult::Checked, MultiResult::Error(ok)];
    assert_eq!(MultiReply { results }.failure(), Some((1, broken)));
}
