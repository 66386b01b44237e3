//! Lengths and counts are checked against the bytes that have arrived.

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use support::encoded;
use zk_proto::{DecodeErrorKind::*, *};

/// Returns a count, followed by `rest` bytes with value 1.
fn counted(count: i32, rest: usize) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(count);
    out.put_bytes(1, rest);
    out.freeze()
}

fn ints(frame: &Bytes) -> Result<Vec<i32>, DecodeError> {
    Reader::new(frame, "test").vector("ints", 4, |r| r.i32("int"))
}

#[test]
fn oversized_count_is_rejected_before_reading_elements() {
    let frame = counted(i32::MAX, 20);
    let mut calls = 0;
    let error = Reader::new(&frame, "test")
        .vector("ints", 4, |r| {
            calls += 1;
            r.i32("int")
        })
        .unwrap_err();
    assert_eq!(error.kind, CountTooLarge { count: 0x7fff_ffff, room: 5 });
    assert_eq!((error.record, error.field, error.offset), ("test", "ints", 0));
    assert_eq!(calls, 0);
    assert_eq!(ints(&counted(6, 20)).unwrap_err().kind, CountTooLarge { count: 6, room: 5 });
}

#[test]
fn valid_count_reserves_the_exact_capacity() {
    let list = ints(&counted(5, 20)).unwrap();
    assert_eq!((list.len(), list.capacity()), (5, 5));
}

#[test]
fn element_beyond_the_frame_is_truncated() {
    // The frame has room for five elements of four bytes, but each string announces 0x01010101 bytes.
    let frame = counted(5, 20);
    let error = Reader::new(&frame, "test").vector("texts", 4, |r| r.text("text")).unwrap_err();
    assert_eq!(error.kind, Truncated { needed: 0x0101_0101, remaining: 16 });
    assert_eq!((error.field, error.offset), ("text", 8));
}

#[test]
fn count_is_limited_for_elements_of_zero_length() {
    let frame = counted(i32::MAX, 20);
    let error = Reader::new(&frame, "test").vector("units", 0, |_| Ok(())).unwrap_err();
    assert_eq!(error.kind, CountTooLarge { count: 0x7fff_ffff, room: 20 });
}

#[test]
fn negative_count_decodes_as_empty() {
    for count in [-1, -2, -5, i32::MIN] {
        assert_eq!(ints(&counted(count, 20)), Ok(vec![]));
        let frame = counted(count, 0);
        let list = ChildList::from_frame(&frame).unwrap();
        assert!(list.is_empty());
        assert_eq!(list.iter().count(), 0);
    }
}

#[test]
fn buffer_lengths_are_checked() {
    let read = |len, rest| Reader::new(&counted(len, rest), "test").buffer("data");
    assert_eq!(read(-1, 4), Ok(None));
    assert_eq!(read(0, 4), Ok(Some(Bytes::new())));
    assert_eq!(read(4, 4).unwrap().unwrap(), &[1; 4][..]);
    for len in [-2, i32::MIN] {
        assert_eq!(read(len, 4).unwrap_err().kind, NegativeLength(len));
    }
    let error = read(i32::MAX, 4).unwrap_err();
    assert_eq!(error.kind, Truncated { needed: 0x7fff_ffff, remaining: 4 });
    assert_eq!(
        error.to_string(),
        "test.data at byte 4: needs 2147483647 bytes, the frame has 4 left",
    );
}

#[test]
fn string_lengths_are_checked() {
    let read = |len, rest| {
        let frame = counted(len, rest);
        Reader::new(&frame, "test").text("path").map(|text| text.into_owned())
    };
    assert_eq!(read(2, 2).unwrap(), "\u{1}\u{1}");
    assert_eq!(read(-1, 2).unwrap_err().kind, NullText);
    assert_eq!(read(-3, 2).unwrap_err().kind, NegativeLength(-3));
}

#[test]
fn null_password_decodes_as_empty() {
    let bytes = [&[0; 24][..], &[0xff; 4]].concat().into();
    let request = ConnectRequest::from_frame(&bytes).unwrap();
    assert_eq!((&request.password[..], request.read_only), (&b""[..], None));
}

#[test]
fn nonzero_byte_decodes_as_true() {
    for (byte, value) in [(0, false), (1, true), (7, true), (0xff, true)] {
        assert_eq!(Reader::new(&Bytes::from(vec![byte]), "test").bool("watch"), Ok(value));
    }
}

#[test]
fn decoded_data_shares_the_memory_of_the_frame() {
    let frame = encoded(&DataReply { data: Some("payload".into()), stat: Stat::default() });
    let data = DataReply::from_frame(&frame).unwrap().data.unwrap();
    assert_eq!(data.as_ptr(), frame[4..].as_ptr());
}

#[test]
fn unknown_create_flags_are_reported() {
    let request = Create2 {
        path: "/a".into(),
        data: None,
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::Persistent,
    };
    let mut bytes = BytesMut::from(&encoded(&request)[..]);
    for flags in [5, 6, 7, -1, i32::MAX] {
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&flags.to_be_bytes());
        let error = Create2::from_frame(&bytes.clone().freeze()).unwrap_err();
        assert_eq!(error.kind, UnknownCreateFlags(flags));
        assert_eq!((error.record, error.field, error.offset), ("CreateRequest", "flags", at));
    }
}

/// A server accepts such a request in its checks and then terminates its process.
#[test]
fn create_ttl_rejects_flags_of_other_modes() {
    let request = CreateTtl {
        path: "/a".into(),
        data: None,
        acl: OPEN_ACL_UNSAFE.into(),
        sequential: false,
        ttl_ms: -1,
    };
    let mut bytes = BytesMut::from(&encoded(&request)[..]);
    let at = bytes.len() - 12;
    assert_eq!(bytes[at..at + 4], [0, 0, 0, 5]);
    for flags in [0, 3, 4, 7, -1] {
        bytes[at..at + 4].copy_from_slice(&i32::to_be_bytes(flags));
        let error = CreateTtl::from_frame(&bytes.clone().freeze()).unwrap_err();
        assert_eq!((error.kind, error.offset), (UnknownCreateFlags(flags), at));
    }
}

#[test]
fn opt_vector_distinguishes_null_from_empty() {
    for (count, expected) in [(-1, None), (-5, Some(vec![])), (0, Some(vec![])), (1, Some(vec![7]))]
    {
        let bytes = [i32::to_be_bytes(count), 7_i32.to_be_bytes()].concat();
        let frame = Bytes::from(bytes);
        let mut r = Reader::new(&frame, "test");
        assert_eq!(r.opt_vector("ints", 4, |r| r.i32("int")), Ok(expected), "{count}");
    }
}
