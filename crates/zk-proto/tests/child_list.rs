//! Tests of lists of children, which are slices of a frame.

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use support::encoded;
use zk_proto::{ChildList, Decode, DecodeErrorKind};

#[test]
fn decoded_list_shares_the_memory_of_its_frame() {
    let frame = encoded(&ChildList::from_names(["b", "", "lock-0000000001"]));
    let list = ChildList::from_frame(&frame).unwrap();
    assert_eq!((list.len(), list.is_empty()), (3, false));
    assert!(list.names().eq(["b", "", "lock-0000000001"]));
    let first = list.iter().next().unwrap();
    assert_eq!(first.as_ptr(), frame[8..].as_ptr());
    assert_eq!(list.name_bytes(first).as_ptr(), first.as_ptr());
}

#[test]
fn iterator_length_counts_down_to_zero() {
    let list = ChildList::from_names(["a", "b", "c"]);
    let mut names = list.iter();
    for left in (0..3).rev() {
        assert!(names.next().is_some());
        assert_eq!(names.len(), left);
    }
    assert_eq!((names.next(), names.len()), (None, 0));
    assert_eq!(names.next(), None);
}

#[test]
fn name_bytes_copies_a_name_of_another_list() {
    let (list, other) = (ChildList::from_names(["a"]), Bytes::from_static(b"other"));
    assert_eq!(list.name_bytes(&other), other);
    assert_eq!(list.name_bytes(b""), "");
    assert_eq!(ChildList::default().name_bytes(&other), other);
}

#[test]
fn name_is_found_at_its_offset() {
    let list = ChildList::from_names(["a", "", "lock-0000000001"]);
    let places: Vec<(u32, &[u8])> = list.places().collect();
    assert_eq!(places, [(0, &b"a"[..]), (5, b""), (9, b"lock-0000000001")]);
    for (place, name) in places {
        assert_eq!(list.name_at(place), name);
    }
    assert_eq!(list.name_at(u32::MAX), b"");
}

#[test]
fn names_with_invalid_utf8_are_kept() {
    let list = ChildList::from_names([&b"a\xff"[..]]);
    assert!(list.names().eq(["a\u{fffd}"]));
    assert!(list.iter().eq([b"a\xff"]));
    assert_eq!(format!("{list:?}"), "[\"a\u{fffd}\"]");
}

#[test]
fn wrong_count_is_an_error() {
    let honest = encoded(&ChildList::from_names(["aaaa", "bbbb"]));
    for (count, kind) in [
        (3, DecodeErrorKind::Truncated { needed: 4, remaining: 0 }),
        (5, DecodeErrorKind::CountTooLarge { count: 5, room: 4 }),
        (i32::MAX, DecodeErrorKind::CountTooLarge { count: 0x7fff_ffff, room: 4 }),
    ] {
        let mut bytes = BytesMut::from(&honest[..]);
        bytes[..4].copy_from_slice(&count.to_be_bytes());
        let error = ChildList::from_frame(&bytes.freeze()).unwrap_err();
        assert_eq!(error.kind, kind);
    }
}

#[test]
fn null_name_is_an_error() {
    let mut out = BytesMut::new();
    out.put_i32(1);
    out.put_i32(-1);
    let error = ChildList::from_frame(&out.freeze()).unwrap_err();
    assert_eq!((error.kind, error.offset), (DecodeErrorKind::NullText, 4));
}
