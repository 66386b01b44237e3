//! What takes more than the server at the other end.

use proto::{Check, ErrorCode, Multi, MultiResult, Sync, SyncReply};

use super::check;
use crate::client::Client;
use crate::client::pending::{Pending, decode_multi, decode_read};
use crate::driver::now;
use zk_session_core::{ErrorKind, Outcome};
use zk_session_core::{Failure, Reply};

impl Client {
    /// Makes the server catch up with the leader before it answers reads that this
    /// client makes after this one, on the same connection: if it is lost between the two
    /// the next server may be behind again, and [`stats`](Self::stats) tells of the loss.
    /// It proves nothing: a leader that has just been replaced answers as well;
    /// [`check`](Self::check) asks a quorum.
    ///
    /// # Errors
    /// None of its own.
    pub fn sync(&self, path: &str) -> Pending<()> {
        let full = self.full(path);
        let ask = self.ask("sync", path, |result, _| decode_read::<SyncReply>(result).map(|_| ()));
        self.checked(ask, &Sync { path: full })
    }

    /// Asks a quorum of the ensemble whether a node is there, and at the given
    /// version; `None` for any. It is a transaction without a change, so no server
    /// answers it out of an old view of the world, as it may do with reads.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `BadVersion`, `NoAuth` (it takes the
    /// permission to read).
    pub fn check(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let full = self.full(path);
        let ask = self.ask("check", path, finish_check);
        if let Err(failure) = check(path) {
            return Pending::new(ask, Err(failure));
        }
        let check = Check { path: full, version: version.unwrap_or(-1) };
        self.request(ask, &Multi::new(&[check.into()]))
    }

    /// A transaction of nothing; see [`LeaseClaim::renew`](crate::LeaseClaim::renew).
    pub(in crate::client) fn prove(&self) -> Pending<()> {
        let ask = self.ask("prove the session on", "/", finish_proof);
        self.submit(ask, |session, to| session.renew_lease(now(), to).map(Some))
    }
}

/// The answer to a transaction of one check. Only its one result says that the node
/// is there: a list that has come short must not.
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
