//! multi: from the request to the transaction, in the two ways releases read it.

use bytes::Bytes;
use proto::wire::Reader;
use proto::{
    Check, Create, Create2, CreateContainer, CreateTtl, Decode, DecodeError, DecodeErrorKind,
    Delete, ErrorCode, Multi, MultiOp, OpCode, SetData,
};

use super::prepare::Preparation;
use super::txn::TxnBody;
use super::version::Version;
use super::writes::flags_refusal;

/// Validates a multi. One that cannot be read takes a zxid too.
pub(super) fn prepare(mut preparation: Preparation<'_>, version: Version, body: &Bytes) -> TxnBody {
    let unreadable = TxnBody::Error(ErrorCode::MARSHALLING_ERROR);
    let error = match Multi::from_frame(body) {
        Ok(request) => {
            let len = request.ops.len();
            return match preparation.multi(&request.ops) {
                Ok(ops) => TxnBody::Multi(ops),
                Err((at, code)) => TxnBody::FailedMulti { len, at, code },
            };
        }
        Err(error) => error,
    };
    let DecodeErrorKind::UnknownCreateFlags(flags) = error.kind else { return unreadable };
    if !version.bad_flags_fail_their_op() {
        return unreadable;
    }
    // Only the operation with the bad flags fails; what stands before it may fail first.
    let Some((before, bad_type)) = ops_before(body, error) else { return unreadable };
    let Some(behind) = count_behind(body, error, bad_type) else { return unreadable };
    let len = before.len() + 1 + behind;
    match preparation.multi(&before) {
        Err((at, code)) => TxnBody::FailedMulti { len, at, code },
        Ok(_) => {
            let code = flags_refusal(flags, preparation.has_extended_types());
            TxnBody::FailedMulti { len, at: before.len(), code }
        }
    }
}

/// The operations in front of the one whose flags are bad, and the type of that.
fn ops_before(body: &Bytes, bad: DecodeError) -> Option<(Vec<MultiOp<'_>>, i32)> {
    let mut r = Reader::new(body, "multi");
    let mut ops = Vec::new();
    loop {
        let (op_type, done) = header(&mut r)?;
        if done {
            return None;
        }
        match op(&mut r, op_type) {
            Ok(op) => ops.push(op),
            Err(error) if error.offset == bad.offset => return Some((ops, op_type)),
            Err(_) => return None,
        }
    }
}

/// How many operations stand behind the one whose flags are bad; `None` if they cannot be read.
fn count_behind(body: &Bytes, bad: DecodeError, bad_type: i32) -> Option<usize> {
    let behind_flags = |op_type| if op_type == OpCode::CreateTtl.code() { 12 } else { 4 };
    let mut start = bad.offset + behind_flags(bad_type);
    let mut count = 0;
    loop {
        let rest = body.slice(start.min(body.len())..);
        let mut r = Reader::new(&rest, "multi");
        loop {
            let (op_type, done) = header(&mut r)?;
            if done {
                return Some(count);
            }
            match op(&mut r, op_type).map_err(|error| (error.kind, error.offset)) {
                Ok(_) => count += 1,
                Err((DecodeErrorKind::UnknownCreateFlags(_), offset)) => {
                    count += 1;
                    start += offset + behind_flags(op_type);
                    break;
                }
                Err(_) => return None,
            }
        }
    }
}

/// The type of the next operation, and whether it is the end instead.
fn header(r: &mut Reader<'_>) -> Option<(i32, bool)> {
    let op_type = r.i32("type").ok()?;
    let done = r.bool("done").ok()?;
    r.i32("err").ok()?;
    Some((op_type, done))
}

fn op<'a>(r: &mut Reader<'a>, op_type: i32) -> Result<MultiOp<'a>, DecodeError> {
    Ok(match OpCode::from_code(op_type) {
        Some(OpCode::Create) => Create::decode(r)?.into(),
        Some(OpCode::Create2) => Create2::decode(r)?.into(),
        Some(OpCode::CreateContainer) => CreateContainer::decode(r)?.into(),
        Some(OpCode::CreateTtl) => CreateTtl::decode(r)?.into(),
        Some(OpCode::Delete) => Delete::decode(r)?.into(),
        Some(OpCode::SetData) => SetData::decode(r)?.into(),
        Some(OpCode::Check) => Check::decode(r)?.into(),
        _ => {
            let (record, field, offset) = ("multi", "type", r.offset());
            let kind = DecodeErrorKind::UnknownValue(op_type);
            return Err(DecodeError { record, field, offset, kind });
        }
    })
}
