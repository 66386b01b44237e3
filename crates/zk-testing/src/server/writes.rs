//! Requests that become transactions, including those that fail.

use bytes::Bytes;
use proto::Reader;
use proto::{Check, Decode, DecodeError, ErrorCode, OpCode, SessionId};

use super::Ensemble;
use super::acl::AskedAcl;
use super::connection::Ticket;
use super::create_request::CreateBody;
use super::dispatch::DELETE_CONTAINER;
use super::multi::Prepared;
use super::observer::CloseCause;
use super::prepare::Preparation;
use super::replication::Origin;
use super::sessions::Owner;
use super::txn::{Applied, TxnBody, TxnOp};

/// Reason why a write changes nothing.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// The request is refused with this error.
    Code(ErrorCode),
    /// The request cannot be parsed.
    Unreadable,
    /// The server fails after it has taken a zxid.
    Lost,
}

impl Ensemble {
    /// Processes a write at the leader.
    pub(super) fn write(&mut self, ticket: Ticket, op: i32, body: &Bytes) {
        let Some(connection) = self.connections.get(&ticket.connection) else { return };
        let Some(session_id) = connection.session_id() else { return };
        let here = Owner { server: connection.server, connection: ticket.connection };
        let refused = self.sessions.check(session_id, here).err();
        let origin = Some(Origin::Request(ticket));
        match OpCode::from_code(op) {
            // `PrepRequestProcessor` does not check who closes a session, nor whether it is alive.
            Some(OpCode::CloseSession) => {
                return self.close_session(session_id, CloseCause::Requested, origin);
            }
            // An Apache release that does not refuse a lone check never answers it.
            Some(OpCode::Check) if refused.is_none() && !self.settings.version.is_keeper_like() => {
                return self.commit(session_id, check_alone(body), None);
            }
            _ => {}
        }
        let mut prepared = self.prepare(ticket, session_id, op, body);
        if let Some(code) = refused {
            prepared = refuse(op, prepared, code);
        }
        match prepared {
            Ok(txn) => self.commit(session_id, txn, origin),
            Err(Refusal::Code(code)) => self.commit(session_id, TxnBody::Error(code), origin),
            Err(Refusal::Unreadable) if self.settings.version.unparsable_write_takes_zxid() => {
                self.commit(session_id, TxnBody::Error(ErrorCode::MARSHALLING_ERROR), origin);
            }
            Err(Refusal::Unreadable) => {
                self.answer_applied(ticket, Applied::Error(ErrorCode::MARSHALLING_ERROR));
            }
            Err(Refusal::Lost) if !self.settings.version.failed_write_loses_its_zxid() => {
                self.commit(session_id, TxnBody::Error(ErrorCode::MARSHALLING_ERROR), origin);
            }
            Err(Refusal::Lost) => {
                self.zxid.0 += 1;
                self.answer_applied(ticket, Applied::Lost);
            }
        }
    }

    fn prepare(
        &self,
        ticket: Ticket,
        session_id: SessionId,
        op: i32,
        body: &Bytes,
    ) -> Result<TxnBody, Refusal> {
        let version = self.settings.version;
        let refuse = |_: DecodeError| Refusal::Unreadable;
        let identities = match self.connections.get(&ticket.connection) {
            Some(connection) => &connection.identities[..],
            None => &[],
        };
        let tree = &self.servers[self.leader].tree;
        let mut preparation =
            Preparation::new(tree, &self.settings, session_id, identities, &self.open);
        let mut r = Reader::new(body, "request");
        let prepared = match OpCode::from_code(op) {
            Some(
                op @ (OpCode::Create
                | OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl),
            ) => {
                let request = CreateBody::decode(&mut r, op).map_err(refuse)?;
                preparation.create(&request.alone(op))
            }
            Some(OpCode::Delete) => {
                let path = r.opt_text("path").map_err(refuse)?;
                preparation.delete(path.as_deref(), r.i32("version").map_err(refuse)?)
            }
            Some(OpCode::SetData) => {
                let path = r.opt_text("path").map_err(refuse)?;
                let data = r.slice("data").map_err(refuse)?;
                preparation.set_data(path.as_deref(), data, r.i32("version").map_err(refuse)?)
            }
            Some(OpCode::SetAcl) => {
                let path = r.opt_text("path").map_err(refuse)?;
                let acl = AskedAcl::opt_list(&mut r).map_err(refuse)?;
                preparation.set_acl(
                    path.as_deref(),
                    acl.as_deref(),
                    r.i32("version").map_err(refuse)?,
                )
            }
            Some(OpCode::Multi) => {
                return match super::multi::prepare(preparation, version, body) {
                    Prepared::Txn(txn) => Ok(txn),
                    Prepared::Lost => Err(Refusal::Lost),
                    Prepared::Unreadable => Err(Refusal::Unreadable),
                };
            }
            Some(OpCode::Check) if version.is_keeper_like() => {
                let path = r.opt_text("path").map_err(refuse)?;
                preparation.check(path.as_deref(), r.i32("version").map_err(refuse)?)
            }
            Some(OpCode::Reconfig) => Err(ErrorCode::RECONFIG_DISABLED),
            _ if op == DELETE_CONTAINER => {
                // 3.8 parses another record here and rejects the path that it finds.
                match Reader::new(body, "DeleteContainerRequest").text("path") {
                    Ok(path) if version.refuses_lone_check() => preparation.delete_container(&path),
                    Ok(_) => Err(ErrorCode::BAD_ARGUMENTS),
                    Err(error) => return Err(refuse(error)),
                }
            }
            _ => Err(ErrorCode::UNIMPLEMENTED),
        };
        prepared.map(TxnBody::Op).map_err(Refusal::Code)
    }
}

/// Returns the outcome of a write of a session that has moved or ended. The server parses a request
/// before it checks the session, and it checks it for each operation of a multi.
fn refuse(
    op: i32,
    prepared: Result<TxnBody, Refusal>,
    code: ErrorCode,
) -> Result<TxnBody, Refusal> {
    let checks_session = op != DELETE_CONTAINER && op != OpCode::Reconfig.code();
    match prepared {
        Ok(TxnBody::Multi(ops)) if ops.is_empty() => Ok(TxnBody::Multi(ops)),
        Ok(TxnBody::Multi(ops)) => Ok(TxnBody::FailedMulti { len: ops.len(), at: 0, code }),
        Ok(TxnBody::FailedMulti { len, .. }) => Ok(TxnBody::FailedMulti { len, at: 0, code }),
        Ok(_) | Err(Refusal::Code(_)) if checks_session => Err(Refusal::Code(code)),
        prepared => prepared,
    }
}

/// Returns the transaction of a check outside a multi. It takes a zxid and is never answered.
fn check_alone(body: &Bytes) -> TxnBody {
    match Check::from_frame(body) {
        Ok(_) => TxnBody::Op(TxnOp::Check),
        Err(_) => TxnBody::Error(ErrorCode::MARSHALLING_ERROR),
    }
}
