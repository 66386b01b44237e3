//! Multi: from the request to the transaction, with the differences between the releases.

use std::borrow::Cow;

use bytes::Bytes;
use proto::Reader;
use proto::{ErrorCode, OpCode};

use super::acl::AskedAcl;
use super::create_request::CreateBody;
use super::prepare::Preparation;
use super::txn::{TxnBody, TxnOp};
use super::version::Version;

/// Result of validating a multi.
pub(super) enum Prepared {
    Txn(TxnBody),
    /// The multi has a null path: the server fails after it has taken a zxid.
    Lost,
    /// The server fails before it takes a zxid.
    Unreadable,
}

/// Reason why the operations cannot be parsed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unreadable {
    /// A record is malformed or its operation is unknown.
    Record,
    /// An ACL is null. A release that checks create flags while parsing fails on it.
    NullAcl,
}

/// Validates a multi. A multi that cannot be parsed takes a zxid too.
pub(super) fn prepare(preparation: Preparation<'_>, version: Version, body: &Bytes) -> Prepared {
    let parts = match parts(body, version) {
        Ok(parts) => parts,
        Err(Unreadable::Record) => {
            return Prepared::Txn(TxnBody::Error(ErrorCode::MARSHALLING_ERROR));
        }
        Err(Unreadable::NullAcl) => return Prepared::Unreadable,
    };
    if !version.is_keeper_like() && parts.iter().any(Part::has_null_path) {
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
            // The server fails on the whole multi and not on one operation.
            Err(ErrorCode::MARSHALLING_ERROR) => {
                return TxnBody::Error(ErrorCode::MARSHALLING_ERROR);
            }
            // RaftKeeper checks the permissions of all operations first (`StoreRequestMultiTxn`).
            Err(ErrorCode::NO_AUTH) if version == Version::RaftKeeper => {
                return TxnBody::Error(ErrorCode::NO_AUTH);
            }
            Err(code) => return TxnBody::FailedMulti { len: parts.len(), at, code },
        }
    }
    TxnBody::Multi(ops)
}

/// One operation, decoded as permissively as a server does it.
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
    /// A read. A server also parses reads, unless the multi contains writes, and then rejects them
    /// as unknown.
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

    fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    /// Checks the create flags as a release does while parsing. It checks in this order: the mode
    /// exists, the ACL is not null, a TTL mode has its time to live.
    fn check_mode(&self) -> Result<(), Unreadable> {
        match self {
            Self::Create { op: OpCode::CreateTtl, .. } => Ok(()),
            Self::Create { body, .. } => match (body.flags, &body.acl) {
                (0..=6, None) => Err(Unreadable::NullAcl),
                (0..=4, Some(_)) => Ok(()),
                _ => Err(Unreadable::Record),
            },
            _ => Ok(()),
        }
    }

    fn prepare(
        &self,
        preparation: &mut Preparation<'_>,
        version: Version,
    ) -> Result<TxnOp, ErrorCode> {
        match self {
            Self::Create { op, body } => {
                let args = body.in_multi(*op, version);
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

/// Decodes the operations.
pub(super) fn parts(body: &Bytes, version: Version) -> Result<Vec<Part<'_>>, Unreadable> {
    let mut r = Reader::new(body, "multi");
    let mut parts: Vec<Part<'_>> = Vec::new();
    loop {
        let (op_type, done, _err) = header(&mut r).ok_or(Unreadable::Record)?;
        if done {
            return Ok(parts);
        }
        let op = OpCode::from_code(op_type).filter(|op| version.has_op(*op));
        let op = op.ok_or(Unreadable::Record)?;
        let part = part(&mut r, op).ok_or(Unreadable::Record)?;
        if !version.bad_flags_fail_their_op() {
            part.check_mode()?;
        }
        if parts.first().is_some_and(|first| first.is_read() != part.is_read()) {
            return Err(Unreadable::Record);
        }
        parts.push(part);
    }
}

/// Decodes a header: operation, whether the list ends here, error.
fn header(r: &mut Reader<'_>) -> Option<(i32, bool, i32)> {
    Some((r.i32("type").ok()?, r.bool("done").ok()?, r.i32("err").ok()?))
}

fn part<'a>(r: &mut Reader<'a>, op: OpCode) -> Option<Part<'a>> {
    Some(match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            let mut body = CreateBody::decode(r, op).ok()?;
            body.acl.iter_mut().flatten().for_each(AskedAcl::reread);
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
