//! multi: from the request to the transaction, in the ways releases read it.

use std::borrow::Cow;

use bytes::Bytes;
use proto::wire::Reader;
use proto::{ErrorCode, OpCode};

use super::acl::AskedAcl;
use super::create_request::CreateBody;
use super::prepare::Preparation;
use super::txn::{TxnBody, TxnOp};
use super::version::Version;

/// What becomes of a multi.
pub(super) enum Prepared {
    Txn(TxnBody),
    /// A null path, over which the server fails between taking a zxid and making a transaction.
    Lost,
}

/// Validates a multi. One that cannot be read takes a zxid too.
pub(super) fn prepare(preparation: Preparation<'_>, version: Version, body: &Bytes) -> Prepared {
    let Some(parts) = parts(body, version) else {
        return Prepared::Txn(TxnBody::Error(ErrorCode::MARSHALLING_ERROR));
    };
    if parts.iter().any(Part::has_null_path) {
        return Prepared::Lost;
    }
    Prepared::Txn(validate(preparation, version, &parts))
}

fn validate(mut preparation: Preparation<'_>, version: Version, parts: &[Part<'_>]) -> TxnBody {
    preparation.begin_multi();
    let mut ops = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        match part.prepare(&mut preparation, version) {
            Ok(op) => ops.push(op),
            // No answer of one operation but a failure of the server, over the whole.
            Err(ErrorCode::MARSHALLING_ERROR) => {
                return TxnBody::Error(ErrorCode::MARSHALLING_ERROR);
            }
            Err(code) => return TxnBody::FailedMulti { len: parts.len(), at, code },
        }
    }
    TxnBody::Multi(ops)
}

/// One operation, as liberally as a server reads it.
pub(super) enum Part<'a> {
    Create {
        op: OpCode,
        body: CreateBody<'a>,
    },
    Delete {
        path: Option<Cow<'a, str>>,
        version: i32,
    },
    SetData {
        path: Option<Cow<'a, str>>,
        data: Option<&'a [u8]>,
        version: i32,
    },
    Check {
        path: Option<Cow<'a, str>>,
        version: i32,
    },
    /// A server reads these, too, unless there are others, and then does not know them.
    Read {
        op: OpCode,
        path: Option<Cow<'a, str>>,
    },
}

impl Part<'_> {
    fn has_null_path(&self) -> bool {
        let (Self::Create { body: CreateBody { path, .. }, .. }
        | Self::Delete { path, .. }
        | Self::SetData { path, .. }
        | Self::Check { path, .. }
        | Self::Read { path, .. }) = self;
        path.is_none()
    }

    fn prepare(
        &self,
        preparation: &mut Preparation<'_>,
        version: Version,
    ) -> Result<TxnOp, ErrorCode> {
        match self {
            Self::Create { op, body } => {
                let args = body.in_multi(*op, version.multi_keeps_create_ops());
                preparation.create(&args.ok_or(ErrorCode::MARSHALLING_ERROR)?)
            }
            Self::Delete { path, version } => preparation.delete(path.as_deref(), *version),
            Self::SetData { path, data, version } => {
                preparation.set_data(path.as_deref(), *data, *version)
            }
            Self::Check { path, version } => preparation.check(path.as_deref(), *version),
            Self::Read { .. } => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }
}

/// The operations; `None` if they cannot be read.
pub(super) fn parts(body: &Bytes, version: Version) -> Option<Vec<Part<'_>>> {
    let mut r = Reader::new(body, "multi");
    let mut parts = Vec::new();
    loop {
        let op_type = r.i32("type").ok()?;
        let done = r.bool("done").ok()?;
        r.i32("err").ok()?;
        if done {
            break;
        }
        let part = part(&mut r, OpCode::from_code(op_type)?)?;
        if let Part::Create { op, body } = &part
            && *op != OpCode::CreateTtl
            && !(0..=6).contains(&body.flags)
            && !version.bad_flags_fail_their_op()
        {
            return None;
        }
        parts.push(part);
    }
    let reads = parts.iter().filter(|part| matches!(part, Part::Read { .. })).count();
    (reads == 0 || reads == parts.len()).then_some(parts)
}

fn part<'a>(r: &mut Reader<'a>, op: OpCode) -> Option<Part<'a>> {
    Some(match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            let mut body = CreateBody::decode(r, op).ok()?;
            body.acl.iter_mut().for_each(AskedAcl::reread);
            Part::Create { op, body }
        }
        OpCode::Delete => {
            Part::Delete { path: r.opt_text("path").ok()?, version: r.i32("version").ok()? }
        }
        OpCode::SetData => Part::SetData {
            path: r.opt_text("path").ok()?,
            data: r.slice("data").ok()?,
            version: r.i32("version").ok()?,
        },
        OpCode::Check => {
            Part::Check { path: r.opt_text("path").ok()?, version: r.i32("version").ok()? }
        }
        OpCode::GetData | OpCode::GetChildren => {
            let path = r.opt_text("path").ok()?;
            r.bool("watch").ok()?;
            Part::Read { op, path }
        }
        _ => return None,
    })
}
