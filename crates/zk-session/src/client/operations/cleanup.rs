//! What is removed for certain, over as many connections as it takes.

use proto::ErrorCode;

use super::check;
use crate::client::Client;
use crate::client::pending::Pending;
use crate::core::{Failure, Reply};
use crate::driver::now;
use crate::error::ErrorKind;

impl Client {
    /// Deletes a node for certain: from the moment of the call, and whether or not
    /// anybody waits for the answer, the delete is repeated over reconnects until
    /// a server has answered it, or the session has ended. Meant for nodes whose
    /// names are never used again, since it deletes whatever bears the name.
    ///
    /// A server that answers nothing at all is left for another one, and in the end the session
    /// expires, which is the only bound there is by itself: that of the waiting is set with
    /// [`within`](Self::within) or [`Config::request_timeout`](crate::Config::request_timeout). The
    /// answer is then [`ErrorKind::TimedOut`] with an unknown outcome, and the delete goes on.
    ///
    /// Answers false if the node was gone already: somebody else has deleted it. One
    /// that is only found gone when the delete is repeated counts as deleted by it.
    ///
    /// Of more than [`CHORES_MAX`](crate::limits::CHORES_MAX) at a time, the rest is deleted in its
    /// turn, which [`SessionEvent::CleanUpBacklog`](crate::SessionEvent::CleanUpBacklog) tells, and
    /// the answer is [`ErrorKind::LimitReached`] with
    /// [`Outcome::Unknown`](crate::Outcome::Unknown) at once.
    ///
    /// # Errors
    /// The server declines with `NotEmpty`, `NoAuth`; the session ends, and takes
    /// the node along if it is an ephemeral of its own.
    pub fn delete_for_certain(&self, path: &str) -> Pending<bool> {
        let full = self.full_doomed(path);
        let ask = self.ask("delete", path, finish_delete_for_certain);
        if let Err(failure) = check(path) {
            return Pending::new(ask, Err(failure));
        }
        self.submit(ask, |session, to| {
            session.delete_for_certain(now(), &full, Some(to)).map(|()| None)
        })
    }

    /// As [`delete_for_certain`](Self::delete_for_certain), for every child of
    /// `parent` whose name starts with `prefix`, and without an answer: what a
    /// create may have left of which nobody will see the answer. A refusal is told
    /// as [`SessionEvent::CleanUpFailed`](crate::SessionEvent::CleanUpFailed).
    pub fn sweep_for_certain(&self, parent: &str, prefix: &str) {
        let full = self.full(parent);
        // An error means that the session is over, and its ephemerals with it, or that the path is
        // longer than a create could have had.
        drop(self.shared().lock().sweep_for_certain(now(), &full, prefix));
        self.shared().wake();
    }
}

fn finish_delete_for_certain(result: Result<Reply, Failure>, _: usize) -> Result<bool, Failure> {
    match result {
        Ok(_) => Ok(true),
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(false),
        Err(failure) => Err(failure),
    }
}
