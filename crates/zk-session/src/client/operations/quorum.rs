//! Requests that involve more than the connected server.

use proto::{Check, ErrorCode, Multi, MultiResult, Sync, SyncReply};

use super::check;
use crate::client::Client;
use crate::client::pending::{Pending, decode_multi, decode_read};
use crate::driver::now;
use zk_session_core::{ErrorKind, Outcome};
use zk_session_core::{Failure, Reply};

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
        let full = self.full(path);
        let ask = self.ask("sync", path, |result, _| decode_read::<SyncReply>(result).map(|_| ()));
        self.checked(ask, &Sync { path: full })
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
        let full = self.full(path);
        let ask = self.ask("check", path, finish_check);
        if let Err(failure) = check(path) {
            return Pending::new(ask, Err(failure));
        }
        let check = Check { path: full, version: version.unwrap_or(-1) };
        self.request(ask, &Multi::new(&[check.into()]))
    }

    /// Sends an empty transaction; see [`SessionLease::renew`](crate::SessionLease::renew).
    pub(in crate::client) fn prove(&self) -> Pending<()> {
        let ask = self.ask("prove the session on", "/", finish_proof);
        self.submit(ask, |session, to| session.renew_lease(now(), to).map(Some))
    }
}

/// Decodes the reply to a transaction of one check. Only the single result says that the node
/// exists; a shorter list must not count as success.
fn finish_check(result: Result<Reply, Failure>, _: usize) -> Result<(), Failure> {
    let reply = decode_multi(result)?;
    let code = match reply.results.as_slice() {
        [MultiResult::Checked] => return Ok(()),
        [MultiResult::Error(code)] if !code.is_ok() => *code,
        _ => ErrorCode::RUNTIME_INCONSISTENCY,
    };
    Err((ErrorKind::Server(code), Outcome::NotApplied))
}

fn finish_proof(result: Result<Reply, Failure>, _: usize) -> Result<(), Failure> {
    decode_multi(result).map(|_| ())
}
