//! Nodes that a lost reply leaves behind: guaranteed deletes, which are repeated over reconnects,
//! and the search for a protected node.

use proto::path::child;
use proto::{ErrorCode, OpCode};
use zk_session_core::{Error, ErrorKind, Failure, Reply};

use super::Created;
use crate::client::Client;
use crate::client::pending::{Finish, Pending};
use crate::driver::now;

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
    pub fn delete_guaranteed(&self, path: &str) -> Pending<bool> {
        let ask = self.ask(OpCode::Delete, path, Finish::Plain(finish_delete_guaranteed));
        let full = self.checked_doomed(path);
        self.submit(ask, |session, to| {
            session.delete_guaranteed(now(), &full?, Some(to)).map(|()| None)
        })
    }

    /// As [`delete_guaranteed`](Self::delete_guaranteed), in one transaction with a change of the
    /// node's data, which makes this delete distinguishable from others.
    ///
    /// A client with a data watch and a child watch on the node receives `NODE_DATA_CHANGED` and
    /// `NODE_DELETED` with the same [`zxid`](crate::WatchEvent::zxid), if its server is of 3.9.0 or
    /// newer. After any other delete it receives `NODE_DELETED` alone, or a change with another zxid
    /// before it.
    ///
    /// If a server rejects the transaction, the node is deleted without the change. For example,
    /// its access control list may permit no change of the data.
    ///
    /// # Errors
    /// As [`delete_guaranteed`](Self::delete_guaranteed).
    pub fn delete_marked_guaranteed(&self, path: &str) -> Pending<bool> {
        let ask = self.ask(OpCode::Delete, path, Finish::Plain(finish_delete_guaranteed));
        let full = self.checked_doomed(path);
        self.submit(ask, |session, to| {
            session.delete_marked_guaranteed(now(), &full?, Some(to)).map(|()| None)
        })
    }

    /// Searches for the node of a protected create whose reply was lost: the child of `parent` whose
    /// name starts with `prefix`; see [`protection_prefix`](crate::path::protection_prefix). Returns
    /// `None` if it does not exist. The caller decides whether its session owns the node.
    ///
    /// This server may lag behind the server that applied the create. So the search begins with a
    /// `sync`. It also orders the list after all requests of the old connection that were still in
    /// flight: the leader rejects requests from a connection that the session has left.
    ///
    /// # Errors
    /// Returns the errors of [`sync`](Self::sync) and of reads. The search changes nothing, so it
    /// can be repeated.
    pub async fn find_protected(
        &self,
        parent: &str,
        prefix: &str,
    ) -> Result<Option<Created>, Error> {
        let (synced, listed) = {
            let _one_write = self.batch();
            (self.sync(parent), self.get_children(parent))
        };
        let children = match (synced.await, listed.await) {
            (Ok(()), Ok(children)) => children,
            (Ok(()), Err(error)) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(None),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let name = children.names.names().find(|name| name.starts_with(prefix));
        let Some(name) = name else { return Ok(None) };
        let path = child(parent, &name);
        Ok(self.exists(&path).await?.map(|stat| Created { path, stat }))
    }

    /// Deletes every child of `parent` whose name starts with `prefix`, guaranteed and without a
    /// reply.
    ///
    /// It deletes the node that a protected create may have left, when no caller will get the reply
    /// to that create. The session reports a rejected delete as
    /// [`SessionEvent::CleanUpFailed`](crate::SessionEvent::CleanUpFailed). See
    /// [`delete_guaranteed`](Self::delete_guaranteed).
    pub fn delete_protected_guaranteed(&self, parent: &str, prefix: &str) {
        let full = self.full(parent);
        // An error means that the session is over, and its ephemeral nodes with it, or that the
        // path is longer than that of any create.
        drop(self.shared.lock().delete_protected_guaranteed(now(), &full, prefix));
        self.shared.wake();
    }
}

fn finish_delete_guaranteed(result: Result<Reply, Failure>) -> Result<bool, Failure> {
    match result {
        Ok(_) => Ok(true),
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(false),
        Err(failure) => Err(failure),
    }
}
