//! Requests that become transactions, also if they fail.

use bytes::Bytes;
use proto::wire::Reader;
use proto::{
    Check, Create, Create2, CreateContainer, CreateTtl, Decode, DecodeError, DecodeErrorKind,
    Delete, ErrorCode, OpCode, SetAcl, SetData,
};

use super::connection::Ticket;
use super::dispatch::DELETE_CONTAINER;
use super::faults::Cut;
use super::prepare::{CreateArgs, Preparation};
use super::replication::Origin;
use super::sessions::Owner;
use super::txn::{TxnBody, TxnOp};
use super::{Ensemble, LEADER};

/// What a write that could not be read is answered with.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    code: ErrorCode,
    takes_zxid: bool,
}

impl Ensemble {
    /// Carries out a write at the leader.
    pub(super) fn write(&mut self, ticket: Ticket, op: i32, body: &Bytes) {
        let Some(connection) = self.connections.get(&ticket.connection) else { return };
        let Some(session_id) = connection.session_id() else { return };
        let here = Owner { server: connection.server, connection: ticket.connection };
        if self.sessions.owner(session_id) != Some(here) {
            // The session has moved on: this connection is closed without a reply.
            return self.close(ticket.connection, Cut::Fin);
        }
        let origin = Some(Origin::Request(ticket));
        match OpCode::from_code(op) {
            Some(OpCode::CloseSession) => return self.end_session(session_id, origin),
            // A release that does not refuse it never answers it.
            Some(OpCode::Check) => return self.commit(session_id, check_alone(body), None),
            _ => {}
        }
        match self.prepare(ticket, session_id, op, body) {
            Ok(txn) => self.commit(session_id, txn, origin),
            Err(Refusal { code, takes_zxid: true }) => {
                self.commit(session_id, TxnBody::Error(code), origin);
            }
            Err(Refusal { code, takes_zxid: false }) => {
                self.answer_applied(ticket, super::txn::Applied::Error(code));
            }
        }
    }

    fn prepare(
        &self,
        ticket: Ticket,
        session_id: i64,
        op: i32,
        body: &Bytes,
    ) -> Result<TxnBody, Refusal> {
        let version = self.settings.version;
        let refuse = |error: DecodeError| {
            let mut refusal = Refusal::of(error, self.settings.extended_types);
            refusal.takes_zxid |= version.unparsable_write_takes_zxid();
            refusal
        };
        let identities = match self.connections.get(&ticket.connection) {
            Some(connection) => &connection.identities[..],
            None => &[],
        };
        let tree = &self.servers[LEADER].tree;
        let mut preparation =
            Preparation::new(tree, &self.settings, session_id, identities, &self.open);
        let prepared = match OpCode::from_code(op) {
            Some(OpCode::Create) => {
                let request = Create::from_frame(body).map_err(refuse)?;
                preparation.create(&CreateArgs::of_create(&request, false))
            }
            Some(OpCode::Create2) => {
                let request = Create2::from_frame(body).map_err(refuse)?;
                preparation.create(&CreateArgs::of_create(&request, true))
            }
            Some(OpCode::CreateContainer) => {
                let request = CreateContainer::from_frame(body).map_err(refuse)?;
                preparation.create(&CreateArgs::of_container(&request))
            }
            Some(OpCode::CreateTtl) => {
                let request = CreateTtl::from_frame(body).map_err(refuse)?;
                preparation.create(&CreateArgs::of_ttl(&request))
            }
            Some(OpCode::Delete) => {
                let request = Delete::from_frame(body).map_err(refuse)?;
                preparation.delete(&request.path, request.version)
            }
            Some(OpCode::SetData) => {
                let request = SetData::from_frame(body).map_err(|e| validated(refuse(e), e))?;
                preparation.set_data(&request.path, request.data.as_deref(), request.version)
            }
            Some(OpCode::SetAcl) => {
                let request = SetAcl::from_frame(body).map_err(|e| validated(refuse(e), e))?;
                preparation.set_acl(&request.path, &request.acl, request.aversion)
            }
            Some(OpCode::Multi) => return Ok(super::multi::prepare(preparation, version, body)),
            Some(OpCode::Reconfig) => Err(ErrorCode::RECONFIG_DISABLED),
            _ if op == DELETE_CONTAINER => {
                // 3.8 reads another record here, and finds a path it does not take.
                match Reader::new(body, "DeleteContainerRequest").text("path") {
                    Ok(path) if version.refuses_lone_check() => preparation.delete_container(&path),
                    Ok(_) => Err(ErrorCode::BAD_ARGUMENTS),
                    Err(error) => return Err(refuse(error)),
                }
            }
            _ => Err(ErrorCode::UNIMPLEMENTED),
        };
        let done = prepared.map(TxnBody::Op);
        done.map_err(|code| Refusal { code, takes_zxid: true })
    }
}

impl Refusal {
    /// What a server makes of bytes that the codec does not take for the request.
    fn of(error: DecodeError, extended_types: bool) -> Self {
        match error.kind {
            DecodeErrorKind::UnknownCreateFlags(flags) => {
                Self { code: flags_refusal(flags, extended_types), takes_zxid: true }
            }
            // It can be read, and fails where the null is used.
            DecodeErrorKind::NullText => {
                Self { code: ErrorCode::MARSHALLING_ERROR, takes_zxid: true }
            }
            _ => Self { code: ErrorCode::MARSHALLING_ERROR, takes_zxid: false },
        }
    }
}

/// What create flags are refused with that are not the operation's: those of nodes with a time to
/// live are known, but need another operation.
pub(super) fn flags_refusal(flags: i32, extended_types: bool) -> ErrorCode {
    let with_ttl = matches!(flags, 5 | 6);
    if with_ttl && !extended_types { ErrorCode::UNIMPLEMENTED } else { ErrorCode::BAD_ARGUMENTS }
}

/// setData and setACL look at the path before they use it.
fn validated(refusal: Refusal, error: DecodeError) -> Refusal {
    match (error.kind, error.field) {
        (DecodeErrorKind::NullText, "path") => {
            Refusal { code: ErrorCode::BAD_ARGUMENTS, ..refusal }
        }
        _ => refusal,
    }
}

/// A check outside of a multi takes a zxid and is never heard of again.
fn check_alone(body: &Bytes) -> TxnBody {
    match Check::from_frame(body) {
        Ok(_) => TxnBody::Op(TxnOp::Check),
        Err(_) => TxnBody::Error(ErrorCode::MARSHALLING_ERROR),
    }
}
