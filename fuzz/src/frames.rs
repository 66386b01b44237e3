//! Fuzz target for frames of a stream that arrives in pieces, against a parser that has the whole stream.
//!
//! Input: a byte for the longest frame, the lengths of the pieces (a byte for their number, then a byte for
//! each; the last piece is the rest), then the stream.

use bytes::{Bytes, BytesMut};
use zk_proto::{FrameError, patch_xid, split_frame};

use crate::Input;

/// Splits a stream, piece by piece.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let max = usize::from(input.byte()) * 4;
    let pieces = input.bytes();
    let stream = input.rest();
    let expected = model(stream, max);

    let mut unread = stream;
    let mut buf = BytesMut::new();
    let mut frames = Vec::new();
    let mut failure = None;
    let lens = pieces.iter().map(|len| usize::from(*len)).chain([stream.len()]);
    for len in lens {
        let (piece, rest) = unread.split_at(len.min(unread.len()));
        unread = rest;
        buf.extend_from_slice(piece);
        failure = drain(&mut buf, max, &mut frames);
        if failure.is_some() {
            break;
        }
    }
    buf.extend_from_slice(unread);

    assert_eq!(frames, expected.frames);
    assert_eq!(failure, expected.failure);
    assert_eq!(buf, expected.rest);
    renumber(stream);
}

/// Splits off all complete frames. An incomplete frame must stay unchanged.
fn drain(buf: &mut BytesMut, max: usize, frames: &mut Vec<Bytes>) -> Option<FrameError> {
    loop {
        let before = (buf.clone(), buf.capacity());
        match split_frame(buf, max) {
            Ok(Some(frame)) => {
                assert!(frame.len() <= max);
                frames.push(frame);
            }
            Ok(None) => {
                assert_eq!((&*buf, buf.capacity()), (&before.0, before.1));
                return None;
            }
            Err(error) => {
                assert_eq!(*buf, before.0);
                assert_eq!(split_frame(buf, max), Err(error), "the stream cannot be read on");
                assert!(!error.to_string().is_empty());
                return Some(error);
            }
        }
    }
}

/// Expected result of splitting a stream.
struct Parsed<'a> {
    frames: Vec<&'a [u8]>,
    rest: &'a [u8],
    failure: Option<FrameError>,
}

fn model(stream: &[u8], max: usize) -> Parsed<'_> {
    let mut parsed = Parsed { frames: Vec::new(), rest: stream, failure: None };
    while parsed.rest.len() >= 4 {
        let announced = i32::from_be_bytes(std::array::from_fn(|at| parsed.rest[at]));
        if announced < 0 {
            parsed.failure = Some(FrameError::NegativeLength(announced));
            break;
        }
        let len = usize::try_from(announced).expect("not negative");
        if len > max {
            parsed.failure = Some(FrameError::TooLong { len, max });
            break;
        }
        if parsed.rest.len() - 4 < len {
            break;
        }
        parsed.frames.push(&parsed.rest[4..4 + len]);
        parsed.rest = &parsed.rest[4 + len..];
    }
    parsed
}

/// Checks that a new xid changes the four bytes after the length, and nothing in a shorter frame.
fn renumber(stream: &[u8]) {
    let mut frame = stream.to_vec();
    patch_xid(&mut frame, 0x0102_0304);
    let mut expected = stream.to_vec();
    if expected.len() >= 8 {
        expected[4..8].copy_from_slice(&[1, 2, 3, 4]);
    }
    assert_eq!(frame, expected);
}
