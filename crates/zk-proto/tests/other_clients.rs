//! Regression tests for decoder bugs of other Rust clients. Each has the bug's number in our list: K for
//! `zookeeper-client` 0.11, A for `zookeeper-async` 5.0.

use bytes::{BufMut, Bytes, BytesMut};
use zk_proto::{ChildrenReply, DataReply, Decode, FrameError, WatcherEvent, split_frame};

fn children_with_count(count: i32) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_i32(count);
    frame.put_slice(&[0; 68]);
    frame.freeze()
}

#[test]
fn k7_oversized_count_is_rejected_without_allocation() {
    let frame = children_with_count(i32::MAX);
    let made = allocation_counter::measure(|| {
        assert!(ChildrenReply::from_frame(&frame).is_err());
    });
    assert!(made.bytes_max < 4_096, "{made:?}");
}

#[test]
fn k8_truncated_body_is_an_error_at_every_length() {
    let mut whole = BytesMut::new();
    whole.put_i32(3);
    whole.put_slice(b"abc");
    whole.put_slice(&[0; 68]);
    let whole = whole.freeze();
    assert!(DataReply::from_frame(&whole).is_ok());
    for len in 0..whole.len() {
        assert!(DataReply::from_frame(&whole.slice(..len)).is_err(), "{len} bytes");
    }
}

#[test]
fn k9_oversized_frame_is_rejected_by_its_length() {
    for len in [1_000_001, i32::MAX, -1, i32::MIN] {
        let mut buffer = BytesMut::new();
        buffer.put_i32(len);
        let refused: Result<Option<Bytes>, FrameError> = split_frame(&mut buffer, 1_000_000);
        assert!(refused.is_err(), "{len}");
        assert!(buffer.capacity() < 4_096);
    }
}

#[test]
fn a6_negative_count_and_invalid_utf8_do_not_panic() {
    for count in [-1, -2, i32::MIN] {
        // As in Java, a null vector reads as an empty one.
        let reply = ChildrenReply::from_frame(&children_with_count(count)).unwrap();
        assert!(reply.children.is_empty(), "{count}");
    }
    let mut event = BytesMut::new();
    event.put_i32(1);
    event.put_i32(3);
    event.put_i32(2);
    event.put_slice(&[0xff, 0xfe]);
    assert_eq!(WatcherEvent::from_frame(&event.freeze()).unwrap().path, "\u{fffd}\u{fffd}");
}
