//! Frames assembled by hand from the protocol's definition, field by field.

mod support;

use bytes::{Bytes, BytesMut};
use support::{encoded, hex};
use zk_proto::*;

const PASSWORD: [u8; 16] = [
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
];

fn frame(text: &str) -> Bytes {
    hex(text).into()
}

#[test]
fn connect_request_matches_the_definition() {
    let mut request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0x0000_0001_0000_0002),
        timeout_ms: 30_000,
        session_id: SessionId(0x0100_0000_0000_00ab),
        password: Bytes::from_static(&PASSWORD),
        read_only: None,
    };
    let old = frame(
        "00000000                                     // protocolVersion
         0000000100000002                             // lastZxidSeen
         00007530                                     // timeOut
         01000000000000ab                             // sessionId
         00000010 00112233445566778899aabbccddeeff    // passwd",
    );
    assert_eq!(old.len(), 44);
    assert_eq!(encoded(&request), old);
    assert_eq!(ConnectRequest::from_frame(&old).as_ref(), Ok(&request));

    for (byte, read_only) in [(0, false), (1, true)] {
        let new = Bytes::from([&old[..], &[byte]].concat());
        request.read_only = Some(read_only);
        assert_eq!(encoded(&request), new);
        assert_eq!(ConnectRequest::from_frame(&new).as_ref(), Ok(&request));
    }

    let mut out = BytesMut::new();
    encode_record(&request, &mut out);
    assert_eq!(out.len(), 4 + 45);
    assert_eq!(out[..4], [0, 0, 0, 45]);
}

#[test]
fn null_password_decodes_as_empty() {
    let bytes = frame("00000000 0000000000000000 00000001 0000000000000000 ffffffff");
    let request = ConnectRequest::from_frame(&bytes).unwrap();
    assert!(request.password.is_empty());
    assert_eq!(request.read_only, None);
}

#[test]
fn connect_response_matches_the_definition() {
    let mut response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 4_000,
        session_id: SessionId(0x0100_0000_0000_00ab),
        password: Bytes::from_static(&PASSWORD),
        read_only: None,
    };
    let old = frame(
        "00000000                                     // protocolVersion
         00000fa0                                     // timeOut
         01000000000000ab                             // sessionId
         00000010 00112233445566778899aabbccddeeff    // passwd",
    );
    assert_eq!(old.len(), 36);
    assert_eq!(encoded(&response), old);
    assert_eq!(ConnectReply::parse(&old), Ok(ConnectReply::Accepted(response.clone())));

    for (byte, read_only) in [(0, false), (1, true)] {
        let new = Bytes::from([&old[..], &[byte]].concat());
        response.read_only = Some(read_only);
        assert_eq!(encoded(&response), new);
        assert_eq!(ConnectReply::parse(&new), Ok(ConnectReply::Accepted(response.clone())));
    }
}

#[test]
fn connect_reply_distinguishes_rejected_from_refused() {
    let rejected = frame(
        "00000000                                     // protocolVersion
         00000000                                     // timeOut
         0000000000000000                             // sessionId
         00000010 00000000000000000000000000000000    // passwd
         00                                           // readOnly",
    );
    assert_eq!(rejected.len(), 37);
    assert_eq!(
        ConnectReply::parse(&rejected),
        Ok(ConnectReply::Rejected { read_only: Some(false) })
    );

    let refused = frame("00000000 0000000000000000 ffffff89");
    let reply = ConnectReply::parse(&refused).unwrap();
    assert_eq!(reply, ConnectReply::Refused(ErrorCode::NOT_READ_ONLY));

    assert!(ConnectReply::parse(&Bytes::new()).is_err());
}

#[test]
fn create2_request_matches_the_definition() {
    let request = Create2 {
        path: "/l/x-".into(),
        data: Some(b"hi"[..].into()),
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::EphemeralSequential,
    };
    let mut out = BytesMut::new();
    encode_request(9, &request, &mut out);
    let expected = frame(
        "00000036                    // length: 54
         00000009                    // xid
         0000000f                    // type: create2
         00000005 2f6c2f782d         // path: /l/x-
         00000002 6869               // data: hi
         00000001                    // acl: one entry
         0000001f                    //   perms: all
         00000005 776f726c64         //   scheme: world
         00000006 616e796f6e65       //   id: anyone
         00000003                    // flags",
    );
    assert_eq!(out, expected);
    let (header, body) = RequestHeader::split(&expected.slice(4..)).unwrap();
    assert_eq!(OpCode::from_code(header.op), Some(OpCode::Create2));
    assert_eq!(Create2::from_frame(&body), Ok(request));
}

