//! Guaranteed deletes, over as many connections as they take.

use proto::ErrorCode;

use super::check;
use crate::client::Client;
use crate::client::pending::Pending;
use crate::driver::now;
use zk_session_core::ErrorKind;
use zk_session_core::{Failure, Reply};

impl Client {
    /// Deletes a node, guaranteed, as in Curator: from the moment of the call, and whether or not
    /// anybody waits for the answer, the delete is repeated over reconnects until
    /// a server has answered it, or the session has ended. Meant for nodes whose
    /// names are never used again, since it deletes whatever bears the name.
    ///
    /// If no server answers, nothing but the end of the session bounds the delete. Bound the waiting
    /// with [`within`](Self::within) or
    /// [`Config::request_timeout`](crate::Config::request_timeout): it ends with
    /// [`ErrorKind::TimedOut`] and [`Outcome::Unknown`](crate::Outcome::Unknown), and the delete
    /// continues.
    ///
    /// Answers false if the node was gone already: somebody else has deleted it. One
    /// that is only found gone when the delete is repeated counts as deleted by it.
    ///
    /// If [`CHORES_MAX`](crate::limits::CHORES_MAX) deletes are pending, this one waits in the
    /// [backlog](crate::SessionEvent::CleanUpBacklog). The caller gets [`ErrorKind::LimitReached`]
    /// with [`Outcome::Unknown`](crate::Outcome::Unknown) at once, and the node is deleted later.
    ///
    /// # Errors
    /// The server declines with `NotEmpty`, `NoAuth`; the session ends, and takes
    /// the node along if it is an ephemeral of its own.
    pub fn delete_guaranteed(&self, path: &str) -> Pending<bool> {
        let full = self.full_doomed(path);
        let ask = self.ask("delete", path, finish_delete_guaranteed);
        if let Err(failure) = check(path) {
            return Pending::new(ask, Err(failure));
        }
        self.submit(ask, |session, to| {
            session.delete_guaranteed(now(), &full, Some(to)).map(|()| None)
        })
    }

    /// As [`delete_guaranteed`](Self::delete_guaranteed), for every child of
    /// `parent` whose name starts with `prefix`, and without an answer: what a
    /// create may have left of which nobody will see the answer. A refusal is told
    /// as [`SessionEvent::CleanUpFailed`](crate::SessionEvent::CleanUpFailed).
    pub fn delete_protected_guaranteed(&self, parent: &str, prefix: &str) {
        let full = self.full(parent);
        // An error means that the session is over, and its ephemerals with it, or that the path is
        // longer than a create could have had.
        drop(self.shared().lock().delete_protected_guaranteed(now(), &full, prefix));
        self.shared().wake();
    }
}

fn finish_delete_guaranteed(result: Result<Reply, Failure>, _: usize) -> Result<bool, Failure> {
    match result {
        Ok(_) => Ok(true),
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(false),
        Err(failure) => Err(failure),
    }
}
