//! Guaranteed deletes, which the session repeats over reconnects.

use proto::{ErrorCode, OpCode};
use zk_session_core::{ErrorKind, Failure, Reply};

use crate::client::Client;
use crate::client::pending::{Finish, Pending};
use crate::clock::now;

/// # Guaranteed deletes
impl Client {
    /// Deletes a node, guaranteed, as in Curator.
    ///
    /// From the call on, the session repeats the delete over reconnects until a server has answered
    /// it or the session has ended, even if the future is dropped. Use it for nodes with names that
    /// are never used again, because it deletes any node with the name.
    ///
    /// If no server answers, only the end of the session bounds the delete. Bound the wait with
    /// [`with_timeout`](Self::with_timeout) or [`Config::request_timeout`](crate::Config::request_timeout):
    /// it ends with [`ErrorKind::TimedOut`] and [`Outcome::Unknown`](crate::Outcome::Unknown), and the
    /// delete continues.
    ///
    /// Returns false if the node did not exist: another client has deleted it. If only a repeated
    /// delete finds no node, it counts as deleted by this one.
    ///
    /// If [too many](crate::SessionEvent::CleanUpBacklog) deletes are pending, this one waits in the
    /// backlog. The caller gets [`ErrorKind::LimitReached`] with
    /// [`Outcome::Unknown`](crate::Outcome::Unknown) at once, and the node is deleted later. The
    /// limit is [`Limit::CleanUps`](crate::Limit::CleanUps) or
    /// [`Limit::CleanUpBytes`](crate::Limit::CleanUpBytes).
    ///
    /// # Errors
    /// * The server can reject the request with `NotEmpty` or `NoAuth`.
    /// * [`ErrorKind::SessionEnded`] if the session ends first. An ephemeral node of this session
    ///   is then deleted with the session.
    #[doc(alias = "guaranteed")]
    pub fn delete_guaranteed(&self, path: &str) -> Pending<bool> {
        let ask = self.ask(OpCode::Delete, path, Finish::Plain(finish_delete_guaranteed));
        let full = self.checked_doomed(path);
        self.submit(ask, |session, to| {
            session.delete_guaranteed(now(), &full?, Some(to)).map(|()| None)
        })
    }
}

pub(in crate::client) fn finish_delete_guaranteed(
    result: Result<Reply, Failure>,
) -> Result<bool, Failure> {
    match result {
        Ok(_) => Ok(true),
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(false),
        Err(failure) => Err(failure),
    }
}
