//! Fuzz target for multi, multiRead and their results: lists without a count.
//!
//! Input: a selector byte. If it is even, the rest is arbitrary bytes, decoded as each of the four lists. If
//! it is odd, the rest describes results, which are encoded by hand and have to decode again.

use bytes::{BufMut, Bytes, BytesMut};
use zk_proto::{
    Decode, ErrorCode, Multi, MultiRead, MultiReadReply, MultiReadResult, MultiReply, MultiResult,
    OpCode,
};

use crate::Input;
use crate::build::Build;
use crate::records::{Scratch, Side, body_decodes, body_round_trips, decodes, encoded, encodes};

/// Decodes lists of a multi.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(2) {
        any_bytes(&Bytes::copy_from_slice(input.rest()));
    } else {
        results(&mut input);
    }
}

fn any_bytes(body: &Bytes) {
    for op in [OpCode::Multi, OpCode::MultiRead] {
        for side in [Side::Request, Side::Reply] {
            let is_one = body_decodes(op, side, body);
            assert_eq!(body_round_trips(op, side, body), is_one);
        }
    }
    // Each entry takes at least nine bytes, and the end takes nine.
    let room = (body.len() / 9).saturating_sub(1);
    let bounds = [
        Multi::from_frame(body).map(|list| list.ops.len()),
        MultiRead::from_frame(body).map(|list| list.ops.len()),
        MultiReply::from_frame(body).map(|list| list.results.len()),
        MultiReadReply::from_frame(body).map(|list| list.results.len()),
    ];
    assert!(bounds.iter().all(|len| len.as_ref().is_ok_and(|len| *len <= room) || len.is_err()));
    if let Ok(reply) = MultiReply::from_frame(body) {
        assert_eq!(reply.failure(), failure(&reply.results));
    }
}

/// Returns the first error that is not OK, or else the first error as a `RuntimeInconsistency`.
fn failure(results: &[MultiResult]) -> Option<(usize, ErrorCode)> {
    let mut unblamed = None;
    for (at, result) in results.iter().enumerate() {
        let MultiResult::Error(code) = result else { continue };
        if code.0 != 0 {
            return Some((at, *code));
        }
        unblamed = unblamed.or(Some((at, ErrorCode(-2))));
    }
    unblamed
}

/// Encodes results with minimal headers. A decoder uses the type and `done`. It ignores the error in the
/// header, and the type at the end.
fn results(input: &mut Input<'_>) {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let (mut writes_wire, mut reads_wire) = (BytesMut::new(), BytesMut::new());
    while !input.is_empty() {
        let kind = input.below(8);
        let header_err = i32::from(input.byte());
        match kind {
            0..5 => {
                let (code, result, body) = write_result(kind, input);
                header(&mut writes_wire, code, false, header_err);
                writes_wire.put_slice(&body);
                writes.push(result);
            }
            _ => {
                let (code, result, body) = read_result(kind, input);
                header(&mut reads_wire, code, false, header_err);
                reads_wire.put_slice(&body);
                reads.push(result);
            }
        }
    }
    let end = [OpCode::Delete.code(), -1, 77][writes.len() % 3];
    header(&mut writes_wire, end, true, 0);
    header(&mut reads_wire, end, true, -1);
    check(&writes_wire.freeze(), &MultiReply { results: writes });
    check(&reads_wire.freeze(), &MultiReadReply { results: reads });
}

fn check<T>(wire: &Bytes, expected: &T)
where
    T: for<'a> Decode<'a> + zk_proto::Encode + PartialEq + std::fmt::Debug,
{
    assert_eq!(T::from_frame(wire).as_ref(), Ok(expected));
    assert!(decodes::<T>(wire, &Scratch::default()));
    encodes(expected, &Scratch::default());
    assert_eq!(expected.encoded_len(), wire.len(), "by hand and by the crate");
}

fn write_result(kind: u8, input: &mut Input<'_>) -> (i32, MultiResult, Bytes) {
    let path = input.text();
    match kind {
        0 => {
            let body = text(&path);
            (OpCode::Create.code(), MultiResult::Created { path, stat: None }, body)
        }
        1 => {
            let stat = Build::build(input);
            let body = [text(&path), encoded(&stat)].concat().into();
            (OpCode::Create2.code(), MultiResult::Created { path, stat: Some(stat) }, body)
        }
        2 => (OpCode::Delete.code(), MultiResult::Deleted, Bytes::new()),
        3 => {
            let stat = Build::build(input);
            (OpCode::SetData.code(), MultiResult::Set(stat), encoded(&stat))
        }
        _ => {
            let code = input.int();
            (-1, MultiResult::Error(ErrorCode(code)), Bytes::copy_from_slice(&code.to_be_bytes()))
        }
    }
}

fn read_result(kind: u8, input: &mut Input<'_>) -> (i32, MultiReadResult, Bytes) {
    match kind {
        5 => {
            let data = Build::build(input);
            let body = encoded(&data);
            (OpCode::GetData.code(), MultiReadResult::Data(data), body)
        }
        6 => {
            let children = Build::build(input);
            let body = encoded(&children);
            (OpCode::GetChildren.code(), MultiReadResult::Children(children), body)
        }
        _ => {
            let code = input.int();
            let body = Bytes::copy_from_slice(&code.to_be_bytes());
            (-1, MultiReadResult::Error(ErrorCode(code)), body)
        }
    }
}

fn header(out: &mut BytesMut, code: i32, done: bool, err: i32) {
    out.put_i32(code);
    out.put_u8(u8::from(done));
    out.put_i32(err);
}

fn text(text: &str) -> Bytes {
    let len = i32::try_from(text.len()).expect("short").to_be_bytes();
    [&len[..], text.as_bytes()].concat().into()
}
