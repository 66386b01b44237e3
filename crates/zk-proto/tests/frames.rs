//! Tests of framing: frames are split correctly however the stream arrives, and never exceed the limit.

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};
use zk_proto::{
    Delete, FRAME_LEN_MAX_SERVER, FrameError, encode_request, patch_xid, split_frame, xid,
};

fn prefixed(len: i32) -> BytesMut {
    let mut buf = BytesMut::new();
    buf.put_i32(len);
    buf
}

#[test]
fn invalid_length_is_an_error_before_the_payload_arrives() {
    for len in [-1, -5, i32::MIN] {
        assert_eq!(split_frame(&mut prefixed(len), 100), Err(FrameError::NegativeLength(len)));
    }
    let too_long = Err(FrameError::TooLong { len: 0x10_0000, max: FRAME_LEN_MAX_SERVER });
    assert_eq!(split_frame(&mut prefixed(0x10_0000), FRAME_LEN_MAX_SERVER), too_long);
    assert_eq!(split_frame(&mut prefixed(0xf_ffff), FRAME_LEN_MAX_SERVER), Ok(None));
    let text = split_frame(&mut prefixed(101), 100).unwrap_err().to_string();
    assert_eq!(text, "frame of 101 bytes is longer than the accepted 100");
}

#[test]
fn incomplete_frame_reserves_nothing_and_changes_nothing() {
    let mut buf = prefixed(0xf_ffff);
    let capacity = buf.capacity();
    assert_eq!(split_frame(&mut buf, FRAME_LEN_MAX_SERVER), Ok(None));
    assert_eq!((buf.len(), buf.capacity()), (4, capacity));
}

#[test]
fn empty_frame_is_a_frame() {
    assert_eq!(split_frame(&mut prefixed(0), 0), Ok(Some(Bytes::new())));
}

proptest! {
    #![proptest_config(support::config())]

    #[test]
    fn frames_are_independent_of_read_boundaries(
        payloads in vec(vec(any::<u8>(), 0..30), 0..6),
        piece_len in 1_usize..20,
    ) {
        let mut stream = BytesMut::new();
        for payload in &payloads {
            stream.put_i32(i32::try_from(payload.len()).unwrap());
            stream.put_slice(payload);
        }
        let (mut buf, mut frames) = (BytesMut::new(), Vec::new());
        for piece in stream.chunks(piece_len) {
            buf.extend_from_slice(piece);
            while let Some(frame) = split_frame(&mut buf, 30).unwrap() {
                frames.push(frame);
            }
        }
        prop_assert_eq!(frames, payloads);
        prop_assert!(buf.is_empty());
    }
}

#[test]
fn patch_xid_sets_the_xid_of_a_queued_request() {
    let request = Delete { path: "/a".into(), version: 3 };
    let (mut queued, mut sent) = (BytesMut::new(), BytesMut::new());
    encode_request(0, &request, &mut queued);
    encode_request(0x0102_0304, &request, &mut sent);
    patch_xid(&mut queued, 0x0102_0304);
    assert_eq!(queued, sent);

    let mut short = [9; 7];
    patch_xid(&mut short, 1);
    assert_eq!(short, [9; 7]);
}

#[test]
fn ordinary_xids_stay_positive_and_below_the_maximum() {
    assert_eq!(xid::next(xid::FIRST), 2);
    assert_eq!(xid::next(i32::MAX - 2), i32::MAX - 1);
    for last in [i32::MAX - 1, i32::MAX, i32::MIN, -8, -4, -2, -1, 0] {
        assert_eq!(xid::next(last), xid::FIRST);
    }
}