#[test]
fn get_children2_reply_matches_the_definition() {
    let header = ReplyHeader { xid: 5, zxid: Zxid(0x1_0000_001c), err: ErrorCode::OK };
    let reply = ChildrenReply {
        children: ChildList::from_names(["b", "x-0000000007"]),
        stat: Stat {
            czxid: Zxid(0x11),
            mzxid: Zxid(0x12),
            ctime_ms: 0x0000_018b_cfe5_6800,
            mtime_ms: 0x0000_018b_cfe5_6801,
            version: 1,
            cversion: -1,
            aversion: 2,
            ephemeral_owner: SessionId::NONE,
            data_length: 3,
            num_children: 2,
            pzxid: Zxid(0x13),
        },
    };
    let mut out = BytesMut::new();
    encode_reply(&header, Some(&reply), &mut out);
    let expected = frame(
        "0000006d                             // length: 109
         00000005                             // xid
         000000010000001c                     // zxid
         00000000                             // err
         00000002                             // children: two
         00000001 62                          //   b
         0000000c 782d30303030303030303037    //   x-0000000007
         0000000000000011                     // czxid
         0000000000000012                     // mzxid
         0000018bcfe56800                     // ctime
         0000018bcfe56801                     // mtime
         00000001                             // version
         ffffffff                             // cversion
         00000002                             // aversion
         0000000000000000                     // ephemeralOwner
         00000003                             // dataLength
         00000002                             // numChildren
         0000000000000013                     // pzxid",
    );
    assert_eq!(out, expected);
    let (read, body) = ReplyHeader::split(&expected.slice(4..)).unwrap();
    assert_eq!(read, header);
    assert_eq!(ChildrenReply::from_frame(&body), Ok(reply));
}

#[test]
fn notification_matches_the_definition() {
    let header = ReplyHeader { xid: xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
    let event = WatcherEvent {
        event_type: EventType::NODE_DELETED,
        state: KeeperState::SYNC_CONNECTED,
        path: "/l/x".into(),
    };
    let mut out = BytesMut::new();
    encode_reply(&header, Some(&event), &mut out);
    let expected = frame(
        "00000020              // length: 32
         ffffffff              // xid
         ffffffffffffffff      // zxid
         00000000              // err
         00000002              // type: deleted
         00000003              // state: connected
         00000004 2f6c2f78     // path: /l/x",
    );
    assert_eq!(out, expected);
    let (read, body) = ReplyHeader::split(&expected.slice(4..)).unwrap();
    assert_eq!(read, header);
    assert_eq!(WatcherEvent::from_frame(&body), Ok(event));
}

#[test]
fn error_reply_matches_the_definition() {
    let header = ReplyHeader { xid: 6, zxid: Zxid(0x1d), err: ErrorCode::NO_NODE };
    let mut out = BytesMut::new();
    encode_reply::<()>(&header, None, &mut out);
    let expected = frame("00000010 00000006 000000000000001d ffffff9b");
    assert_eq!(out, expected);
    assert_eq!(ReplyHeader::split(&expected.slice(4..)), Ok((header, Bytes::new())));
}

#[test]
fn set_watches_request_matches_the_definition() {
    let request = SetWatches {
        relative_zxid: Zxid(7),
        data: vec!["/a".into()],
        exist: vec![],
        child: vec!["/b".into(), "/".into()],
    };
    let mut out = BytesMut::new();
    encode_request(xid::SET_WATCHES, &request, &mut out);
    let expected = frame(
        "0000002d                    // length: 45
         fffffff8                    // xid
         00000065                    // type: setWatches
         0000000000000007            // relativeZxid
         00000001 00000002 2f61      // dataWatches: /a
         00000000                    // existWatches
         00000002 00000002 2f62      // childWatches: /b
                  00000001 2f        //   and /",
    );
    assert_eq!(out, expected);
}

#[test]
fn null_and_empty_data_differ() {
    let set = |data| encoded(&SetData { path: "/".into(), data, version: -1 });
    assert_eq!(set(None), frame("00000001 2f ffffffff ffffffff"));
    assert_eq!(set(Some(b""[..].into())), frame("00000001 2f 00000000 ffffffff"));
}
