//! Allocations of encoding and decoding.

use allocation_counter::measure;
use bytes::BytesMut;
use zk_proto::{
    AuthPacket, Check, ChildList, ChildrenReply, Create2, CreateMode, Decode, Encode, GetChildren2,
    GetData, Multi, MultiReply, MultiResult, OPEN_ACL_UNSAFE, Ping, SetData, SetWatches2, Stat,
    Zxid, encode_request, xid,
};

fn reply(len: u32) -> bytes::Bytes {
    // The stride has no common factor with the modulus, so every number occurs once.
    let name = |n: u32| format!("_c_0b7f36dc-3cc2-4b57-9c3e-{n:012x}-lock-{n:010}");
    let names: Vec<String> =
        (0..len).map(|n| name((n.wrapping_mul(7919) + 13) % len.next_power_of_two())).collect();
    assert!(names.iter().all(|name| name.len() == 55));
    let reply = ChildrenReply { children: ChildList::from_names(names), stat: Stat::default() };
    let mut out = BytesMut::new();
    reply.encode(&mut out);
    // A received frame shares its buffer. The first clone of any other one allocates.
    out.split().freeze()
}

#[test]
fn child_list_allocates_nothing_per_child() {
    for len in [1, 1_000, 100_000] {
        let frame = reply(len);
        let decoding = measure(|| drop(ChildrenReply::from_frame(&frame).unwrap()));
        assert_eq!(decoding.count_total, 0, "decoding {len} children");

        let ChildrenReply { children, .. } = ChildrenReply::from_frame(&frame).unwrap();
        let walking = measure(|| assert!(children.iter().all(|name| !name.is_empty())));
        assert_eq!(walking.count_total, 0, "walking {len} children");
    }
}

#[test]
fn multi_reply_takes_at_most_12_bytes_of_memory_per_byte() {
    // The shortest result has nine bytes on the wire. A growing vector has the most spare capacity just above
    // a power of two.
    let path = |len| MultiResult::Created { path: "/".repeat(len), stat: None };
    let stat = || MultiResult::Set(Stat::default());
    for kind in [MultiResult::Deleted, path(0), path(1), path(1_000), stat()] {
        for count in [1, 2, 5, 64, 65, 4_096, 4_097, 65_537, 100_000] {
            let mut out = BytesMut::new();
            MultiReply { results: vec![kind.clone(); count] }.encode(&mut out);
            let frame = out.freeze();
            let decoding = measure(|| drop(MultiReply::from_frame(&frame).unwrap()));
            let max = 12 * u64::try_from(frame.len()).unwrap();
            assert!(decoding.bytes_max <= max, "{count} times {kind:?}: {decoding:?}");
        }
    }
}

#[test]
fn request_encoding_into_a_grown_buffer_allocates_nothing() {
    let create = Create2 {
        path: "/locks/_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-".into(),
        data: Some(b"10.0.0.1"[..].into()),
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::EphemeralSequential,
    };
    let list = GetChildren2 { path: "/locks".into(), watch: false };
    let watch = GetData { path: "/locks/lock-0000000001".into(), watch: true };
    let set = SetData { path: "/state".into(), data: Some(b"on"[..].into()), version: 3 };
    let guard = Check { path: "/locks/lock-0000000001".into(), version: 0 };
    let ops = [guard.into(), set.clone().into(), create.clone().into()];
    let multi = Multi::new(&ops);
    let auth = AuthPacket { auth_type: 0, scheme: "digest".into(), auth: Some(b"u:p"[..].into()) };
    let rearm = SetWatches2 {
        relative_zxid: Zxid(7),
        data: vec!["/a".into(), "/b".into()],
        persistent: vec!["/c".into()],
        ..SetWatches2::default()
    };
    let mut out = BytesMut::with_capacity(4096);
    let mut round = |xid| {
        out.clear();
        encode_request(xid, &create, &mut out);
        encode_request(xid + 1, &list, &mut out);
        encode_request(xid + 2, &watch, &mut out);
        encode_request(xid + 3, &set, &mut out);
        encode_request(xid + 4, &multi, &mut out);
        encode_request(xid::PING, &Ping, &mut out);
        encode_request(xid::AUTH, &auth, &mut out);
        encode_request(xid::SET_WATCHES, &rearm, &mut out);
    };
    round(1);
    let steady = measure(|| {
        for xid in 2..100 {
            round(xid);
        }
    });
    assert_eq!(steady.count_total, 0, "{steady:?}");
}
