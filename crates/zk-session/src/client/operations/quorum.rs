//! Requests that involve more than the connected server.

use proto::{Check, ErrorCode, Multi, MultiResult, OpCode, Sync, SyncReply};
use zk_session_core::{ErrorKind, Failure, Operation, Outcome, Reply};

use super::any;
use crate::client::Client;
use crate::client::pending::{Finish, Pending, decode_multi, decode_read};
use crate::clock::now;

/// # Consistency
///
/// A server answers reads from its own state, which may lag behind that of the leader.
impl Client {
    /// Makes the server catch up with the leader before it answers later reads of this client.
    ///
    /// It applies to reads on the same connection. If the connection is lost in between, the next
    /// server may lag behind again; [`stats`](Self::stats) shows the loss. A sync does not prove
    /// that the leader is current: a leader that was just replaced answers it as well. Use
    /// [`check`](Self::check) to involve a quorum.
    ///
    /// # Errors
    /// Returns the errors common to all operations; see [`Client`](Client#operations).
    pub fn sync(&self, path: &str) -> Pending<()> {
        let decode = |result| decode_read::<SyncReply>(result).map(drop);
        self.on_node(OpCode::Sync, path, decode, |path| Sync { path })
    }

    /// Checks with a quorum of the ensemble that a node exists and has the given version; `None`
    /// for any.
    ///
    /// The check is a transaction without a change. A read may be answered from an outdated state;
    /// a transaction cannot.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `BadVersion`, or `NoAuth` without the
    /// permission to read.
    pub fn check(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let check = self.checked(path).map(|path| [Check { path, version: any(version) }.into()]);
        let request = check.as_ref().map(|check| Multi::new(check)).map_err(Clone::clone);
        self.request(self.ask(OpCode::Check, path, Finish::Plain(finish_check)), request)
    }

    /// Sends an empty transaction; see [`SessionLease::renew`](crate::SessionLease::renew).
    pub(in crate::client) fn prove(&self) -> Pending<()> {
        let decode = |result| decode_multi(result).map(drop);
        let ask = self.ask(Operation::RenewLease, "/", Finish::Plain(decode));
        self.submit(ask, |session, to| session.renew_lease(now(), to).map(Some))
    }
}

/// Decodes the reply to a transaction of one check. Only the single result says that the node
/// exists; a shorter list must not count as success.
fn finish_check(result: Result<Reply, Failure>) -> Result<(), Failure> {
    let reply = decode_multi(result)?;
    let code = match reply.results.as_slice() {
        [MultiResult::Checked] => return Ok(()),
        [MultiResult::Error(code)] if !code.is_ok() => *code,
        _ => ErrorCode::RUNTIME_INCONSISTENCY,
    };
    Err((ErrorKind::Server(code), Outcome::NotApplied))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proto::{Encode, MultiReply, Zxid};

    use super::*;

    fn checked(results: &[MultiResult]) -> Result<(), Failure> {
        let mut body = BytesMut::new();
        MultiReply { results: results.to_vec() }.encode(&mut body);
        finish_check(Ok(Reply { zxid: Zxid(1), body: body.freeze() }))
    }

    #[test]
    fn check_succeeds_only_with_a_single_successful_result() {
        let rejected = |code| Err((ErrorKind::Server(code), Outcome::NotApplied));
        let unfit = rejected(ErrorCode::RUNTIME_INCONSISTENCY);
        for (results, expected) in [
            (&[MultiResult::Checked][..], Ok(())),
            (&[MultiResult::Error(ErrorCode::NO_NODE)], rejected(ErrorCode::NO_NODE)),
            (&[MultiResult::Error(ErrorCode::OK)], unfit.clone()),
            (&[MultiResult::Deleted], unfit.clone()),
            (&[MultiResult::Checked, MultiResult::Checked], unfit.clone()),
            (&[], unfit),
        ] {
            assert_eq!(checked(results), expected, "{results:?}");
        }
    }
}
