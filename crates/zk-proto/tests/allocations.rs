//! What is allocated where it matters, counted.

use allocation_counter::measure;
use bytes::BytesMut;
use zk_proto::{
    ChildList, ChildrenReply, Create2, CreateMode, Decode, Encode, GetChildren2, GetData, KeyRule,
    OPEN_ACL, Stat, encode_request,
};

const MUTEX: KeyRule<'static> = KeyRule::new(&["lock-"]);

fn reply(len: u32, foreign: bool) -> (bytes::Bytes, String) {
    // Odd multipliers permute: every number once, in no order.
    let name = |n: u32| format!("_c_0b7f36dc-3cc2-4b57-9c3e-{n:012x}-lock-{n:010}");
    let mut names: Vec<String> =
        (0..len).map(|n| name((n.wrapping_mul(7919) + 13) % len.next_power_of_two())).collect();
    if foreign {
        names.extend(["zzz".to_owned(), "lock--000000005".to_owned()]);
    }
    let own = names[0].clone();
    let reply = ChildrenReply { children: ChildList::from_names(names), stat: Stat::default() };
    let mut out = BytesMut::new();
    reply.encode(&mut out);
    (out.freeze(), own)
}

#[test]
fn a_list_costs_no_allocation_per_child() {
    for len in [1, 1_000, 100_000] {
        let (frame, own) = reply(len, true);
        let decoding = measure(|| drop(ChildrenReply::from_frame(&frame).unwrap()));
        assert_eq!(decoding.count_total, 0, "decoding {len} children");

        let ChildrenReply { children, .. } = ChildrenReply::from_frame(&frame).unwrap();
        let walking = measure(|| assert!(children.iter().all(|name| !name.is_empty())));
        assert_eq!(walking.count_total, 0, "walking {len} children");

        let ranking = measure(|| assert!(children.rank(own.as_bytes(), MUTEX).is_some()));
        assert_eq!(ranking.count_total, 0, "ranking {len} children");

        let sorting = measure(|| {
            let sorted = children.sorted(MUTEX);
            assert_eq!(sorted.iter().count(), children.len());
        });
        assert!(sorting.count_total <= 2, "sorting {len} children: {sorting:?}");
    }
}

#[test]
fn a_list_of_well_formed_names_is_sorted_with_one_allocation() {
    let (frame, _) = reply(1_000, false);
    let ChildrenReply { children, .. } = ChildrenReply::from_frame(&frame).unwrap();
    let sorting = measure(|| drop(children.sorted(MUTEX)));
    assert_eq!(sorting.count_total, 1);
    assert_eq!(sorting.bytes_total, 8 * 1_000);
}

#[test]
fn requests_are_encoded_without_an_allocation_once_the_buffer_has_grown() {
    let create = Create2 {
        path: "/locks/_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-".into(),
        data: Some(b"10.0.0.1"[..].into()),
        acl: OPEN_ACL.into(),
        mode: CreateMode::EphemeralSequential,
    };
    let list = GetChildren2 { path: "/locks".into(), watch: false };
    let watch = GetData { path: "/locks/lock-0000000001".into(), watch: true };
    let mut out = BytesMut::with_capacity(4096);
    let mut round = |xid| {
        out.clear();
        encode_request(xid, &create, &mut out);
        encode_request(xid + 1, &list, &mut out);
        encode_request(xid + 2, &watch, &mut out);
    };
    round(1);
    let steady = measure(|| {
        for xid in 2..100 {
            round(xid);
        }
    });
    assert_eq!(steady.count_total, 0, "{steady:?}");
}
